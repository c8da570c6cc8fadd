"""Tasks from the beads tracker, read with its command `bd`."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Final

from shiftboss.errors import ShiftbossError, TrackerUnavailable
from shiftboss.protocol.tracker_tasks import TrackerTask
from shiftboss.system.processes.child_process import (
    OutputTooLargeError,
    ProcessOutput,
    exchange,
    kill_group,
    start_process,
)
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


class Beads:
    """The tracker of one folder. `find` is the port that the coordinator uses."""

    def __init__(self, folder: Path) -> None:
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
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def find(self, task_id: str) -> TrackerTask | None:
        # bd would take an id that begins with a dash for an option.
        if not is_task_id(task_id):
            return None
        async with self._slots:
            output = await self._show(task_id)
        if output.code != 0:
            _check_is_unknown(output)
            return None
        return _parse(task_id, output.out)

    async def _show(self, task_id: str) -> ProcessOutput:
        try:
            process = await start_process(
                (self._program, "show", task_id, "--json"),
                kill_group,
                cwd=self._folder,
                env=_environment(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise TrackerUnavailable(f"bd cannot be run: {error.strerror}") from error
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await exchange(
                    process, output_max=OUTPUT_BYTES_MAX, error_max=OUTPUT_BYTES_MAX
                )
        except OutputTooLargeError as error:
            raise TrackerUnavailable(f"bd printed more than {error.bytes_max} bytes") from None
        except TimeoutError:
            raise TrackerUnavailable(
                f"bd did not answer within {ANSWER_SECONDS:.0f} seconds"
            ) from None
        finally:
            await kill_group(process)


def _environment() -> dict[str, str]:
    """Ours without the settings of the server: bd must not see its token."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHIFTBOSS_")}


def _check_is_unknown(output: ProcessOutput) -> None:
    """Raises TrackerUnavailable unless bd has failed because there is no such issue."""
    error = (output.err + output.out).decode(errors="replace")
    if not any(unknown in error.lower() for unknown in _UNKNOWN):
        first_line = (error.strip().splitlines() or [f"exit code {output.code}"])[0]
        raise TrackerUnavailable(f"bd failed: {first_line[:200]}")


def _parse(task_id: str, out: bytes) -> TrackerTask | None:
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
