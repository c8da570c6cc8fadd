"""How often the frequent use cases wait for PostgreSQL, and that reading ahead changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import psycopg
import pytest

from shiftboss.coordinator.bus import add_tasks, polls, tasks, workers
from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.bus import (
    AckRequest,
    AddTaskRequest,
    DoneRequest,
    PollRequest,
    RegisterWorkerRequest,
    TaskRequest,
)
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.poll_acks import PollAck
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.batches import BatchResult, run_batch
from shiftboss.store.port import Transaction
from shiftboss.store.postgres.hung_database import BoundedConnection
from shiftboss.store.postgres.session import PostgresSession, statements
from shiftboss.store.transaction_part import Prefetch
from tests.conformance.store.rows import SWARM, TASK, add_event, assignment, swarm

NOW_MS = 1_767_600_000_000
ACK = PollAck()


@pytest.fixture
def session(postgres_url: str) -> Iterator[PostgresSession]:
    with BoundedConnection.connect(postgres_url, autocommit=True) as connection:
        session = PostgresSession(connection, "this-node", "this-channel")
        run(session, lambda tx: tx.add_swarm(swarm()))
        yield session


def run(session: PostgresSession, *use_cases: Callable[[Transaction], object]) -> BatchResult:
    return run_batch(session, use_cases)


def round_trips(session: PostgresSession, *use_cases: Callable[[Transaction], object]) -> int:
    before = session.pipeline.round_trips
    result = run(session, *use_cases)
    assert [outcome.error for outcome in result.outcomes] == [None] * len(use_cases)
    return session.pipeline.round_trips - before


def add(task_id: str) -> Callable[[Transaction], object]:
    request = AddTaskRequest(swarm_id=SWARM, bead_id=task_id, title="Task")
    return lambda tx: add_tasks.add(tx, request, NOW_MS)


def submit(task_id: str) -> Callable[[Transaction], object]:
    request = TaskRequest(swarm_id=SWARM, bead_id=task_id)
    return lambda tx: tasks.submit(tx, request, NOW_MS)


def add_and_submit(task_id: str) -> Callable[[Transaction], object]:
    request = AddTaskRequest(swarm_id=SWARM, bead_id=task_id, title="Task", submit=True)
    return lambda tx: add_tasks.add(tx, request, NOW_MS)


def poll_and_ack() -> Callable[[Transaction], object]:
    request = PollRequest(swarm_id=SWARM, name="w")
    return lambda tx: polls.poll(tx, request, ACK, NOW_MS)


def done_and_poll(task_id: str) -> Callable[[Transaction], object]:
    request = DoneRequest(swarm_id=SWARM, bead_id=task_id, name="w", poll=True)
    return lambda tx: workers.done_and_poll(tx, request, f"done {task_id}", ACK, NOW_MS)


def poll() -> Callable[[Transaction], object]:
    return lambda tx: polls.poll(tx, PollRequest(swarm_id=SWARM, name="w"), None, NOW_MS)


def ack(task_id: str) -> Callable[[Transaction], object]:
    request = AckRequest(swarm_id=SWARM, name="w", bead_id=task_id)
    return lambda tx: workers.ack(tx, request, f"ack {task_id}", NOW_MS)


def done(task_id: str) -> Callable[[Transaction], object]:
    request = DoneRequest(swarm_id=SWARM, bead_id=task_id)
    return lambda tx: workers.done(tx, request, f"done {task_id}", NOW_MS)


def test_a_frequent_use_case_waits_twice_for_the_database(session: PostgresSession) -> None:
    """For the lock with everything that it reads, and for everything that it writes with the
    COMMIT."""
    count = partial(round_trips, session)
    request = RegisterWorkerRequest(swarm_id=SWARM, name="w")
    run(session, lambda tx: workers.register_worker(tx, request, NOW_MS))
    assert count(poll()) == 2
    assert count(add("first")) == 2
    assert count(submit("first")) == 2
    assert count(add("second")) == 2
    # One more: the number of the queue depends on the priority of the task.
    assert count(submit("second")) == 3
    assert count(poll()) == 2
    assert count(ack("first")) == 2
    assert count(done("first")) == 2
    assert count(poll()) == 2
    assert count(ack("second")) == 2
    assert count(done("second")) == 2


def test_a_cycle_of_combined_calls_waits_four_times_for_the_database(
    session: PostgresSession,
) -> None:
    """A task is added and submitted; its worker reports it done and gets the next one."""
    count = partial(round_trips, session)
    request = RegisterWorkerRequest(swarm_id=SWARM, name="w")
    run(session, lambda tx: workers.register_worker(tx, request, NOW_MS))
    assert count(add_and_submit("first")) == 2
    assert count(poll_and_ack()) == 2
    assert count(done_and_poll("first")) == 2
    # While the worker is busy, tasks wait in the queue.
    assert count(add_and_submit("second")) == 2
    assert count(poll_and_ack()) == 2
    assert count(add_and_submit("third")) == 2
    assert count(done_and_poll("second")) == 2


def test_a_batch_locks_its_swarm_once(session: PostgresSession) -> None:
    assert round_trips(session, *(add(f"task-{number}") for number in range(5))) == 6


def test_a_write_that_fails_late_is_the_failure_of_its_own_use_case(
    session: PostgresSession,
) -> None:
    def break_a_rule(tx: Transaction) -> None:
        add_event(tx, of="broken")
        tx.put_assignment(assignment(steps_total=0))

    result = run(
        session,
        lambda tx: add_event(tx, of="before"),
        break_a_rule,
        lambda tx: add_event(tx, of="after"),
    )
    refused = result.outcomes[1].error
    assert isinstance(refused, StoreUnavailable)
    assert isinstance(refused.__cause__, psycopg.errors.CheckViolation)
    assert [outcome.error for outcome in result.outcomes[::2]] == [None, None]
    assert [event.event_id for event in result.events] == [1, 2]
    stored = run(session, lambda tx: tx.events_after(SWARM, 0, 10)).outcomes[0].value
    assert stored == result.events


def test_a_guarded_write_that_changes_nothing_says_so(session: PostgresSession) -> None:
    run(session, lambda tx: tx.put_assignment(assignment(epoch=2)))

    def save(epoch: int, tx: Transaction) -> bool:
        tx.take_assignment(SWARM, TASK)
        return tx.save_lease(assignment(epoch=epoch, lease_seconds=epoch))

    result = run(session, partial(save, 1), partial(save, 2))
    assert [outcome.value for outcome in result.outcomes] == [False, True]
    stored = run(session, lambda tx: tx.assignment(SWARM, TASK)).outcomes[0].value
    assert stored.lease_seconds == 2


def test_a_text_that_postgres_cannot_keep_harms_only_its_use_case(session: PostgresSession) -> None:
    result = run(session, lambda tx: tx.put_worker(worker("a\0b")), add("task"))
    assert isinstance(result.outcomes[0].error, StoreUnavailable)
    assert result.outcomes[1].error is None


@pytest.mark.parametrize("seed", range(3))
def test_what_was_read_ahead_is_what_the_database_says(session: PostgresSession, seed: int) -> None:
    chance = Random(seed)
    for _ in range(6):
        run(session, partial(take_and_write, chance=chance))
    looked = 0
    session.begin()
    tx = session.transaction()
    tx.take_swarm(SWARM)
    for _ in range(60):
        for use in (Prefetch.DRAIN, Prefetch.FINISH, Prefetch.QUEUE):
            tx.prefetch(use, SWARM, "t-0", priority=1, report_key=b"key")
        tx.next_task(SWARM)
        for _ in range(3):
            write_something(tx, chance)
            looked += check_known(session)
    session.rollback()
    assert looked > 100


def test_tasks_leave_the_queue_in_their_order(session: PostgresSession) -> None:
    queued = [
        task(f"t-{number}")._replace(status="queued", queue_number=number) for number in range(5)
    ]

    def fill_the_queue(tx: Transaction) -> None:
        for each in queued:
            tx.add_task(each, [])

    def empty_the_queue(tx: Transaction) -> list[Task]:
        tx.prefetch(Prefetch.DRAIN, SWARM)
        tx.take_swarm(SWARM)
        taken = []
        while (first := tx.next_task(SWARM)) is not None:
            tx.save_task(first._replace(status="active", worker="w", epoch=1))
            taken.append(first)
        return taken

    run(session, fill_the_queue)
    assert run(session, empty_the_queue).outcomes[0].value == queued


@pytest.mark.parametrize("seed", range(5))
def test_merged_writes_leave_what_single_ones_leave(session: PostgresSession, seed: int) -> None:
    stored = []
    for is_merged in (True, False):
        chance = Random(seed)
        session.begin()
        session._sends_later = is_merged
        tx = session.transaction()
        tx.take_swarm(SWARM)
        before = session.pipeline.statements
        for _ in range(12):
            for _ in range(chance.randrange(6)):
                write_something(tx, chance)
            tx.salvage(SWARM, TASK)  # a read sends what waits
        sent = session.pipeline.statements - before
        stored.append((sent, everything(tx)))
        session.rollback()
    (merged, rows), (single, expected) = stored
    assert rows == expected
    assert merged < single


def everything(tx: Transaction) -> list[object]:
    return [
        tx.tasks_after(SWARM, "", 100),
        tx.workers(SWARM),
        tx.all_assignments(SWARM),
        tx.events_after(SWARM, 0, 1000),
        tx.task_counts(SWARM),
    ]


def take_and_write(tx: Transaction, chance: Random) -> None:
    if tx.take_swarm(SWARM) is not None:
        write_something(tx, chance)


def write_something(tx: Transaction, chance: Random) -> None:
    name = f"w-{chance.randrange(4)}"
    task_id = f"t-{chance.randrange(6)}"
    match chance.randrange(9):
        case 0:
            holds = chance.choice([None, "t-0"])
            tx.put_worker(worker(name, holds, chance.random() < 0.7, chance.randrange(20)))
        case 1:
            tx.change_ready(SWARM, chance.randrange(3), 1)
            tx.next_queue_number(SWARM, chance.randrange(3))
        case 2:
            state = chance.choice([WorkerState.ASSIGNED, WorkerState.EXECUTING])
            received = chance.random() < 0.5
            tx.put_assignment(
                assignment()._replace(
                    task_id=task_id, packet_id=None, worker=name, state=state, received=received
                )
            )
        case 3 if (held := tx.assignment(SWARM, task_id)) is not None:
            if chance.random() < 0.5:
                tx.save_lease(held._replace(lease_seconds=chance.randrange(9), received=True))
            else:
                tx.end_assignment(SWARM, task_id, held.epoch)
        case 4 | 5:
            for _ in range(chance.randrange(12)):
                tx.add_event(SWARM, EventKind.PROGRESS_UPDATE, NOW_MS, {"of": task_id})
        case _ if (known := tx.task(SWARM, task_id)) is None:
            others = [other for other in ("t-0", "t-1") if tx.task(SWARM, other)]
            tx.add_task(task(task_id), others)
        case _:
            status = chance.choice(["open", "queued", "done"])
            tx.save_task(
                known._replace(
                    status=status, queue_number=chance.randrange(9), waits_for=chance.randrange(2)
                )
            )


def check_known(session: PostgresSession) -> int:
    known = {read: dict(entries) for read, entries in session._ahead._known.items()}
    looked = 0
    for query, entries in known.items():
        names = statements()[query].parameters
        for values, entry in entries.items():
            session._ahead.clear()
            asked: Any = dict(zip(names, values, strict=True))
            found = [tuple(row) for row in session.fetch_all(query, asked)]
            rows = [tuple(row) for row in entry.rows]
            assert entry.are_all or rows
            assert (found if entry.are_all else found[: len(rows)]) == rows, query
            looked += 1
    session._ahead._known = known
    for number in range(4):
        asked = {"swarm_id": SWARM, "name": f"w-{number}"}
        row = session._ahead.known("take_worker", asked)
        if row is not None:
            session._ahead.clear()
            assert row == [tuple(each) for each in session.fetch_all("take_worker", asked)]
            session._ahead._known = known
            looked += 1
    return looked


def worker(
    name: str, task_id: str | None = None, available: bool = True, last_activity_at_ms: int = 1
) -> Worker:
    return Worker(SWARM, name, task_id, available, 1, last_activity_at_ms)


def task(task_id: str) -> Task:
    return Task(
        swarm_id=SWARM,
        task_id=task_id,
        title="Task",
        description="",
        priority=1,
        status="open",
        waits_for=0,
        queue_number=None,
        epoch=0,
        worker=None,
        checkpoint=None,
        last_error=None,
        created_at_ms=NOW_MS,
        updated_at_ms=NOW_MS,
    )
