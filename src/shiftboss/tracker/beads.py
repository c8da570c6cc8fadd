"""Tasks from the beads tracker, read with its command `bd`."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import ShiftbossError, TrackerUnavailable
from shiftboss.protocol.bus import FoundTask
from shiftboss.tracker.issues import BadIssueError, is_task_id, task_of

ANSWER_SECONDS: Final = 10.0
OUTPUT_BYTES_MAX: Final = 1024 * 1024
# Many submits at the same time must not start as many processes.
AT_ONCE_MAX: Final = 4

# How the versions of bd report that there is no such issue.
_UNKNOWN: Final = ("not found", "no issue found", "no such issue")


class NoTracker(ShiftbossError):
    code = "no_tracker"
    title = "The beads tracker cannot be used"


class _BdOutput(NamedTuple):
    code: int
    out: bytes
    err: bytes


class Beads:
    """The tracker of one folder. `find` is the port that the coordinator uses. `cores` are the
    processor cores that bd may use; if empty, it inherits ours."""

    def __init__(self, folder: Path, cores: Set[int] = frozenset()) -> None:
        program = shutil.which("bd")
        if program is None:
            raise NoTracker(
                "the program bd is not installed",
                field="beads",
                hint="install beads, or start the server without --beads",
            )
        if not folder.is_dir():
            raise NoTracker(
                f"there is no folder {folder}",
                field="beads",
                hint="give an existing folder with --beads DIR",
            )
        self._program = str(Path(program).absolute())
        self._folder = folder
        self._cores = cores
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def find(self, task_id: str) -> FoundTask | None:
        # bd would take an id that begins with a dash for an option.
        if not is_task_id(task_id):
            return None
        async with self._slots:
            output = await self._show(task_id)
        if output.code != 0:
            _check_is_unknown(output)
            return None
        return _parse(task_id, output.out)

    async def _show(self, task_id: str) -> _BdOutput:
        try:
            process = await asyncio.create_subprocess_exec(
                *(self._program, "show", task_id, "--json"),
                cwd=self._folder,
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise TrackerUnavailable(f"bd cannot be run: {error.strerror}") from error
        if self._cores:
            # The process may have ended already, or the cores may be offline.
            with suppress(OSError):
                os.sched_setaffinity(process.pid, self._cores)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await _communicate(process)
        except TimeoutError:
            raise TrackerUnavailable(
                f"bd did not answer within {ANSWER_SECONDS:.0f} seconds"
            ) from None
        finally:
            await _kill(process)


async def _communicate(process: asyncio.subprocess.Process) -> _BdOutput:
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = await asyncio.gather(_read(process.stdout), _read(process.stderr))
    return _BdOutput(await process.wait(), out, err)


async def _read(stream: asyncio.StreamReader) -> bytes:
    content = bytearray()
    while part := await stream.read(65536):
        content += part
        if len(content) > OUTPUT_BYTES_MAX:
            raise TrackerUnavailable(f"bd printed more than {OUTPUT_BYTES_MAX} bytes")
    return bytes(content)


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a process that has not ended, with all its children."""
    if process.returncode is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    await process.wait()


def _environment() -> dict[str, str]:
    """Ours without the settings of the server: bd must not see its token."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHIFTBOSS_")}


def _check_is_unknown(output: _BdOutput) -> None:
    """Raises TrackerUnavailable unless bd has failed because there is no such issue."""
    error = (output.err + output.out).decode(errors="replace")
    if not any(unknown in error.lower() for unknown in _UNKNOWN):
        first_line = (error.strip().splitlines() or [f"exit code {output.code}"])[0]
        raise TrackerUnavailable(f"bd failed: {first_line[:200]}")


def _parse(task_id: str, out: bytes) -> FoundTask | None:
    try:
        answer = json.loads(out)
        # Some versions print the issue, some a list with one issue.
        issues = answer if isinstance(answer, list) else [answer]
        if not issues:
            return None
        # bd also accepts the beginning of an id; the task keeps the id that was requested.
        return task_of(issues[0])._replace(task_id=task_id)
    except (BadIssueError, ValueError, RecursionError) as error:
        raise TrackerUnavailable(f"the answer of bd cannot be used: {error}") from error
