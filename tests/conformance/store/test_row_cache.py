"""The cache of a writing session must always agree with the database, whatever fails."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.events import EventKind
from shiftboss.rules.runs.records import Hold
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Task, Worker
from shiftboss.store.port import Transaction, UseCase
from shiftboss.store.row_cache import CachedRows, CachedSwarms, Unknown
from tests.conformance.opened import OpenStore
from tests.conformance.store.rows import SWARM, assignment

pytestmark = pytest.mark.anyio

WORKER = Worker(SWARM, "w", None, True, 1, 1)


def task(name: str = "t", **changes: Any) -> Task:
    whole = Task(SWARM, name, "Title", "", 0, "open", 0, None, 0, None, None, None, 1, 1)
    return whole._replace(**changes)


class Mistake(Exception):
    pass


def change_all(tx: Transaction) -> None:
    held = assignment()._replace(task_id="t", packet_id=None, worker="w")
    tx.save_task(task(status="active", epoch=1, worker="w"))
    tx.put_worker(WORKER._replace(task_id="t"))
    tx.put_assignment(held)
    tx.put_hold(Hold(SWARM, "t", "pause", "quota", 1, None))
    tx.add_event(SWARM, EventKind.TASK_ASSIGNED, 1, {})


def change_all_and_fail(tx: Transaction) -> None:
    change_all(tx)
    raise Mistake


def fail_in_the_database(tx: Transaction) -> None:
    change_all(tx)
    tx.put_assignment(assignment(steps_total=0))


class Known(NamedTuple):
    task: Task | None
    worker: Worker | None
    assignment: Assignment | None
    holds: list[Hold]


def read(tx: Transaction) -> Known:
    return Known(
        tx.task(SWARM, "t"),
        tx.worker(SWARM, "w"),
        tx.assignment(SWARM, "t"),
        tx.holds_of_task(SWARM, "t"),
    )


def known(tx: Transaction) -> Known:
    """Check that every way to read the row gives the same result."""
    found = read(tx)
    task_taken, worker_taken = tx.take_task(SWARM, "t"), tx.take_worker(SWARM, "w")
    assert task_taken is not None
    assert worker_taken is not None
    assert (task_taken.task, task_taken.assignment) == (found.task, found.assignment)
    assert (worker_taken.worker, worker_taken.assignment) == (found.worker, found.assignment)
    assert task_taken.worker == (found.worker if found.assignment else None)
    return found


@pytest.fixture
async def furnished(with_swarm: OpenStore) -> OpenStore:
    def furnish(tx: Transaction) -> None:
        tx.add_task(task(), [])
        tx.put_worker(WORKER)

    await with_swarm.write(furnish)
    return with_swarm


@pytest.mark.parametrize(
    ("failing", "error"),
    [(change_all_and_fail, Mistake), (fail_in_the_database, StoreUnavailable)],
)
async def test_rolled_back_changes_are_dropped_from_the_cache(
    furnished: OpenStore, failing: UseCase[None], error: type[Exception]
) -> None:
    before = await furnished.write(known)
    with pytest.raises(error):
        await furnished.write(failing)
    assert await furnished.write(known) == before


async def test_a_rolled_back_change_is_invisible_to_others_in_the_same_commit(
    furnished: OpenStore,
) -> None:
    before = await furnished.write(known)
    *_, after = await asyncio.gather(
        furnished.write(known),
        furnished.write(change_all_and_fail),
        furnished.write(known),
        return_exceptions=True,
    )
    assert after == before


async def test_a_change_is_seen_by_the_next_use_case_and_stored(furnished: OpenStore) -> None:
    await furnished.write(known)
    _, seen = await asyncio.gather(furnished.write(change_all), furnished.write(known))
    assert seen == await furnished.read(read)
    assert seen.worker == WORKER._replace(task_id="t")
    assert seen.holds


async def test_an_older_attempt_does_not_change_the_cache(furnished: OpenStore) -> None:
    await furnished.write(change_all)

    def say_something_old(tx: Transaction) -> None:
        old = assignment()._replace(task_id="t", packet_id=None, epoch=7)
        tx.save_assignment(old._replace(last_error="from the past"))
        tx.end_assignment(SWARM, "t", 7)

    await furnished.write(say_something_old)
    held = await furnished.write(lambda tx: tx.assignment(SWARM, "t"))
    assert held is not None
    assert (held.epoch, held.last_error) == (1, None)


async def test_a_deleted_swarm_is_dropped_from_the_cache(furnished: OpenStore) -> None:
    await furnished.write(change_all)
    await furnished.write(lambda tx: tx.delete_swarm(SWARM))
    assert await furnished.write(lambda tx: tx.take_task(SWARM, "t")) is None
    assert await furnished.write(lambda tx: tx.task(SWARM, "t")) is None
    await furnished.add_swarm()
    assert (await furnished.write(lambda tx: tx.add_event(SWARM, EventKind.TASK_ADDED, 1, {})))[
        1
    ] == 1


async def test_events_are_visible_within_the_same_use_case(
    with_swarm: OpenStore,
) -> None:
    def add_and_look(tx: Transaction) -> list[int]:
        for number in range(40):
            tx.add_event(SWARM, EventKind.TASK_ADDED, number, {}, report_key=bytes([number]))
        return [event.event_id for event in tx.events_after(SWARM, 0, 100)]

    assert await with_swarm.write(add_and_look) == list(range(1, 41))
    assert len(await with_swarm.read(lambda tx: tx.events_after(SWARM, 0, 100))) == 40


async def test_an_event_that_cannot_be_added_affects_only_its_own_use_case(
    with_swarm: OpenStore,
) -> None:
    def add(tx: Transaction) -> int:
        return tx.add_event(
            SWARM, EventKind.TASK_ADDED, 1, {}, task_id="t", report_key=b"key"
        ).event_id

    first, second, third = await asyncio.gather(
        with_swarm.write(add),
        with_swarm.write(add),
        with_swarm.write(lambda tx: tx.add_event(SWARM, EventKind.TASK_ADDED, 1, {}).event_id),
        return_exceptions=True,
    )
    assert (first, third) == (1, 2)
    assert isinstance(second, Exception)
    assert len(await with_swarm.read(lambda tx: tx.events_after(SWARM, 0, 100))) == 2


def test_the_caches_are_bounded() -> None:
    rows: CachedRows[int] = CachedRows(2)
    for number in range(5):
        rows.put("s", str(number), number)
    assert rows.get("s", "4") == 4
    assert isinstance(rows.get("s", "0"), Unknown)
    assert len(rows._rows) <= 2
    swarms = CachedSwarms(1)
    swarms.add("a")
    swarms.add("b")
    assert "a" in swarms
    assert "b" not in swarms
