"""Finding the attempts at a task in the state folder: they need no server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shiftboss.cli.common.ambiguous_swarm import AmbiguousSwarm
from shiftboss.cli.common.discovery import find_state_folder
from shiftboss.defaults import RUNS_FOLDER
from shiftboss.errors import NotFound, ShiftbossError

if TYPE_CHECKING:
    from shiftboss.attempts.records import AttemptRecord

AttemptNumber = Annotated[
    int | None,
    typer.Option(
        "--attempt",
        metavar="N",
        min=1,
        help="Which attempt at the task, as `events` numbers them. Default: the newest.",
    ),
]


class NoStateFolder(ShiftbossError):
    code = "no_state_folder"
    title = "There is no state folder"

    def __init__(self) -> None:
        super().__init__(
            f"there is no folder .shiftboss in {Path.cwd()} or above it",
            hint="go to the folder in which the run was started, or set SHIFTBOSS_DB to its "
            "database",
        )


class NoAttempt(NotFound):
    code = "no_attempt"
    title = "There is no such attempt"


def state_folder() -> Path:
    """Raises NoStateFolder."""
    folder = find_state_folder()
    if folder is None:
        raise NoStateFolder
    return folder


def find_attempt(task_id: str, swarm: str | None, number: int | None) -> AttemptRecord:
    """The attempt of this number, or else the newest. Raises NoAttempt or AmbiguousSwarm."""
    from shiftboss.attempts.records import attempts_in

    state = state_folder()
    attempts = attempts_in(state, task_id, swarm)
    swarms = sorted({attempt.swarm_id for attempt in attempts})
    if len(swarms) > 1:
        raise AmbiguousSwarm(f"a task {task_id}", dict.fromkeys(swarms, ""))
    chosen = [attempt for attempt in attempts if number in (None, attempt.epoch)]
    if chosen:
        return chosen[-1]
    if attempts:
        numbers = ", ".join(str(attempt.epoch) for attempt in attempts)
        raise NoAttempt(
            f"attempt {number} of {task_id} has no folder in {attempts[0].folder.parent}",
            field="attempt",
            hint=f"these attempts have one: {numbers}",
        )
    raise NoAttempt(
        f"no attempt at {task_id} has a folder in {state / RUNS_FOLDER / (swarm or '*')}: no agent "
        "has worked on it, or `shiftboss clean` has removed it",
        field="task",
        hint="see which tasks there are: shiftboss task list",
    )
