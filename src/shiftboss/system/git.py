"""Running git so that nothing in a worker's repository has a say in what it does or answers."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import EvidenceUnavailable
from shiftboss.system.cancellation import start_program
from shiftboss.system.processes import stand_back

# Seeing to it that no git outlives this process, however it ends.
#
# Linux could send a git a signal when its parent dies, but not to what that git has started. So
# there is one small process that knows the groups of all of them; see git_reaper.py.


_REAPER: Final = str(Path(__file__).with_name("git_reaper.py"))


class GitReaper:
    """To tell takes microseconds. The first to tell starts the process; so does the next after
    somebody ended it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._pipe: int | None = None

    def began(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            self._tell(f"+{group}\n")

    def ended(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, line.encode())
            except BlockingIOError:
                pass  # it was stopped from outside, and does not read
            except BrokenPipeError:
                os.close(self._pipe)
                self._pipe = None
        if self._pipe is None:
            self._pipe = _start(self._groups)


def _start(groups: Iterable[int]) -> int:
    """The end of the pipe that keeps it waiting."""
    its_end, our_end = os.pipe()
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", _REAPER],
        {},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, its_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        # What is sent to everybody at a terminal is not meant for it.
        setsid=sys.platform == "linux",
    )
    os.close(its_end)
    os.set_blocking(our_end, False)
    os.write(our_end, "".join(f"+{one}\n" for one in groups).encode())
    return our_end


# One for the process: it is about the end of the process.
WATCH: Final = GitReaper()


GIT_SECONDS: Final = 60.0
# Enough for the names of some hundred thousand files. A tree can be made that unfolds to billions.
OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024
ERROR_BYTES_MAX: Final = 64 * 1024
# A diff is held in memory until it is whole, and a worker can make one of any size.
MEMORY_BYTES_MAX: Final = 2 * 1024 * 1024 * 1024

_CONFIG: Final = Path(__file__).with_name("git.config")
# What a fetch over ssh or through a proxy needs of our own environment.
_KEPT: Final = ("PATH", "SSH_AUTH_SOCK", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")


class GitOutput(NamedTuple):
    """What a git said, and its exit code."""

    code: int
    out: bytes
    err: str

    @property
    def first_error(self) -> str:
        lines = [line for line in self.err.splitlines() if line.strip()]
        return (lines or [f"exit code {self.code}"])[0][:300]


async def git(
    arguments: Sequence[str],
    folder: Path,
    *,
    stdin: bytes = b"",
    seconds: float = GIT_SECONDS,
    environment: Mapping[str, str] | None = None,
) -> GitOutput:
    """Run git in `folder`. `environment` comes on top of the scrubbed one."""
    program = shutil.which("git")
    if program is None:
        raise EvidenceUnavailable("git is not installed")
    try:
        process = await start_program(
            (program, "--no-pager", "--literal-pathspecs", *arguments),
            _end,
            cwd=folder,
            env={**_environment(), **(environment or {})},
            stdin=asyncio.subprocess.PIPE if stdin else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # A group to be ended as one. Not a session: Linux may share the time among sessions,
            # and then niceness counts within each alone.
            process_group=0,
        )
    except OSError as error:
        raise EvidenceUnavailable(f"git cannot be run: {error.strerror}") from error
    WATCH.began(process.pid)
    try:
        _restrain(process.pid)
        async with asyncio.timeout(seconds):
            return await _talk(process, stdin)
    except TimeoutError:
        raise EvidenceUnavailable(
            f"git {arguments[0]} did not end within {seconds:.0f} seconds"
        ) from None
    finally:
        try:
            await _end(process)
        finally:
            WATCH.ended(process.pid)


def checked(said: GitOutput, what: str) -> bytes:
    """The output of a git that must not fail."""
    if said.code != 0:
        raise EvidenceUnavailable(f"{what}: {said.first_error}")
    return said.out


def _environment() -> dict[str, str]:
    """Ours has tokens in it and settings of git; hers has neither."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        "LC_ALL": "C",
        "HOME": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(_CONFIG),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null",
        # A missing object is missing: no remote of the repository is asked for it.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
    }


def _restrain(pid: int) -> None:
    """Whoever waits for an answer of the server comes first."""
    try:
        stand_back(pid)
        if sys.platform == "linux":
            resource.prlimit(pid, resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    except ProcessLookupError:
        pass  # it has ended


async def _talk(process: asyncio.subprocess.Process, stdin: bytes) -> GitOutput:
    assert process.stdout is not None
    assert process.stderr is not None
    tell = asyncio.create_task(_tell(process, stdin))
    out = asyncio.create_task(_read(process.stdout, OUTPUT_BYTES_MAX))
    err = asyncio.create_task(_read(process.stderr, ERROR_BYTES_MAX))
    try:
        await asyncio.gather(tell, out, err)
    finally:
        # When one of them fails the others go on, and nobody else could read.
        for task in (tell, out, err):
            task.cancel()
        await asyncio.gather(tell, out, err, return_exceptions=True)
    return GitOutput(await process.wait(), out.result(), err.result().decode(errors="replace"))


async def _tell(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    if process.stdin is None:
        return
    try:
        process.stdin.write(stdin)
        await process.stdin.drain()
    except (BrokenPipeError, ConnectionResetError, RuntimeError):
        pass  # it ended early, which uvloop tells as a RuntimeError; its exit code tells why
    process.stdin.close()


async def _read(stream: asyncio.StreamReader, limit: int) -> bytes:
    read = bytearray()
    while part := await stream.read(1024 * 1024):
        read += part
        if len(read) > limit:
            raise EvidenceUnavailable(
                f"git said more than {limit} bytes", hint="the repository is too large to look at"
            )
    return bytes(read)


async def _end(process: asyncio.subprocess.Process) -> None:
    """One that has not ended by itself is killed with all that it started."""
    if process.returncode is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    # Its end is told when its pipes are read to theirs; a reader that has stopped never sees it.
    await asyncio.gather(_drain(process.stdout), _drain(process.stderr))
    await process.wait()


async def _drain(stream: asyncio.StreamReader | None) -> None:
    while stream is not None and await stream.read(1024 * 1024):
        pass
