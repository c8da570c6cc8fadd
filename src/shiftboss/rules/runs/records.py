"""Records of a running plan: usage, budgets, holds and landings."""

from __future__ import annotations

import shlex
from typing import Any, NamedTuple

# Used instead of a task id for the whole swarm.
WHOLE_SWARM = ""
# The reason that people read of a hold of the kind `answer`.
WAITS_FOR_ANSWER = "waits for the answer to its question"


class ProcessUsage(NamedTuple):
    """The usage of one process of an attempt. `microdollars` is None if the price is unknown."""

    swarm_id: str
    task_id: str
    epoch: int
    process: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    microdollars: int | None
    at_ms: int

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Totals(NamedTuple):
    """Totals of a task or a swarm. `unpriced_tokens` are those of processes without a price."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    microdollars: int = 0
    unpriced_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class BudgetRecord(NamedTuple):
    """The most that may be spent. `question_id` is the question asked when it was used up."""

    swarm_id: str
    task_id: str
    tokens: int | None
    microdollars: int | None
    by_operator: bool = False  # the operator set it last
    question_id: int | None = None


class Hold(NamedTuple):
    """Keeps a task or the whole swarm from being handed out. There is at most one of each `kind`:
    pause, budget, or answer, which is for a task whose worker asked a question and exited."""

    swarm_id: str
    task_id: str
    kind: str
    reason: str
    since_ms: int
    until_ms: int | None


class LandingRecord(NamedTuple):
    """An accepted commit, and where it has landed. `landed_commit` is None until then."""

    swarm_id: str
    task_id: str
    receipt_id: str
    commit_sha: str
    accepted_at_ms: int
    target: str | None = None
    landed_commit: str | None = None
    landed_at_ms: int | None = None


class OpenCounts(NamedTuple):
    """How much of a swarm waits for a person or for another task."""

    questions: int = 0
    scope_requests: int = 0
    holds: int = 0
    reviews: int = 0
    refused_starts: int = 0
    stuck_claims: int = 0


class PlanRunRecord(NamedTuple):
    """The plan that a swarm runs, as the last `shiftboss run` has read it. With `auto_merge`, the
    run lands what was accepted."""

    swarm_id: str
    plan_file: str
    started_at_ms: int
    auto_merge: bool = True

    @property
    def command(self) -> str:
        """Runs the plan again. Work that was not to land by itself does not do so now."""
        option = "" if self.auto_merge else " --no-auto-merge"
        return f"shiftboss run {shlex.quote(self.plan_file)}{option}"


class SpawnRefusal(NamedTuple):
    """Why the last try to give a task its contract was refused. `holders` are the tasks in the way,
    each with its `swarm_id` and `bead_id`."""

    swarm_id: str
    task_id: str
    code: str
    detail: str
    holders: list[dict[str, Any]]
    at_ms: int


class ReviewRecord(NamedTuple):
    """The review of accepted work. `state` is open, approved or rejected."""

    swarm_id: str
    task_id: str
    receipt_id: str
    commit_sha: str
    state: str
    requested_at_ms: int
    decided_by: str | None = None
    decided_at_ms: int | None = None
    reason: str | None = None


def later_hold(current: Hold | None, wanted: Hold) -> Hold:
    """The hold that ends later, with the start of the current one. A hold without an end lasts
    until it is lifted."""
    if current is None:
        return wanted
    if current.until_ms is None:
        return current
    if wanted.until_ms is None or wanted.until_ms > current.until_ms:
        return wanted._replace(since_ms=current.since_ms)
    return current
