"""What the folder of a run keeps about its attempts, for people who look at them later.

An attempt has a folder, TASK.EPOCH, with the output of its agent. `attempt.json` there says which
agent it was, where it worked, and when the attempt ended.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from shiftboss.defaults import RUNS_FOLDER
from shiftboss.orchestrator.attempt.workspace import AgentAssignment
from shiftboss.orchestrator.guardian.output import ERROR_LOG, OUTPUT_LOG
from shiftboss.orchestrator.run.run_lock import process_of_run
from shiftboss.protocol.plan import PlanAgent
from shiftboss.system.json_files import read_json_object
from shiftboss.system.private_files import write_private

_RECORD: Final = "attempt.json"
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
        if "ended_at" in _read_facts(self.folder):
            return False
        process = process_of_run(self.folder.parent)
        return process is not None and process.role == "run"


def begin_record(
    scratch: Path, assignment: AgentAssignment, tree: Path, settings: PlanAgent
) -> None:
    """Without the variables of the agent, which may be secrets."""
    facts = {
        "settings": settings.model_dump(mode="json", exclude={"environment"}),
        "model": assignment.model,
        "repo": str(assignment.repo),
        "tree": str(tree),
        "branch": assignment.branch,
        "base": assignment.base,
        "started_at": _now(),
    }
    write_private(scratch / _RECORD, json.dumps(facts))


def end_record(scratch: Path) -> None:
    """On a full disk the record stays as it is: it ends with the run."""
    facts = {**_read_facts(scratch), "ended_at": _now()}
    with contextlib.suppress(OSError):
        write_private(scratch / _RECORD, json.dumps(facts))


def attempts_in(state: Path, task_id: str, swarm_id: str | None = None) -> list[AttemptRecord]:
    """The attempts at a task whose folders are in the state folder, the oldest first."""
    runs = sorted((state / RUNS_FOLDER).glob("*")) if swarm_id is None else [_run(state, swarm_id)]
    attempts = [attempt for run in runs for attempt in _attempts(run) if attempt.bead_id == task_id]
    return sorted(attempts, key=lambda attempt: (attempt.swarm_id, attempt.epoch))


def attempts_of_run(state: Path, swarm_id: str) -> list[AttemptRecord]:
    return sorted(_attempts(_run(state, swarm_id)), key=lambda attempt: attempt.folder)


def _run(state: Path, swarm_id: str) -> Path:
    return state / RUNS_FOLDER / swarm_id


def _attempts(run: Path) -> Iterator[AttemptRecord]:
    for folder in run.iterdir() if run.is_dir() else ():
        name = _NAME.fullmatch(folder.name)
        if name is not None and folder.is_dir() and not folder.is_symlink():
            yield AttemptRecord(folder, run.name, name[1], int(name[2]), _read_facts(folder))


def _read_facts(folder: Path) -> dict[str, Any]:
    """What is in the record, if it is of the right type: an agent can write this file."""
    facts = read_json_object(folder / _RECORD) or {}
    return {
        name: value
        for name, value in facts.items()
        if isinstance(value, dict if name == "settings" else str)
    }


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
