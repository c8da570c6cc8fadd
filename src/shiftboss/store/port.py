"""The port of the store: what the coordinator calls, and what it may rely on.

A use case is a plain function of a transaction. It may run more than once before it is answered (a
batch can be rolled back and run again), so it must have no other effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.access.actors import Actor
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.swarms import Swarm
from shiftboss.rules.tasks.tasks import Question, Salvage, Task, Worker
from shiftboss.store.board.port import BoardTransaction
from shiftboss.store.contract.port import ContractTransaction
from shiftboss.store.deployment.port import DeploymentTransaction
from shiftboss.store.handoffs.port import HandoffTransaction
from shiftboss.store.inspection.port import InspectionTransaction
from shiftboss.store.monitoring.measures import Measure, StoreMeasures
from shiftboss.store.monitoring.port import MonitoringTransaction
from shiftboss.store.notifications.port import NotificationTransaction
from shiftboss.store.runs.port import RunTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, ParkedPolls

T = TypeVar("T")

CommitListener = Callable[[list[Event]], None]


def nothing_to_reload() -> None:
    """For a store whose settings nobody keeps in memory."""


class EventFilter(NamedTuple):
    """The events of a swarm with ids between `after` and `before`, both exclusive. None: of every
    task, of every kind."""

    swarm_id: str
    after: int
    before: int
    task_id: str | None = None
    kinds: tuple[str, ...] | None = None


class Retry(NamedTuple):
    """The retries of one step of a packet. `state` is scheduled, due or closed."""

    swarm_id: str
    task_id: str
    step_id: str
    retries_made: int
    state: str
    due_at_ms: int


class SwarmRow(NamedTuple):
    swarm: Swarm
    states: Mapping[WorkerState, int]


class SwarmTransaction(Protocol):
    """Swarms, packets, events, retries."""

    # -- reading
    def swarm(self, swarm_id: str) -> Swarm | None: ...

    def swarms_before(self, before: tuple[int, str] | None, limit: int) -> list[SwarmRow]:
        """Newest first, those older than `before` (created_at_ms, swarm_id)."""
        ...

    def assignments(self, swarm_id: str) -> list[Assignment]:
        """The current attempt of every packet, by packet_id."""
        ...

    def assignment(self, swarm_id: str, task_id: str) -> Assignment | None:
        """The current attempt at a task, or None."""
        ...

    def open_retries(self, swarm_id: str) -> list[Retry]: ...

    def state_counts(self, swarm_id: str) -> Mapping[WorkerState, int]: ...

    def last_event(self, swarm_id: str) -> Event | None: ...

    def events_after(self, swarm_id: str, event_id: int, limit: int) -> list[Event]:
        """In order of their ids, without gaps."""
        ...

    def event_bounds(self, swarm_id: str) -> tuple[int, int]:
        """The ids of the first and the last event; zeros if there is none."""
        ...

    def events_between(
        self, wanted: EventFilter, limit: int, *, newest_first: bool
    ) -> list[Event]: ...

    def latest_time_ms(self) -> int | None:
        """The time of the newest event, or of the latest change of an attempt with a lease. One
        look-up per swarm and per lease: for the start of a server."""
        ...

    # -- writing; the first call of a writing use case locks the swarm until the commit
    def take_swarm(self, swarm_id: str) -> Swarm | None: ...

    def take_assignment(self, swarm_id: str, task_id: str) -> Assignment | None:
        """The current attempt, or None. Raises UnknownSwarm."""
        ...

    def take_reported(
        self, swarm_id: str, task_id: str, report_key: bytes
    ) -> tuple[Assignment | None, Event | None]:
        """`take_assignment` and `event_of_report` in one query."""
        ...

    def add_swarm(self, swarm: Swarm) -> bool:
        """False, without a change, if the id is taken."""
        ...

    def set_swarm_completed(self, swarm_id: str, completed_at_ms: int | None) -> None: ...

    def put_assignment(self, assignment: Assignment) -> None:
        """Start an attempt: replaces the previous one of the task."""
        ...

    def save_assignment(self, assignment: Assignment) -> bool:
        """Save what can change within an attempt: state, counters, result and times. False if the
        attempt is not the current one."""
        ...

    def save_progress(self, assignment: Assignment) -> None:
        """Save what a progress report can change: state, counters and time of the update."""
        ...

    def save_lease(self, assignment: Assignment) -> bool:
        """Save what a poll, an acknowledgement or a heartbeat can change: state, lease, context.
        False if the attempt is not the current one."""
        ...

    def add_event(
        self,
        swarm_id: str,
        kind: EventKind,
        at_ms: int,
        data: Mapping[str, object],
        *,
        task_id: str | None = None,
        report_key: bytes | None = None,
    ) -> Event:
        """Add the next event of a swarm that this transaction has taken or added."""
        ...

    def event_of_report(self, swarm_id: str, task_id: str, report_key: bytes) -> Event | None:
        """The event that the report led to the first time."""
        ...

    def event_with_data(
        self, swarm_id: str, task_id: str, data: Mapping[str, object]
    ) -> Event | None:
        """An event of a report of this task with exactly this data. Searches 5,000 at most."""
        ...

    def retry(self, swarm_id: str, task_id: str, step_id: str) -> Retry | None: ...

    def put_retry(self, retry: Retry) -> None: ...

    def close_retries(self, swarm_id: str, task_id: str, step_id: str | None = None) -> int:
        """Close the open retries of one step, or of all; how many were open."""
        ...

    def forget_retries(self, swarm_id: str, task_id: str) -> None: ...

    def due_retries(self, now_ms: int, limit: int) -> list[Retry]:
        """Scheduled retries that are due, the oldest first."""
        ...

    def next_retry_at_ms(self) -> int | None: ...

    # -- cleaning
    def delete_events(self, swarm_id: str, limit: int) -> int: ...

    def prune_events(self, swarm_id: str, before_ms: int, limit: int) -> int:
        """Delete the oldest events up to the first that is not older than `before_ms`, and never
        the newest; how many."""
        ...

    def delete_task(self, swarm_id: str, task_id: str) -> None:
        """Delete the task with all its rows. Its events and receipts stay."""
        ...

    def prune_records(self, before_ms: int, limit: int) -> int:
        """Delete what is older than that and belongs to no swarm, at most `limit` of each:
        notifications, and all but the newest pushes of a repo and signals of a strategy. The
        largest of these numbers."""
        ...

    def delete_worker(self, swarm_id: str, name: str) -> None:
        """Delete a worker that has no task; it can register again."""
        ...

    def delete_swarm(self, swarm_id: str) -> None:
        """Delete the swarm with all its rows, and release its repos. Its receipts stay."""
        ...


class TakenTask(NamedTuple):
    """A task, its current attempt and the worker of the attempt. Each may be None."""

    task: Task | None
    assignment: Assignment | None
    worker: Worker | None


class TakenWorker(NamedTuple):
    """A worker and its current attempt. Each may be None. `may_have_offers`: whether it is worth
    asking for the `next_offer` of the swarm."""

    worker: Worker | None
    assignment: Assignment | None
    may_have_offers: bool = True


class BusTransaction(Protocol):
    """Tasks, their queue, workers and questions. Take the swarm before changing any of them."""

    def take_task(self, swarm_id: str, task_id: str) -> TakenTask | None:
        """Takes the swarm, too; None if there is no such swarm."""
        ...

    def take_worker(self, swarm_id: str, name: str) -> TakenWorker | None:
        """Takes the swarm, too; None if there is no such swarm."""
        ...

    def task(self, swarm_id: str, task_id: str) -> Task | None: ...

    def swarms_of_task(self, task_id: str, limit: int) -> list[tuple[str, str]]:
        """(swarm_id, status) of every task of this id, by swarm."""
        ...

    def task_counts(self, swarm_id: str) -> Mapping[str, int]:
        """How many tasks have which status."""
        ...

    def tasks_with_status(self, swarm_id: str, status: str, limit: int) -> list[Task]:
        """In the order of their ids."""
        ...

    def waiting_for_cancelled(self, swarm_id: str, limit: int) -> list[tuple[str, str]]:
        """Open tasks that depend on a cancelled one: the id of the task, and of the other one."""
        ...

    def tasks_after(self, swarm_id: str, task_id: str, limit: int) -> list[Task]:
        """In the order of their ids."""
        ...

    def next_task(self, swarm_id: str) -> Task | None:
        """The queued task to hand out next: the oldest of the highest priority whose dependencies
        are done and which is not on hold."""
        ...

    def add_task(self, task: Task, depends_on: list[str]) -> None: ...

    def save_task(self, task: Task) -> None:
        """Save everything but title, description, priority and time of creation."""
        ...

    def dependencies(self, swarm_id: str, task_id: str) -> list[str]: ...

    def unfinished_dependencies(self, swarm_id: str, task_id: str) -> list[str]: ...

    def dependents(self, swarm_id: str, task_id: str) -> list[Task]: ...

    def next_queue_number(self, swarm_id: str, priority: int) -> int: ...

    def change_ready(self, swarm_id: str, priority: int, change: int) -> None:
        """Change the count of ready tasks of a priority."""
        ...

    def ready_at_or_above(self, swarm_id: str, priority: int) -> int: ...

    def queue_position(self, task: Task) -> int:
        """How many tasks are handed out up to this one, inclusive; counts to 10,000 at most."""
        ...

    def worker(self, swarm_id: str, name: str) -> Worker | None: ...

    def next_worker(self, swarm_id: str) -> Worker | None:
        """The least recently used worker that is free and available."""
        ...

    def free_workers(self, swarm_id: str, limit: int) -> list[Worker]:
        """The workers that are free and available, the least recently used first."""
        ...

    def next_offer(self, swarm_id: str, skip: int = 0) -> Assignment | None:
        """The oldest offer that no poll has received and that is not held back since, or the one
        after the `skip` oldest."""
        ...

    def put_worker(self, worker: Worker) -> None: ...

    def workers(self, swarm_id: str) -> list[tuple[Worker, WorkerState | None]]:
        """All workers by name, with the state of their assignment."""
        ...

    def busy_workers(self, swarm_id: str) -> list[str]:
        """The names of the workers that have a task."""
        ...

    def end_assignment(self, swarm_id: str, task_id: str, epoch: int) -> bool:
        """Delete the attempt. Its history is in the events. False if the attempt is not the current
        one."""
        ...

    def expired_leases(self, now_ms: int, limit: int) -> list[tuple[str, str, int]]:
        """(swarm_id, task_id, epoch), the longest overdue first."""
        ...

    def renew_expired_leases(self, now_ms: int, grace_seconds: int) -> int:
        """Renew every expired lease for its own length, at most `grace_seconds`; how many."""
        ...

    def next_lease_end_at_ms(self) -> int | None: ...

    def add_question(self, question: Question) -> int:
        """Its id."""
        ...

    def question(self, swarm_id: str, question_id: int) -> Question | None: ...

    def questions(self, swarm_id: str, limit: int, *, only_open: bool) -> list[Question]:
        """The open ones, oldest first; or all, newest first."""
        ...

    def open_questions_of_task(self, swarm_id: str, task_id: str, limit: int) -> list[Question]:
        """Oldest first."""
        ...

    def answered_disputes(
        self, swarm_id: str, task_id: str, epoch: int, limit: int
    ) -> list[Question]:
        """Those of one attempt, newest first."""
        ...

    def answer_question(
        self, swarm_id: str, question_id: int, answer: str, answered_at_ms: int
    ) -> bool:
        """False, without a change, if it has an answer."""
        ...

    def readdress_question(self, swarm_id: str, question_id: int, epoch: int) -> None:
        """Its answer goes to a later attempt of the task."""
        ...

    def withdraw_questions(
        self, swarm_id: str, task_id: str, epoch: int, answered_at_ms: int
    ) -> int:
        """Close the open questions of an attempt that has ended, and of those before; how many."""
        ...

    def has_unfinished_tasks(self, swarm_id: str) -> bool: ...

    def undelivered_answers(self, swarm_id: str, task_id: str, epoch: int) -> list[Question]: ...

    def mark_answers_delivered(self, swarm_id: str, task_id: str, epoch: int) -> None: ...

    def add_salvage(self, swarm_id: str, task_id: str, salvage: Salvage, at_ms: int) -> None: ...

    def salvage(self, swarm_id: str, task_id: str) -> list[Salvage]:
        """The newest first, at most five."""
        ...

    def first_answer(self, swarm_id: str, report_key: bytes) -> tuple[bytes, str] | None:
        """The digest of the first request with this key, and its answer."""
        ...

    def add_answer(
        self, swarm_id: str, report_key: bytes, request_digest: bytes, answer: str, at_ms: int
    ) -> None: ...

    def forget_answers(self, before_ms: int, limit: int) -> int:
        """Delete old answers, the oldest first; how many."""
        ...


class Transaction(
    SwarmTransaction,
    BusTransaction,
    HandoffTransaction,
    ContractTransaction,
    RunTransaction,
    InspectionTransaction,
    DeploymentTransaction,
    MonitoringTransaction,
    NotificationTransaction,
    BoardTransaction,
    Protocol,
):
    """Reads and writes of one use case: all are committed, or none.

    The epoch of a new attempt has to be above `epoch_floor`: attempts up to it may have been handed
    out by a server whose database was replaced by a backup.
    """

    polls: ParkedPolls
    # Who runs the use case, for its events.
    actor: Actor

    @property
    def epoch_floor(self) -> int: ...

    def measure(
        self,
        measure: Measure,
        value: float,
        label: str = "",
        task: tuple[str, str] | None = None,
    ) -> None:
        """Count it if and when the transaction commits. `label` is one of a few fixed words, `task`
        the swarm and the id of the task that it is about."""
        ...

    def hold_term(self, term: int) -> bool:
        """Whether `term` is the current one. If so, no other server can become the leader before
        the end of the transaction."""
        ...


UseCase = Callable[[Transaction], T]


class Transactions(Protocol):
    """What the services and the duties need of a store."""

    def write(self, use_case: UseCase[T], partition: str) -> asyncio.Future[T]:
        """Run the use case; its result, once that is committed. It runs even if nobody awaits the
        result."""
        ...

    async def read(self, use_case: UseCase[T]) -> T: ...


class ClockReading(NamedTuple):
    """The database's clock, in nanoseconds since 1970 in UTC, and the caller's clock before it was
    asked and after it has answered."""

    before_ns: int
    database_ns: int
    after_ns: int


class Store(Transactions, Protocol):
    """One database.

    `write` answers after the commit, never before. Writes of one partition (a swarm id) run one
    after the other, in the order of the calls. `read` sees every write that was answered. A failed
    commit raises StoreUnavailable for every use case in it: OutcomeUnknown if a crash may bring it
    back, StoreDamaged if the database is no longer to be trusted.
    """

    name: str
    # Whether other servers may use the same database.
    shared: bool
    # The newest schema that this program knows.
    schema_version: int
    # What this process has done with the database.
    measures: StoreMeasures

    async def open(
        self,
        on_commit: CommitListener,
        on_gap: Callable[[], None],
        polls: ParkedPolls = NO_PARKED_POLLS,
        on_settings: Callable[[], None] = nothing_to_reload,
    ) -> None:
        """Apply the migrations and start. `on_commit` gets the events of every commit, in order, on
        the event loop, before the answers are given there. `on_gap` is called on the event loop
        when events of other servers may have been missed; their commits can be read by then.
        Use cases see `polls`. `on_settings` is called on the event loop when another server may
        have changed the tokens, the keys or the policy of the deployment."""
        ...

    async def lead(
        self, duties: Callable[[], Awaitable[None]], on_call: Callable[[], None]
    ) -> None:
        """Run `duties` while this server is the leader of those on the database; never returns.
        They are cancelled when leadership is in doubt, so two servers may run them for a moment;
        `leader_term` fences what they write. `on_call` is called for every `call_leader`, of any
        server."""
        ...

    def leader_term(self) -> int | None:
        """The term of this server as the leader, for `Transaction.hold_term`; None if there can be
        no other server. Raises LeadershipLost if this server does not lead."""
        ...

    async def call_leader(self) -> None:
        """Tell the leader that there is something to do without an event. The call may get lost:
        the leader finds the work in its next round."""
        ...

    async def read_clock(self, own_clock_ns: Callable[[], int]) -> ClockReading | None:
        """What the clock of the database shows; None if no other server can share it."""
        ...

    def failing(self) -> StoreUnavailable | None:
        """What a caller would be told, while the database refuses writes; else None."""
        ...

    async def close(self) -> None:
        """Finish the accepted writes, then stop."""
        ...
