"""Claims as they are stored, and the checks before a claim."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from shiftboss.errors import IllegalTransition, NotHeld, StaleContract
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import check_epoch

# After this many refused claims in a row, the worker is blocked and its contact is asked.
REFUSALS_MAX = 3
# A verifier that does not renew its claim within this time loses it.
VERIFIER_SECONDS = 120
# How often a verification is tried when the evidence is not available.
TRIES_MAX = 3
# An event lists at most this many violations; the verdict has all of them.
VIOLATIONS_TOLD_MAX = 100
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Claim(NamedTuple):
    """A worker's claim that a task is done. `words` is the request as JSON."""

    swarm_id: str
    task_id: str
    claim_id: int
    epoch: int
    worker: str
    state: str  # waiting, taken, accepted, refused, void
    contract_version: int
    words: str
    asked_at_ms: int
    tries: int = 0
    taken_by: str | None = None
    taken_until_ms: int | None = None
    verdict: str | None = None
    ended_at_ms: int | None = None
    heard_at_ms: int | None = None  # when the worker was told the verdict
    taken_at_ms: int | None = None
    escalated_at_ms: int | None = None  # no verifier can verify it: it waits for a person

    @property
    def violations(self) -> list[dict[str, Any]]:
        """Why it was refused; empty in any other state."""
        if self.state != "refused" or self.verdict is None:
            return []
        violations: list[dict[str, Any]] = json.loads(self.verdict).get("violations", [])
        return violations

    @property
    def refused_by(self) -> list[str]:
        """The checks that refused it, each once."""
        return list(dict.fromkeys(violation["check"] for violation in self.violations))


class ClaimPass(NamedTuple):
    """A verifier could not look at a claim, `times` times in a row, and left it to others.

    `verdict` is a refusal as JSON, for what is only missing here, such as the commit: it counts if
    no other verifier can look.
    """

    swarm_id: str
    task_id: str
    claim_id: int
    verifier: str
    reason: str
    times: int
    passed_at_ms: int
    again_at_ms: int
    verdict: str | None = None


def is_object_name(text: str | None) -> bool:
    """Whether this is the full id of a commit or a tree, as a receipt needs it."""
    return text is not None and _OBJECT_NAME.fullmatch(text) is not None


def check_no_claim(assignment: Assignment, field: str) -> None:
    """Reject a report while the server is verifying a claim of the attempt."""
    if assignment.claim_id is not None:
        raise IllegalTransition(
            f"claim {assignment.claim_id} of {assignment.task_id} is being verified; nothing was "
            "changed",
            field=field,
            hint="wait for the verdict: poll, or repeat the same request",
            facts={"state": assignment.state.value, "claim_id": assignment.claim_id},
        )


def check_can_claim(
    assignment: Assignment | None,
    task_id: str,
    name: str | None,
    epoch: int | None,
    version: int | None,
) -> Assignment:
    """The assignment, if this worker may claim it: current attempt, current contract."""
    if assignment is None:
        raise NotHeld(task_id, None)
    check_epoch(assignment, epoch)
    if name is not None and name != assignment.worker:
        raise NotHeld(task_id, assignment.worker)
    if assignment.state in (WorkerState.COMPLETE, WorkerState.FAILED, WorkerState.WAITING):
        raise NotHeld(task_id, None)
    if assignment.contract_version is None:
        raise NotHeld(task_id, assignment.worker)
    if version is not None and version != assignment.contract_version:
        raise StaleContract(task_id, version, assignment.contract_version)
    if assignment.state is WorkerState.BLOCKED:
        raise IllegalTransition(
            f"{task_id} is blocked by an open question; nothing was changed",
            field="bead_id",
            hint="wait for the answer of its contact",
            facts={"state": assignment.state.value},
        )
    return assignment
