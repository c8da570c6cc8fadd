"""Handoffs and claims as they are remembered, and what may be done with them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal, NamedTuple

from shiftboss.errors import IllegalTransition, NotHeld, StaleContract
from shiftboss.protocol.policy import Models, Trait
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import check_epoch

# Refused this often in a row, a worker is stopped and its contact asked.
REFUSALS_MAX = 3
# A verifier that has not been heard of for this long has lost its claim.
VERIFIER_SECONDS = 120
# How often a claim is tried again when the evidence cannot be looked at.
TRIES_MAX = 3
# So many violations are told in an event; the verdict has all.
VIOLATIONS_TOLD_MAX = 100
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Handoff(NamedTuple):
    """One version of a task's handoff. `body` and `policy` are canonical JSON; `said` is the digest
    of the request: what is generated may come out differently when the same is asked again.
    `repo_id` is the same for all work trees of a repository. `repo_name` is the repo of the
    policy, if it is one, and `ci` what its CI has to say (a CiDemand, JSON).
    `model` is the one that the worker should be. `target_base` is where the target was when the
    task was spawned."""

    swarm_id: str
    task_id: str
    version: int
    hash: str
    body: str
    repo: str
    base_commit: str
    branch: str | None
    target: str | None
    policy: str
    strategy: str | None
    reason: str
    created_at_ms: int
    said: str
    repo_id: str
    repo_name: str | None = None
    ci: str | None = None
    model: str | None = None
    target_base: str | None = None

    @property
    def lands_later(self) -> bool:
        """The work on a repo of the policy is done on a branch of its own: until it has landed,
        what CI says of it says nothing about the repo."""
        return self.repo_name is not None and self.target not in (None, self.branch)


class Claim(NamedTuple):
    """A worker says that a task is done. `words` is JSON: what it said."""

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


class Reservation(NamedTuple):
    """Which paths of a repo a task in flight owns."""

    swarm_id: str
    task_id: str
    repo: str
    patterns: list[str]


class ScopeRequest(NamedTuple):
    swarm_id: str
    request_id: int
    task_id: str
    epoch: int
    worker: str
    paths: list[str]
    reason: str
    state: str  # open, granted, refused
    asked_at_ms: int
    decided_at_ms: int | None = None
    decision: str | None = None
    question_id: int | None = None


class Signal(NamedTuple):
    """What one completion, refusal or failure teaches about its strategy. `details` is JSON."""

    strategy: str
    at_ms: int
    swarm_id: str
    task_id: str
    epoch: int
    number: int
    kind: str  # completion, refusal, failure
    impact: str  # positive, negative, neutral
    violation_type: str | None
    details: str


def is_object_name(text: str | None) -> bool:
    """A commit or a tree in full: what a receipt can name."""
    return text is not None and _OBJECT_NAME.fullmatch(text) is not None


def check_no_claim(assignment: Assignment, field: str) -> None:
    """While the server verifies, the attempt is in its hands."""
    if assignment.claim_id is not None:
        raise IllegalTransition(
            f"claim {assignment.claim_id} of {assignment.task_id} is being verified; nothing was "
            "changed",
            field=field,
            hint="wait for its verdict: it comes with the next poll, or say the same words again",
            facts={"state": assignment.state.value, "claim_id": assignment.claim_id},
        )


def check_can_claim(
    assignment: Assignment | None,
    task_id: str,
    name: str | None,
    epoch: int | None,
    version: int | None,
) -> Assignment:
    """The attempt that a claim is about: of this worker, this attempt, this contract."""
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
            f"{task_id} is blocked: its question comes first; nothing was changed",
            field="bead_id",
            hint="wait for the answer, or let the contact answer it",
            facts={"state": assignment.state.value},
        )
    return assignment


# Which model does what.


Role = Literal["orchestrator", "worker"]


class ModelChoice(NamedTuple):
    model: str
    reason: str


def choose_model(role: Role, traits: Collection[Trait], policy: Models) -> ModelChoice:
    """A worker gets the stronger model when its task has one of the policy's traits."""
    if role == "orchestrator":
        return ModelChoice(policy.orchestrator, "the model of orchestrators")
    reasons = [trait for trait in policy.override_when if trait in traits]
    if reasons:
        return ModelChoice(policy.override, f"the task is {', '.join(reasons)}")
    return ModelChoice(policy.workers, "the model of workers")
