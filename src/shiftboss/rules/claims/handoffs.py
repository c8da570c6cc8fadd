"""Handoffs, claims and scope requests as they are stored, and the checks before a claim."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

from shiftboss.errors import IllegalTransition, NotHeld, StaleContract
from shiftboss.protocol.policy import Models, Trait
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
# A run that ends releases the files of its idle tasks itself; one that was killed cannot.
RESERVATION_IDLE_MS = 4 * 3600 * 1000
# The clocks of two servers may differ by less than this.
CLOCK_DIFFERENCE_MS = 60_000
_OBJECT_NAME = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class Handoff(NamedTuple):
    """One version of a task's handoff. `body` and `policy` are canonical JSON.

    `said` is the digest of the request, because a repeated request may generate another body.
    `repo_id` is the same for all work trees of a repository. For a repo of the policy, `repo_name`
    is its name and `ci` the required CI (a CiDemand as JSON). `model` is the model that the worker
    should use. `target_base` is the tip of the target when the task was spawned. `held_out` is the
    hash of the tests that only the verifier sees. `planned`: the operator spawned it, not a worker.
    """

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
    landing: str = "merge"  # or squash
    review: str = "none"  # or required
    held_out: str | None = None
    planned: bool = False

    @property
    def lands_later(self) -> bool:
        """Whether the work on a repo of the policy is on its own branch. Until it has landed, its
        CI result says nothing about the repo."""
        return self.repo_name is not None and self.target not in (None, self.branch)


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


class Reservation(NamedTuple):
    """The paths of a repo that an active task owns."""

    swarm_id: str
    task_id: str
    repo: str
    patterns: list[str]


def has_lapsed(status: str, idle_ms: int) -> bool:
    """Whether a task of another swarm has lost its files: nobody works on it, and nothing has
    happened to it for so long that its run is probably gone. It reserves them again when it is
    handed out, or waits."""
    return status in ("open", "queued", "failed") and idle_ms >= RESERVATION_IDLE_MS


def may_lapse_elsewhere(idle_ms: int) -> bool:
    """Whether another server, whose clock is ahead, may see that a task has lost its files."""
    return idle_ms >= RESERVATION_IDLE_MS - CLOCK_DIFFERENCE_MS


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
    """A completion, refusal, failure or dispute, as a data point for its strategy. `details` is
    JSON."""

    strategy: str
    at_ms: int
    swarm_id: str
    task_id: str
    epoch: int
    number: int
    kind: str  # completion, refusal, failure, dispute
    impact: str  # positive, negative, neutral
    violation_type: str | None
    details: str


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


def check_can_dispute(assignment: Assignment) -> None:
    """Reject a dispute about work that the server is judging, or that has ended."""
    task_id = assignment.task_id
    if assignment.state in (WorkerState.COMPLETE, WorkerState.FAILED):
        raise NotHeld(task_id, None)
    check_no_claim(assignment, "bead_id")
    if assignment.state is WorkerState.VERIFYING and assignment.lease_expires_at_ms is None:
        raise IllegalTransition(
            f"the server follows the CI of {task_id}; nothing was changed",
            field="bead_id",
            hint="wait for its result, then dispute the contract",
            facts={"state": assignment.state.value},
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


Role = Literal["orchestrator", "worker"]


class ModelChoice(NamedTuple):
    """`model` is None if the policy leaves the choice to the plan, or else to the agent."""

    model: str | None
    reason: str


def choose_model(role: Role, traits: Collection[Trait], policy: Models) -> ModelChoice:
    """A worker gets the stronger model when its task has one of the policy's traits."""
    if role == "orchestrator":
        return ModelChoice(policy.orchestrator, "the default model for orchestrators")
    reasons = [trait for trait in policy.override_when if trait in traits]
    if reasons and policy.override is not None:
        return ModelChoice(policy.override, f"the task is {', '.join(reasons)}")
    return ModelChoice(policy.workers, "the default model for workers")
