"""The records that a run keeps of its attempts, for people who read them later.

An attempt has a folder, TASK.EPOCH, with the output of its agent. `attempt.json` there says which
agent it was, where it worked, and when the attempt ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from shiftboss.attempts.run_process import process_of_run
from shiftboss.defaults import ERROR_LOG, OUTPUT_LOG, RUNS_FOLDER
from shiftboss.protocol.plan import PlanAgent
from shiftboss.system.json_files import read_json_object

RECORD_NAME: Final = "attempt.json"
_NAME: Final = re.compile(r"(.+)\.([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """`facts` is empty if the attempt ended before its work tree was there."""

    folder: Path
    swarm_id: str
    bead_id: str
    epoch: int
    facts: Mapping[str, Any]

    @property
    def settings(self) -> PlanAgent:
        """Those of a plain command, if the record has none that are valid."""
        try:
            return PlanAgent.model_validate(self.facts["settings"])
        except (KeyError, ValidationError):
            return PlanAgent(kind="command")

    @property
    def output(self) -> Path:
        return self.folder / OUTPUT_LOG

    @property
    def errors(self) -> Path:
        return self.folder / ERROR_LOG

    @property
    def is_live(self) -> bool:
        """Whether the agent may still print something."""
        if "ended_at" in read_facts(self.folder):
            return False
        process = process_of_run(self.folder.parent)
        return process is not None and process.role == "run"


def attempts_in(state: Path, task_id: str, swarm_id: str | None = None) -> list[AttemptRecord]:
    """The attempts at a task whose folders are in the state folder, the oldest first."""
    runs = sorted((state / RUNS_FOLDER).glob("*")) if swarm_id is None else [_run(state, swarm_id)]
    attempts = [attempt for run in runs for attempt in _attempts(run, task_id)]
    return sorted(attempts, key=lambda attempt: (attempt.swarm_id, attempt.epoch))


def attempts_of_run(state: Path, swarm_id: str) -> list[AttemptRecord]:
    return sorted(_attempts(_run(state, swarm_id)), key=lambda attempt: attempt.folder)


def _run(state: Path, swarm_id: str) -> Path:
    return state / RUNS_FOLDER / swarm_id


def _attempts(run: Path, task_id: str | None = None) -> Iterator[AttemptRecord]:
    """Those at one task, or all. Only their own records are read: a run may have thousands."""
    for folder in run.iterdir() if run.is_dir() and not run.is_symlink() else ():
        name = _NAME.fullmatch(folder.name)
        if name is None or task_id not in (None, name[1]):
            continue
        if folder.is_dir() and not folder.is_symlink():
            yield AttemptRecord(folder, run.name, name[1], int(name[2]), read_facts(folder))


def read_facts(folder: Path) -> dict[str, Any]:
    """The content of the record, if it has the right type: an agent can write this file."""
    facts = read_json_object(folder / RECORD_NAME) or {}
    return {
        name: value
        for name, value in facts.items()
        if isinstance(value, dict if name == "settings" else str)
    }
