"""Child processes of an event loop: starting them, exchanging data with them, ending them.

A caller may be cancelled at any moment and leaves no process behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from shiftboss.system.processes.cancellation import run_to_completion

EndProcess = Callable[[Process], Awaitable[None]]
BeforeStart = Callable[[], None]

_CHUNK_BYTES: Final = 256 * 1024
_before_start: list[BeforeStart] = []


class ProcessOutput(NamedTuple):
    code: int
    out: bytes
    err: bytes


class OutputTooLargeError(Exception):
    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max)
        self.bytes_max = bytes_max


def call_before_start(callback: BeforeStart) -> None:
    """Call this before every process that this program starts, in the thread that starts it."""
    _before_start.append(callback)


def prepare_start() -> None:
    """Done by `start_process`. A module that starts a process otherwise calls it just before."""
    for callback in _before_start:
        callback()


async def start_process(argv: tuple[str, ...], end: EndProcess, **options: Any) -> Process:
    """Start a program; the options are those of `asyncio.create_subprocess_exec`.

    That function waits forever when it is cancelled before the pipes are connected (Python 3.11).
    So the start itself is never cancelled. When the caller is, the start is awaited, `end` ends
    the process, and then the cancellation is raised.
    """
    prepare_start()
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await run_to_completion(_end_started(starting, end))
        raise


async def kill_group(process: Process) -> None:
    """Kill a process that has not ended, with its process group, and wait until it is gone.

    The process must lead a group of its own: `process_group=0` or `start_new_session=True`. On
    the event loop of a server only the latter works: uvloop knows no `process_group`.
    """
    if process.returncode is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    await wait_for_end(process)


async def wait_for_end(process: Process) -> int:
    """Wait for the end of a process and drop what it still prints.

    asyncio reports the end only after all pipes were read to their ends, so an unread pipe would
    make `process.wait()` wait forever.
    """
    await asyncio.gather(_drain(process.stdout), _drain(process.stderr))
    return await process.wait()


async def exchange(
    process: Process,
    stdin: bytes = b"",
    *,
    output_max: int,
    error_max: int,
    drops_excess: bool = False,
) -> ProcessOutput:
    """Write all of the input and read all of the output.

    Output beyond a limit is dropped with `drops_excess`; otherwise it raises OutputTooLargeError.
    """
    pipes = (
        asyncio.ensure_future(_write(process.stdin, stdin)),
        asyncio.ensure_future(_read(process.stdout, output_max, drops_excess)),
        asyncio.ensure_future(_read(process.stderr, error_max, drops_excess)),
    )
    try:
        _, out, err = await asyncio.gather(*pipes)
    finally:
        # If one fails, the others go on; a pipe that is being read cannot be read by `kill_group`.
        for pipe in pipes:
            pipe.cancel()
        await asyncio.gather(*pipes, return_exceptions=True)
    return ProcessOutput(await process.wait(), out, err)


async def run_silently(*argv: str) -> int:
    """Run a program without input and output; its exit code."""
    process = await start_process(
        argv, kill_group, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, process_group=0
    )
    try:
        return await process.wait()
    finally:
        await kill_group(process)


async def _end_started(starting: asyncio.Future[Process], end: EndProcess) -> None:
    try:
        process = await starting
    except OSError:
        return  # nothing was started
    await end(process)


async def _write(pipe: asyncio.StreamWriter | None, content: bytes) -> None:
    if pipe is None:
        return
    try:
        pipe.write(content)
        await pipe.drain()
    except (ConnectionError, RuntimeError):
        pass  # it ended early (uvloop raises RuntimeError then); its exit code tells why
    pipe.close()


async def _read(pipe: asyncio.StreamReader | None, bytes_max: int, drops_excess: bool) -> bytes:
    content = bytearray()
    while pipe is not None and (chunk := await pipe.read(_CHUNK_BYTES)):
        if len(content) + len(chunk) > bytes_max and not drops_excess:
            raise OutputTooLargeError(bytes_max)
        content += chunk[: bytes_max - len(content)]
    return bytes(content)


async def _drain(pipe: asyncio.StreamReader | None) -> None:
    while pipe is not None and await pipe.read(_CHUNK_BYTES):
        pass
