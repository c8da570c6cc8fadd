"""What is said while a plan runs: what it costs, what may be spent, pauses, what has landed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from shiftboss.protocol.bus import BusRequest, Epoch, HoldView, TaskId, WorkerName
from shiftboss.protocol.fields import INTEGER_MAX, NO_NUL, Answer
from shiftboss.protocol.handoff_requests import Reason, Revision

# Totals are counted in millionths of a dollar, in whole numbers that every language can hold.
DOLLARS_MAX = 1_000_000_000
TOKENS_MAX = 10**14

Tokens = Annotated[int, Field(ge=0, le=TOKENS_MAX)]
Dollars = Annotated[float, Field(ge=0, le=DOLLARS_MAX, allow_inf_nan=False)]
TokenLimit = Annotated[int, Field(ge=1, le=TOKENS_MAX)]
DollarLimit = Annotated[float, Field(gt=0, le=DOLLARS_MAX, allow_inf_nan=False)]
UntilMs = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
# A commit in full: what has landed is named so that nobody can mistake it.
FullCommit = Annotated[str, StringConstraints(pattern=r"^[a-f0-9]{40}$")]


class ReportUsageRequest(BusRequest):
    """What one process of an attempt has used so far. Said again it replaces what was said before;
    `process` counts the processes of the attempt. `input_tokens` are those that were not read from
    a cache; `dollars` is left out where nobody knows."""

    bead_id: TaskId
    name: WorkerName
    epoch: Epoch
    process: Annotated[int, Field(ge=1, le=100_000)] = 1
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cached_tokens: Tokens = 0
    dollars: Dollars | None = None


class UsageTotals(Answer):
    """`tokens` is input and output, which the budget counts. `unpriced_tokens` are those of
    processes that nobody knows the price of: `dollars` is without them."""

    tokens: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    dollars: float
    unpriced_tokens: int


class OverBudget(Answer):
    """Which budget is used up. `limit` and `spent` are in `unit`."""

    scope: Literal["task", "swarm"]
    unit: Literal["tokens", "dollars"]
    limit: float
    spent: float


class UsageAnswer(Answer):
    """`over`: the work has to stop; nothing more of the task, or of the swarm, is handed out."""

    bead_id: str
    task: UsageTotals
    swarm: UsageTotals
    over: OverBudget | None


class SetBudgetRequest(BusRequest):
    """Without `bead_id` it is the swarm's. A number that is left out is no limit. Everybody may set
    the first budget, or a smaller one; a larger one is the operator's word, and stays."""

    bead_id: TaskId | None = None
    tokens: TokenLimit | None = None
    dollars: DollarLimit | None = None


class BudgetView(Answer):
    tokens: int | None
    dollars: float | None


class BudgetAnswer(Answer):
    """`over`: what is spent already is not within it, so the work stays where it is."""

    bead_id: str | None
    budget: BudgetView
    changed: bool
    over: OverBudget | None


class ShowUsageRequest(BusRequest):
    """`after` is the `next_after` of another page."""

    after: Annotated[str, StringConstraints(max_length=128, pattern=NO_NUL)] = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class TaskUsage(Answer):
    bead_id: str
    used: UsageTotals
    budget: BudgetView | None
    over: OverBudget | None


class UsageList(Answer):
    """The tasks that something is known of, in the order of their ids, and the whole swarm."""

    tasks: list[TaskUsage]
    next_after: str | None
    swarm: UsageTotals
    budget: BudgetView | None
    over: OverBudget | None


class PauseSwarmRequest(BusRequest):
    """Nothing is handed out before `until_ms` (milliseconds since 1970), or before the operator
    resumes. With `bead_id` the task alone waits."""

    reason: Reason
    until_ms: UntilMs | None = None
    bead_id: TaskId | None = None


class ResumeSwarmRequest(BusRequest):
    """The operator's: a pause ends before its time. A budget that is used up is raised instead."""

    bead_id: TaskId | None = None


class PauseAnswer(Answer):
    success: bool
    changed: bool
    paused: HoldView | None


class ParkTaskRequest(BusRequest):
    """The attempt cannot go on before `until_ms`, and that is not its fault: it ends, counts as no
    failure, and its task waits in the queue. Without `until_ms` it can be handed out at once, if
    nothing else holds it back. `checkpoint` is for whoever takes the task next."""

    bead_id: TaskId
    name: WorkerName
    epoch: Epoch
    reason: Reason
    until_ms: UntilMs | None = None
    checkpoint: dict[str, Any] | None = None


class ParkAnswer(Answer):
    success: bool
    bead_id: str
    status: str
    until: int | None


class ReportLandedRequest(BusRequest):
    """The accepted `commit` of a task is on `target`, with `landed_commit`: the merge, or itself.
    The server looks."""

    bead_id: TaskId
    commit: FullCommit
    target: Revision
    landed_commit: FullCommit


class LandedAnswer(Answer):
    """`repo_locked`: why the policy keeps the repo locked; said again, the report looks again."""

    success: bool
    bead_id: str
    commit: str
    target: str
    landed_commit: str
    landed_at: int
    repo_locked: str | None = None


class ListLandableRequest(BusRequest):
    """In the order of their acceptance. `after` is the `next_after` of another page."""

    after: Annotated[str, StringConstraints(max_length=200, pattern=NO_NUL)] = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class Landable(Answer):
    """A task that is proven and has not landed, with what a lander needs. `target` is None where
    the contract names none; `policy` is how the contract is checked."""

    bead_id: str
    title: str
    repo: str
    repo_name: str | None
    base_commit: str
    branch: str | None
    target: str | None
    commit: str
    receipt_id: str
    accepted_at: int
    contract_version: int
    files_owned: list[str]
    success_criteria: list[str]
    policy: dict[str, Any]
    depends_on: list[str]


class LandableList(Answer):
    tasks: list[Landable]
    next_after: str | None
