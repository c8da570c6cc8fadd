"""Requests and responses of the bus, which workers and the orchestrator use to talk about tasks.

Requests have the members of the bus protocol document. `swarm_id`, `epoch` and `name` are optional
additions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from shiftboss.defaults import EVIDENCE_CHARACTERS_MAX
from shiftboss.protocol.fields import (
    INTEGER_MAX,
    NO_NUL,
    Answer,
    Commit,
    Milliseconds,
    Request,
    SwarmId,
)

DEFAULT_SWARM = "default"
POLL_MS_DEFAULT = 30_000
# The server ends longer polls after this time; the worker then polls again.
POLL_MS_MAX = 600_000
# Bounds of the lease that a heartbeat may ask for.
LEASE_SECONDS_MIN = 5
LEASE_SECONDS_MAX = 86_400
PRIORITY_MAX = 1_000
DEPENDENCIES_MAX = 200
# Of one add_tasks.
ADDED_TASKS_MAX = 1_000

WorkerName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$")]
TaskId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
Title = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=NO_NUL)]
Text = Annotated[str, StringConstraints(max_length=20_000, pattern=NO_NUL)]
Epoch = Annotated[int, Field(ge=1, le=INTEGER_MAX)]
LeaseSeconds = Annotated[int, Field(ge=LEASE_SECONDS_MIN, le=LEASE_SECONDS_MAX)]
# What a worker says about its contract: it asks for the wrong thing, or nobody can meet it.
DisputeKind = Literal["wrong", "impossible"]
DisputeReason = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=5000, pattern=NO_NUL),
]
Evidence = Annotated[str, StringConstraints(max_length=EVIDENCE_CHARACTERS_MAX, pattern=NO_NUL)]
Priority = Annotated[int, Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX)]


class BusRequest(Request):
    swarm_id: SwarmId = DEFAULT_SWARM

    def content(self) -> str:
        """What tells it from another request under the same idempotency key."""
        return self.model_dump_json()


class NewTask(Request):
    bead_id: TaskId
    title: Title
    description: Text = ""
    priority: Priority = 0
    depends_on: Annotated[list[TaskId], Field(max_length=DEPENDENCIES_MAX)] = Field(default=[])


class AddTaskRequest(NewTask, BusRequest):
    """With `submit`, the task is submitted as well."""

    submit: bool = False

    def content(self) -> str:
        """As older servers write it, so that a repeat may cross the upgrade."""
        return self.model_dump_json(exclude=None if self.submit else {"submit"})


class AddTasksRequest(BusRequest):
    """A plan, all of it or nothing. Tasks may depend on each other in any order."""

    tasks: Annotated[list[NewTask], Field(min_length=1, max_length=ADDED_TASKS_MAX)]
    submit: bool = False


class TaskRequest(BusRequest):
    """The request of submit, retry and cancel."""

    bead_id: TaskId


class FindTaskRequest(BusRequest):
    """Searches all swarms; `swarm_id` has no effect."""

    bead_id: TaskId


class CancelTaskRequest(TaskRequest):
    """`reason` is shown to people, and logged by the run that the task belongs to."""

    reason: Annotated[str, StringConstraints(max_length=2000, pattern=NO_NUL)] = ""


class RegisterWorkerRequest(BusRequest):
    name: WorkerName


class PollRequest(BusRequest):
    """With `ack`, the task is acknowledged as it is handed out, with a lease of `lease_seconds`.
    The same poll, sent again with its idempotency key, gets the same attempt."""

    name: WorkerName
    timeout_ms: Milliseconds = POLL_MS_DEFAULT
    ack: bool = False
    lease_seconds: LeaseSeconds | None = None


class AckRequest(BusRequest):
    """`lease_seconds` is the length of the lease, as in a heartbeat."""

    name: WorkerName
    bead_id: TaskId
    epoch: Epoch | None = None
    lease_seconds: LeaseSeconds | None = None


class NextTask(Request):
    """With `poll`, the answer also has the worker's next task, once there is one. The other members
    are those of poll_task."""

    poll: bool = False
    timeout_ms: Milliseconds = POLL_MS_DEFAULT
    ack: bool = False
    lease_seconds: LeaseSeconds | None = None


class DoneRequest(NextTask, BusRequest):
    """`commit` and `summary` are for tasks with a handoff, whose commit is verified. `poll` needs
    `name`."""

    bead_id: TaskId
    name: WorkerName | None = None
    epoch: Epoch | None = None
    commit: Commit | None = None
    summary: Text = ""


class TaskFailedRequest(NextTask, BusRequest):
    """`poll` needs `name`."""

    bead_id: TaskId
    reason: Text = ""
    name: WorkerName | None = None
    epoch: Epoch | None = None


class ReturnTaskRequest(BusRequest):
    bead_id: TaskId
    name: WorkerName
    epoch: Epoch


class HeartbeatRequest(BusRequest):
    """`lease_seconds` requests a lease of another length, for launchers that send heartbeats. With
    `bead_id`, a late heartbeat does not renew the lease of the worker's next task."""

    name: WorkerName
    bead_id: TaskId | None = None
    context_usage: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)] | None = None
    current_step: Annotated[str, StringConstraints(max_length=500, pattern=NO_NUL)] | None = None
    epoch: Epoch | None = None
    lease_seconds: LeaseSeconds | None = None


class ResetWorkerRequest(BusRequest):
    worker_name: WorkerName


class StatusRequest(BusRequest):
    """With `waiting`, the answer has what waits for a person."""

    waiting: bool = False


class ListTasksRequest(BusRequest):
    """`after` is the `next_after` of another page."""

    after: Annotated[str, StringConstraints(max_length=128, pattern=NO_NUL)] = ""
    limit: Annotated[int, Field(ge=1, le=500)] = 100


