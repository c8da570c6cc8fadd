"""Handoffs, reservations and scope requests as they are stored, and the model of a task."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from shiftboss.protocol.policy import Models, Trait

# A run that ends releases the files of its idle tasks itself; one that was killed cannot.
RESERVATION_IDLE_MS = 4 * 3600 * 1000
# The clocks of two servers may differ by less than this.
CLOCK_DIFFERENCE_MS = 60_000


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
