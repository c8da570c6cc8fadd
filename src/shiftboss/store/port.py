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
from shiftboss.store.board.port import BoardTransaction
from shiftboss.store.bus.port import BusTransaction
from shiftboss.store.contract.port import ContractTransaction
from shiftboss.store.deployment.port import DeploymentTransaction
from shiftboss.store.handoffs.port import HandoffTransaction
from shiftboss.store.inspection.port import InspectionTransaction
from shiftboss.store.monitoring.measures import Measure, StoreMeasures
from shiftboss.store.monitoring.port import MonitoringTransaction
from shiftboss.store.notifications.port import NotificationTransaction
from shiftboss.store.runs.port import RunTransaction
from shiftboss.store.transaction_part import NO_PARKED_POLLS, ParkedPolls, Prefetch

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

    def prefetch(
        self,
        use: Prefetch,
        swarm_id: str,
        task_id: str | None = None,
        **others: str | int | bytes | None,
    ) -> None:
        """What the use case will read, and of what: the task, its priority, the name of the worker,
        the key of the report. A store on another machine fetches it with the next read."""
        ...

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