class RegisterWorkerAnswer(Answer):
    success: bool
    worker: str
    message: str


class Delivery(Answer):
    """A task as a poll returns it. `checkpoint` and `salvage` come from earlier attempts."""

    bead_id: str
    title: str
    assigned_at: int
    epoch: int
    lease_expires_at: int
    description: str = ""
    checkpoint: dict[str, Any] | None = None
    salvage: list[dict[str, Any]] = Field(default=[])
    # Set by an assign message.
    spec_path: str | None = None
    worktree_path: str | None = None
    timeout_seconds: int | None = None
    # Set for tasks with a handoff.
    contract_version: int | None = None
    handoff: dict[str, Any] | None = None
    branch: str | None = None
    base_commit: str | None = None
    model: str | None = None


class PollAnswer(Answer):
    """`answers` are the answers to the worker's questions since its last report."""

    task: Delivery | None
    timeout: bool | None = None
    reset: bool | None = None
    answers: list[dict[str, Any]] | None = None
    # The result of the worker's claim: the violations, or the receipt.
    verdict: dict[str, Any] | None = None
    # Set if the poll has acknowledged the task.
    acknowledged: bool | None = None


class SubmitAnswer(Answer):
    """If not `dispatched`, the task waits at `position` of the queue, or for `waits_for`; or
    `worker` had it before the request, with the `status` pending or executing."""

    dispatched: bool
    worker: str | None
    bead_id: str
    queued: bool | None = None
    position: int | None = None
    waits_for: list[str] | None = None
    epoch: int | None = None
    status: str | None = None


class AckAnswer(Answer):
    success: bool
    worker: str
    bead_id: str
    epoch: int
    lease_expires_at: int


class DoneAnswer(Answer):
    """A task with a handoff also gets its receipt. If `status` is verifying, ask again. `next` is
    the answer of the poll that the request asked for."""

    success: bool
    bead_id: str
    status: str | None = None
    receipt_id: str | None = None
    hint: str | None = None
    next: PollAnswer | None = None


class TaskEndAnswer(Answer):
    """Answers task_failed, retry_task and cancel with the resulting status of the task."""

    success: bool
    bead_id: str
    status: str


class FailedAnswer(TaskEndAnswer):
    """`next` is the answer of the poll that the request asked for."""

    next: PollAnswer | None = None


class HeartbeatAnswer(Answer):
    success: bool
    worker: str
    bead_id: str | None
    epoch: int | None
    lease_expires_at: int | None
    checkpoint_requested: bool
    answers: list[dict[str, Any]]
    # Why the worker must wait: the completion contract requires it, or a budget is exhausted.
    paused: str | None = None


class ResetAnswer(Answer):
    success: bool
    worker: str
    released: str | None


class HoldView(Answer):
    """Why a task or a whole swarm is not handed out. `kind` is pause, budget or answer.

    Without `bead_id` the hold covers the whole swarm. Without `until` it lasts until the operator
    resumes the work or raises the budget, or until the question is answered.
    """

    kind: str
    bead_id: str | None
    reason: str
    since: int
    until: int | None


class ReasonView(Answer):
    """Why something waits or is where it is, and the command that helps; `also` are others. `until`
    is when it ends by itself."""

    kind: str
    bead_id: str | None
    text: str
    command: str | None
    also: list[str] = Field(default=[])
    question_id: int | None = None
    until: int | None = None


class WorkerInfo(Answer):
    name: str
    status: str
    current_task: str | None
    idle_seconds: int


class BusStatus(Answer):
    """`holds` are the reasons why the swarm or some of its tasks are not handed out. `waiting` is
    what waits for a person, if the request asks for it."""

    swarm_id: str
    workers: list[WorkerInfo]
    queued: int
    holds: list[HoldView] = Field(default=[])
    waiting: list[ReasonView] = Field(default=[])


class SwarmOfTask(Answer):
    """A swarm with a task of the id. The `status` of a task whose swarm is deleted is None: only
    its receipt is left."""

    swarm_id: str
    status: str | None


class SwarmsOfTask(Answer):
    bead_id: str
    swarms: list[SwarmOfTask]


class WhyAnswer(Answer):
    """The most urgent reason first."""

    bead_id: str
    swarm_id: str
    status: str
    title: str
    reasons: list[ReasonView]


class ReviewView(Answer):
    """The review of a task's accepted work: `state` is open, approved or rejected."""

    state: str
    commit: str
    receipt_id: str
    requested_at: int
    decided_by: str | None
    decided_at: int | None
    reason: str | None


class TaskView(Answer):
    bead_id: str
    title: str
    description: str
    priority: int
    status: str
    depends_on: list[str]
    waits_for: int
    epoch: int
    worker: str | None
    state: str | None
    lease_expires_at: int | None
    last_error: str | None
    failures: int
    created_at: int
    updated_at: int
    # Set once the accepted work of a task with a handoff is on its target branch.
    landed_commit: str | None = None
    receipt_id: str | None = None
    swarm_id: str
    # Attempts that were interrupted, handed over or parked are continued, and count once.
    attempt: int
    # Set if the work of the task has to be approved before it lands.
    review: ReviewView | None = None
    # What keeps an open or queued task from being handed out: pause, answer or budget.
    hold: str | None = None


class AddTaskAnswer(TaskView):
    """`submitted` is the answer of submit_task, if the request asked for it."""

    submitted: SubmitAnswer | None = None


class AddTasksAnswer(Answer):
    """`added` counts the tasks that were not there before. `submitted` are the answers of
    submit_task, in the order of the request."""

    added: int
    submitted: list[SubmitAnswer] | None = None


class TaskList(Answer):
    tasks: list[TaskView]
    next_after: str | None
