"""Writing the record of an attempt; `attempts.records` reads it."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path

from shiftboss.attempts.records import RECORD_NAME, read_facts
from shiftboss.orchestrator.attempt.workspace import AgentAssignment
from shiftboss.protocol.plan import PlanAgent
from shiftboss.system.private_files import write_private


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
    write_private(scratch / RECORD_NAME, json.dumps(facts))


def end_record(scratch: Path) -> None:
    """On a full disk the record stays as it is: it ends with the run."""
    facts = {**read_facts(scratch), "ended_at": _now()}
    with contextlib.suppress(OSError):
        write_private(scratch / RECORD_NAME, json.dumps(facts))


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
