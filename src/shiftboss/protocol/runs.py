"""Requests and responses while a plan runs: usage, budgets, pauses and landings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints

from shiftboss.protocol.bus import BusRequest, Epoch, HoldView, TaskId, WorkerName
from shiftboss.protocol.fields import INTEGER_MAX, NO_NUL, Answer, Request
from shiftboss.protocol.handoff_requests import BranchName, Operator, Reason

# Totals are counted in millionths of a dollar, as integers that every language can represent.
DOLLARS_MAX = 1_000_000_000
TOKENS_MAX = 10**14

Tokens = Annotated[int, Field(ge=0, le=TOKENS_MAX)]
Dollars = Annotated[float, Field(ge=0, le=DOLLARS_MAX, allow_inf_nan=False)]
TokenLimit = Annotated[int, Field(ge=1, le=TOKENS_MAX)]
DollarLimit = Annotated[float, Field(gt=0, le=DOLLARS_MAX, allow_inf_nan=False)]
UntilMs = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
# Landed commits are named in full, so that they are unambiguous.
FullCommit = Annotated[str, StringConstraints(pattern=r"^[a-f0-9]{40}$")]
AgentName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
# By itself, with an error, or ended by the run: why.
AgentRunEnd = Literal[
    "ended",
    "failed",
    "context",
    "quota",
    "permission",
    "budget",
    "timeout",
    "lost",
    "denials",
    "stopped",
]
CommitPrefix = Annotated[str, StringConstraints(pattern=r"^[a-f0-9]{7,40}$")]


class AgentRun(Request):
    """A process of an agent that has ended, and how. `provider` is that of its models, by the names
    of OpenTelemetry."""

    agent: AgentName
    provider: AgentName | None = None
    model: (
        Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)] | None
    ) = None
    duration_ms: Annotated[int, Field(ge=0, le=INTEGER_MAX)]
    ended: AgentRunEnd


class ReportUsageRequest(BusRequest):
    """The total usage of one process of an attempt so far. A figure that is lower than in an
    earlier report does not count.

    `process` numbers the processes of the attempt. `input_tokens` does not count tokens read from a
    cache. `dollars` is left out if the price is unknown. `run` comes with the last report of a
    process, when it has ended.
    """

    bead_id: TaskId
    name: WorkerName
    epoch: Epoch
    process: Annotated[int, Field(ge=1, le=100_000)] = 1
    input_tokens: Tokens = 0
    output_tokens: Tokens = 0
    cached_tokens: Tokens = 0
    dollars: Dollars | None = None
    run: AgentRun | None = None


class UsageTotals(Answer):
    """`tokens` is the sum of input and output, which the budget limits. `unpriced_tokens` are those
    of processes without a known price; `dollars` does not include them."""

    tokens: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    dollars: float
    unpriced_tokens: int


class OverBudget(Answer):
    """The budget that is exhausted. `limit` and `spent` are in `unit`."""

    scope: Literal["task", "swarm"]
    unit: Literal["tokens", "dollars"]
    limit: float
    spent: float


class UsageAnswer(Answer):
    """With `over` the work must stop, and the task or the swarm is not handed out."""

    bead_id: str
    task: UsageTotals
    swarm: UsageTotals
    over: OverBudget | None


class SetBudgetRequest(BusRequest):
    """Without `bead_id` it is the budget of the swarm. A limit that is left out is no limit.

    Any client may set the first budget or a smaller one. Only the operator may raise a budget, and
    that budget then stays.
    """

    bead_id: TaskId | None = None
    tokens: TokenLimit | None = None
    dollars: DollarLimit | None = None


class BudgetView(Answer):
    tokens: int | None
    dollars: float | None


class BudgetAnswer(Answer):
    """`over` is set if the usage already exceeds the budget; the work then stays on hold."""

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
    """The tasks with usage or a budget, ordered by id, and the totals of the swarm."""

    tasks: list[TaskUsage]
    next_after: str | None
    swarm: UsageTotals
    budget: BudgetView | None
    over: OverBudget | None


class PauseSwarmRequest(BusRequest):
    """Hand out nothing before `until_ms` (milliseconds since 1970), or until the operator resumes.
    With `bead_id` only that task is paused."""

    reason: Reason
    until_ms: UntilMs | None = None
    bead_id: TaskId | None = None


class ResumeSwarmRequest(BusRequest):
    """For the operator only: ends a pause early. To continue after a budget, raise it instead."""

    bead_id: TaskId | None = None


class PauseAnswer(Answer):
    success: bool
    changed: bool
    paused: HoldView | None


class ParkTaskRequest(BusRequest):
    """Ends an attempt that cannot continue before `until_ms` through no fault of its own.

    It does not count as a failure, and the task waits in the queue. Without `until_ms` the task can
    be handed out at once; a blocked worker's task only when its question is answered, and the next
    worker gets the answer. `checkpoint` is passed on to the next worker.
    """

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
    """Reports that the accepted `commit` of a task is on `target`. `landed_commit` is the merge
    commit, the squash commit, or `commit` itself. The server verifies it."""

    bead_id: TaskId
    commit: FullCommit
    target: BranchName
    landed_commit: FullCommit


class LandedAnswer(Answer):
    """`repo_locked` is why the policy keeps the repo locked. Repeat the report to check again."""

    success: bool
    bead_id: str
    commit: str
    target: str
    landed_commit: str
    landed_at: int
    repo_locked: str | None = None


def _check_printable(path: str) -> str:
    if not path.isprintable():
        raise ValueError("must have printable characters only")
    return path


class ReportRunRequest(BusRequest):
    """`plan_file` is the absolute path of the plan that a run of the swarm has read. People see it
    in commands. With `auto_merge`, the run lands what was accepted."""

    plan_file: Annotated[
        str,
        StringConstraints(min_length=2, max_length=4096, pattern=r"^/"),
        AfterValidator(_check_printable),
    ]
    auto_merge: bool = True


class ReportRunAnswer(Answer):
    success: bool


class ListLandableRequest(BusRequest):
    """Lists tasks in the order of acceptance. `after` is the `next_after` of another page."""

    after: Annotated[str, StringConstraints(max_length=200, pattern=NO_NUL)] = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class Landable(Answer):
    """An accepted task that has not landed, with what is needed to land it. `target` is None if the
    handoff has none; `policy` says how the contract is checked."""

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
    landing: str
    # The state of the review, if the work has to be approved: open or approved.
    review: str | None = None


class LandableList(Answer):
    tasks: list[Landable]
    next_after: str | None


class ApproveRequest(BusRequest):
    """For the operator only. With `commit`, only if this is the commit in review; a prefix of its
    name is enough. `by` is the person who decides."""

    bead_id: TaskId
    commit: CommitPrefix | None = None
    by: Operator = "operator"


class RejectRequest(ApproveRequest):
    """For the operator only. The next attempt gets the `reason`."""

    reason: Reason


class ReviewAnswer(Answer):
    success: bool
    changed: bool
    bead_id: str
    state: str
    commit: str
    receipt_id: str


class ReleaseFilesRequest(BusRequest):
    """Sent by a run that ends: tasks that nobody works on keep no files from other swarms. The
    `workers` of the run are gone: their tasks are queued again, and they are offered no others."""

    workers: Annotated[list[WorkerName], Field(max_length=1000)] = Field(default_factory=list)


class DeleteSwarmRequest(BusRequest):
    """Its work must be over, unless `force` is set. Its receipts stay. With `dry_run`, nothing is
    deleted."""

    force: bool = False
    dry_run: bool = False


class DeleteSwarmAnswer(Answer):
    """What the swarm had, and in `live` what of it was not over. `last_event_id` is the number of
    its events, unless old ones were deleted before."""

    success: bool
    swarm_id: str
    deleted: bool
    tasks: int
    packets: int
    last_event_id: int
    live: list[str]


class ReleaseFilesAnswer(Answer):
    """`released` is the number of tasks that owned files until now."""

    success: bool
    released: int
