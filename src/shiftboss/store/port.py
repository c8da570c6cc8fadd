"""The port of the store: what the coordinator asks for, and what it may rely on.

A use case is a plain function of a transaction. It may be run more than once before it is
answered (a batch can be rolled back and run again), so it must have no other effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, Protocol, TypeVar

from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.swarms import Swarm
from shiftboss.rules.tasks.tasks import Question, Salvage, Task, Worker
from shiftboss.store.contract_port import ContractTransaction
from shiftboss.store.handoff_port import HandoffTransaction
from shiftboss.store.run_port import RunTransaction

T = TypeVar("T")

CommitListener = Callable[[list[Event]], None]


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

    # -- writing; the first call of a writing use case takes the swarm for itself until the commit
    def take_swarm(self, swarm_id: str) -> Swarm | None: ...

    def take_assignment(self, swarm_id: str, task_id: str) -> Assignment | None:
        """The current attempt, or None. Raises UnknownSwarm."""
        ...

    def take_reported(
        self, swarm_id: str, task_id: str, report_key: bytes
    ) -> tuple[Assignment | None, Event | None]:
        """`take_assignment` and `event_of_report` in one."""
        ...

    def add_swarm(self, swarm: Swarm) -> bool:
        """False, and no change, when the id is taken."""
        ...

    def set_swarm_completed(self, swarm_id: str, completed_at_ms: int | None) -> None: ...

    def put_assignment(self, assignment: Assignment) -> None:
        """A new attempt: replaces the former one of the same task."""
        ...

    def save_assignment(self, assignment: Assignment) -> bool:
        """Save what can change within an attempt: state, counters, result and times. False when
        the attempt is not the current one."""
        ...

    def save_progress(self, assignment: Assignment) -> None:
        """What a progress report can change: state, counters and time of the update."""
        ...

    def save_sign_of_life(self, assignment: Assignment) -> bool:
        """Save what a poll, an acknowledgement or a heartbeat can change: state, lease, context.
        False when the attempt is not the current one."""
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
        """The next event of a swarm that this transaction has taken or added."""
        ...

    def event_of_report(self, swarm_id: str, task_id: str, report_key: bytes) -> Event | None:
        """The event that a report led to the first time it came."""
        ...

    def event_of_words(
        self, swarm_id: str, task_id: str, data: Mapping[str, object]
    ) -> Event | None:
        """An event of a report of this task with exactly this data. Looks at 5,000 at most."""
        ...

    def retry(self, swarm_id: str, task_id: str, step_id: str) -> Retry | None: ...

    def put_retry(self, retry: Retry) -> None: ...

    def close_retries(self, swarm_id: str, task_id: str, step_id: str | None = None) -> int:
        """Close the open retries of one step, or of all; how many were open."""
        ...

    def forget_retries(self, swarm_id: str, task_id: str) -> None: ...

    def due_retries(self, now_ms: int, limit: int) -> list[Retry]:
        """Scheduled retries whose time has come, the oldest first."""
        ...

    def next_retry_at_ms(self) -> int | None: ...

    # -- cleaning
    def swarms_completed_before(self, at_ms: int, limit: int) -> list[str]: ...

    def delete_events(self, swarm_id: str, limit: int) -> int: ...

    def delete_swarm(self, swarm_id: str) -> None:
        """The swarm with all that is left of it."""
        ...


class TakenTask(NamedTuple):
    """A task, the current attempt at it, and who makes it. Each is None where there is none."""

    task: Task | None
    assignment: Assignment | None
    worker: Worker | None


class TakenWorker(NamedTuple):
    """A worker, and the attempt that it makes. Each is None where there is none."""

    worker: Worker | None
    assignment: Assignment | None


class BusTransaction(Protocol):
    """Tasks, their queue, workers and questions. A swarm is taken before any of it is changed."""

    def take_task(self, swarm_id: str, task_id: str) -> TakenTask | None:
        """Takes the swarm too; None when there is none."""
        ...

    def take_worker(self, swarm_id: str, name: str) -> TakenWorker | None:
        """Takes the swarm too; None when there is none."""
        ...

    def task(self, swarm_id: str, task_id: str) -> Task | None: ...

    def tasks_after(self, swarm_id: str, task_id: str, limit: int) -> list[Task]:
        """In the order of their ids."""
        ...

    def next_task(self, swarm_id: str) -> Task | None:
        """The queued task to hand out next: its dependencies are done, the highest priority
        first, then the oldest."""
        ...

    def add_task(self, task: Task, depends_on: list[str]) -> None: ...

    def save_task(self, task: Task) -> None:
        """All but title, description, priority and time of creation."""
        ...

    def dependencies(self, swarm_id: str, task_id: str) -> list[str]: ...

    def unfinished_dependencies(self, swarm_id: str, task_id: str) -> list[str]: ...

    def dependents(self, swarm_id: str, task_id: str) -> list[Task]: ...

    def next_queue_number(self, swarm_id: str, priority: int) -> int: ...

    def change_ready(self, swarm_id: str, priority: int, change: int) -> None:
        """Keep the count of ready tasks of a priority."""
        ...

    def ready_at_or_above(self, swarm_id: str, priority: int) -> int: ...

    def queue_position(self, task: Task) -> int:
        """How many are handed out up to and with this one; not counted beyond 10,000."""
        ...

    def worker(self, swarm_id: str, name: str) -> Worker | None: ...

    def next_worker(self, swarm_id: str) -> Worker | None:
        """The least recently used worker that is free and available."""
        ...

    def put_worker(self, worker: Worker) -> None: ...

    def workers(self, swarm_id: str) -> list[tuple[Worker, WorkerState | None]]:
        """All, by name, with the state of what each holds."""
        ...

    def end_assignment(self, swarm_id: str, task_id: str, epoch: int) -> bool:
        """Delete the assignment of an attempt that is over; its record is in the events. False
        when the attempt is not the current one."""
        ...

    def expired_leases(self, now_ms: int, limit: int) -> list[tuple[str, str, int]]:
        """(swarm_id, task_id, epoch), the longest overdue first."""
        ...

    def renew_expired_leases(self, now_ms: int, grace_seconds: int) -> int:
        """Give every expired lease its length again, at most `grace_seconds`; how many."""
        ...

    def next_lease_end_at_ms(self) -> int | None: ...

    def add_question(self, question: Question) -> int:
        """The id it got."""
        ...

    def question(self, swarm_id: str, question_id: int) -> Question | None: ...

    def questions(self, swarm_id: str, limit: int, *, only_open: bool) -> list[Question]:
        """The open ones, oldest first; or all, newest first."""
        ...

    def answer_question(
        self, swarm_id: str, question_id: int, answer: str, answered_at_ms: int
    ) -> bool:
        """False, and no change, when it has an answer."""
        ...

    def withdraw_questions(
        self, swarm_id: str, task_id: str, epoch: int, answered_at_ms: int
    ) -> None:
        """Nobody needs to answer what an attempt asked that is over."""
        ...

    def has_unfinished_tasks(self, swarm_id: str) -> bool: ...

    def unheard_answers(self, swarm_id: str, task_id: str, epoch: int) -> list[Question]: ...

    def hear_answers(self, swarm_id: str, task_id: str, epoch: int) -> None: ...

    def add_salvage(self, swarm_id: str, task_id: str, salvage: Salvage, at_ms: int) -> None: ...

    def salvage(self, swarm_id: str, task_id: str) -> list[Salvage]:
        """The newest first, at most five."""
        ...

    def first_answer(self, swarm_id: str, report_key: bytes) -> tuple[bytes, str] | None:
        """What was said under a key, as a digest, and the answer it got."""
        ...

    def add_answer(
        self, swarm_id: str, report_key: bytes, words: bytes, answer: str, at_ms: int
    ) -> None: ...

    def forget_answers(self, before_ms: int, limit: int) -> int:
        """The oldest first; how many."""
        ...


class Transaction(
    SwarmTransaction,
    BusTransaction,
    HandoffTransaction,
    ContractTransaction,
    RunTransaction,
    Protocol,
):
    """Reads and writes of one use case. All of it is committed, or none."""


UseCase = Callable[[Transaction], T]


class Store(Protocol):
    """One database.

    `write` answers after the commit, never before. Writes of one partition (a swarm id) are run
    one after the other, in the order of the calls. `read` sees every write that was answered.
    A failed commit raises StoreUnavailable for every use case in it.
    """

    name: str
    # Whether other servers may use the same database.
    shared: bool

    async def open(self, on_commit: CommitListener, on_gap: Callable[[], None]) -> None:
        """Apply the migrations and start. `on_commit` hears of the events of every commit, in
        order, on the event loop, before the answers are given there. `on_gap` hears,
        there too, that events of other servers may have been missed; what led to them can be read
        from then on."""
        ...

    def write(self, use_case: UseCase[T], partition: str) -> asyncio.Future[T]:
        """What the use case gives back, once that is committed. It is on its way when this
        returns, whether anybody waits for it or not."""
        ...

    async def read(self, use_case: UseCase[T]) -> T: ...

    async def lead(
        self, duties: Callable[[], Awaitable[None]], on_call: Callable[[], None]
    ) -> None:
        """Run `duties` whenever this server is the one, of all on the database, that has them; for
        ever. They are cancelled when it is not sure any more, so for a moment two may have them.
        `on_call` hears `call_leader`, whichever server calls."""
        ...

    async def call_leader(self) -> None:
        """There is something to do that no event tells of. It may be missed: the leader finds it
        at its next look into the store."""
        ...

    def failing(self) -> str | None:
        """What is wrong, while the last writes were refused by the database."""
        ...

    async def close(self) -> None:
        """Finish what was taken, then stop."""
        ...
