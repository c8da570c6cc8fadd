"""The methods of the transaction for events and retries, on every store."""

from __future__ import annotations

import json

import pytest

from shiftboss.errors import StoreUnavailable, UnknownSwarm
from shiftboss.protocol.events import Event, EventKind
from shiftboss.store.port import Retry, Transaction
from tests.conformance.opened import OpenStore
from tests.conformance.store.rows import SWARM, TASK, add_event, assignment, retry

pytestmark = pytest.mark.anyio


async def add_events(store: OpenStore, count: int, swarm_id: str = SWARM) -> list[Event]:
    def add(tx: Transaction) -> list[Event]:
        return [add_event(tx, swarm_id, number=number) for number in range(count)]

    return await store.write(add, swarm_id)


async def test_event_ids_start_at_one_in_each_swarm(with_swarm: OpenStore) -> None:
    await with_swarm.add_swarm("swarm-2")
    for swarm_id in (SWARM, "swarm-2"):
        added = await add_events(with_swarm, 3, swarm_id)
        assert [event.event_id for event in added] == [1, 2, 3]
    assert [event.event_id for event in await add_events(with_swarm, 2)] == [4, 5]


async def test_an_event_is_stored_as_it_was_added(with_swarm: OpenStore) -> None:
    data = {"packet_id": 1, "message": 'Größe ✓ \n " \\ %s :x', "commit": None, "ok": True}
    added = await with_swarm.write(
        lambda tx: tx.add_event(SWARM, EventKind.WORKER_ERROR, 1_767_600_000_777, data)
    )
    assert json.loads(added.data) == data
    assert "\n" not in added.data
    assert added == Event(SWARM, 1, "worker_error", 1_767_600_000_777, added.data, "server")
    assert await with_swarm.read(lambda tx: tx.last_event(SWARM)) == added
    assert await with_swarm.read(lambda tx: tx.events_after(SWARM, 0, 10)) == [added]


async def test_events_are_read_in_order_from_any_id(with_swarm: OpenStore) -> None:
    added = await add_events(with_swarm, 12)
    assert await with_swarm.read(lambda tx: tx.events_after(SWARM, 0, 100)) == added
    assert await with_swarm.read(lambda tx: tx.events_after(SWARM, 9, 2)) == added[9:11]
    assert await with_swarm.read(lambda tx: tx.events_after(SWARM, 12, 10)) == []
    assert await with_swarm.read(lambda tx: tx.last_event(SWARM)) == added[-1]


async def test_a_swarm_without_events_has_no_last_one(with_swarm: OpenStore) -> None:
    assert await with_swarm.read(lambda tx: tx.last_event(SWARM)) is None


KEY = bytes(range(16))


def report(tx: Transaction) -> Event:
    tx.take_swarm(SWARM)
    return tx.add_event(SWARM, EventKind.PROGRESS_UPDATE, 1, {}, task_id=TASK, report_key=KEY)


REPORTS = [
    (SWARM, TASK, KEY, True),
    (SWARM, "packet-2", KEY, False),
    (SWARM, TASK, KEY[::-1], False),
    ("swarm-2", TASK, KEY, False),
]


@pytest.mark.parametrize(("swarm_id", "task_id", "key", "known"), REPORTS)
async def test_a_report_is_found_by_swarm_task_and_key(
    with_swarm: OpenStore, swarm_id: str, task_id: str, key: bytes, known: bool
) -> None:
    added = await with_swarm.write(report)
    found = await with_swarm.write(lambda tx: tx.event_of_report(swarm_id, task_id, key))
    assert found == (added if known else None)


@pytest.mark.parametrize(("swarm_id", "task_id", "key", "known"), REPORTS)
async def test_an_assignment_and_its_report_are_taken_together(
    with_swarm: OpenStore, swarm_id: str, task_id: str, key: bytes, known: bool
) -> None:
    await with_swarm.add_swarm("swarm-2")
    added = await with_swarm.write(report)
    row = assignment(swarm_id=swarm_id)
    await with_swarm.write(lambda tx: tx.put_assignment(row))
    taken = await with_swarm.write(lambda tx: tx.take_reported(swarm_id, task_id, key))
    assert taken == (row if task_id == TASK else None, added if known else None)


async def test_a_report_to_an_unknown_swarm_is_refused(store: OpenStore) -> None:
    with pytest.raises(UnknownSwarm):
        await store.write(lambda tx: tx.take_reported("nobody", TASK, KEY))


async def test_a_report_is_not_stored_twice(with_swarm: OpenStore) -> None:
    added = await with_swarm.write(report)
    with pytest.raises(StoreUnavailable):
        await with_swarm.write(report)
    assert await with_swarm.read(lambda tx: tx.events_after(SWARM, 0, 10)) == [added]


async def test_a_retry_is_read_as_it_was_last_written(with_swarm: OpenStore) -> None:
    assert await with_swarm.write(lambda tx: tx.retry(SWARM, TASK, "task-1")) is None
    for put in (retry(), retry(retries_made=2, state="due", due_at_ms=2_000)):

        def keep(tx: Transaction, kept: Retry = put) -> None:
            tx.put_retry(kept)

        await with_swarm.write(keep)
        assert await with_swarm.write(lambda tx: tx.retry(SWARM, TASK, "task-1")) == put


RETRIES = [
    retry("late", due_at_ms=3_000),
    retry("early", due_at_ms=1_000),
    retry("b", due_at_ms=2_000),
    retry("a", due_at_ms=2_000),
    retry("told", due_at_ms=500, state="due"),
    retry("over", due_at_ms=100, state="closed"),
]


@pytest.fixture
async def with_retries(with_swarm: OpenStore) -> OpenStore:
    def put(tx: Transaction) -> None:
        for one in RETRIES:
            tx.put_retry(one)
        tx.put_retry(retry("early", task_id="packet-2", due_at_ms=9_000))

    await with_swarm.write(put)
    return with_swarm


def steps(retries: list[Retry]) -> list[str]:
    return [retry.step_id for retry in retries]


async def test_open_retries_are_those_scheduled_or_due(with_retries: OpenStore) -> None:
    found = await with_retries.read(lambda tx: tx.open_retries(SWARM))
    assert steps(found) == ["told", "early", "a", "b", "late", "early"]


async def test_due_retries_are_the_scheduled_ones_whose_time_has_come(
    with_retries: OpenStore,
) -> None:
    due = await with_retries.read(lambda tx: tx.due_retries(2_000, 10))
    assert steps(due)[0] == "early"
    assert sorted(steps(due)) == ["a", "b", "early"]
    assert steps(await with_retries.read(lambda tx: tx.due_retries(9_000, 1))) == ["early"]
    assert await with_retries.read(lambda tx: tx.due_retries(999, 10)) == []


async def test_the_next_retry_is_the_earliest_scheduled_one(with_retries: OpenStore) -> None:
    assert await with_retries.read(lambda tx: tx.next_retry_at_ms()) == 1_000
    await with_retries.write(lambda tx: tx.close_retries(SWARM, TASK))
    assert await with_retries.read(lambda tx: tx.next_retry_at_ms()) == 9_000
    await with_retries.write(lambda tx: tx.close_retries(SWARM, "packet-2"))
    assert await with_retries.read(lambda tx: tx.next_retry_at_ms()) is None


async def test_closing_retries_returns_how_many_were_open(with_retries: OpenStore) -> None:
    for step_id, closed in (("early", 1), ("early", 0), ("over", 0), ("none", 0), (None, 4)):

        def close(tx: Transaction, step: str | None = step_id) -> int:
            return tx.close_retries(SWARM, TASK, step)

        assert await with_retries.write(close) == closed
    left = await with_retries.read(lambda tx: tx.open_retries(SWARM))
    assert [retry.task_id for retry in left] == ["packet-2"]


async def test_forgotten_retries_are_gone(with_retries: OpenStore) -> None:
    await with_retries.write(lambda tx: tx.forget_retries(SWARM, TASK))
    assert await with_retries.write(lambda tx: tx.retry(SWARM, TASK, "over")) is None
    left = await with_retries.read(lambda tx: tx.open_retries(SWARM))
    assert [retry.task_id for retry in left] == ["packet-2"]


async def test_old_events_are_pruned_up_to_the_first_young_one(with_swarm: OpenStore) -> None:
    def add_all(tx: Transaction) -> None:
        for at_ms in (10, 20, 30, 99, 5, 6):
            tx.add_event(SWARM, EventKind.TASK_ADDED, at_ms, {})

    await with_swarm.write(add_all)
    assert await with_swarm.write(lambda tx: tx.prune_events(SWARM, 50, 2)) == 2
    assert await with_swarm.write(lambda tx: tx.prune_events(SWARM, 50, 2)) == 1
    assert await with_swarm.write(lambda tx: tx.prune_events(SWARM, 50, 2)) == 0
    left = await with_swarm.read(lambda tx: tx.events_after(SWARM, 0, 10))
    assert [event.event_id for event in left] == [4, 5, 6], "without gaps"
    assert await with_swarm.write(lambda tx: tx.prune_events(SWARM, 1000, 100)) == 2
    assert (await with_swarm.write(add_event)).event_id == 7, "the newest stays"


async def test_events_are_deleted_oldest_first_and_the_newest_is_kept(
    with_swarm: OpenStore,
) -> None:
    await add_events(with_swarm, 6)
    assert await with_swarm.write(lambda tx: tx.delete_events(SWARM, 4)) == 4
    left = await with_swarm.read(lambda tx: tx.events_after(SWARM, 0, 10))
    assert [event.event_id for event in left] == [5, 6]
    assert await with_swarm.write(lambda tx: tx.delete_events(SWARM, 4)) == 1
    assert await with_swarm.write(lambda tx: tx.delete_events(SWARM, 4)) == 0
    assert [event.event_id for event in await add_events(with_swarm, 1)] == [7]


async def test_deleting_a_swarm_deletes_everything_in_it(with_retries: OpenStore) -> None:
    await with_retries.add_swarm("swarm-2")
    await add_events(with_retries, 2)
    kept = await add_events(with_retries, 2, "swarm-2")
    await with_retries.write(lambda tx: tx.put_assignment(assignment()))
    await with_retries.write(lambda tx: tx.delete_swarm(SWARM))

    def left(tx: Transaction) -> list[object]:
        found = (tx.swarm(SWARM), tx.assignments(SWARM), tx.open_retries(SWARM))
        return [*found, tx.events_after(SWARM, 0, 10), tx.next_retry_at_ms()]

    assert await with_retries.read(left) == [None, [], [], [], None]
    assert await with_retries.read(lambda tx: tx.events_after("swarm-2", 0, 10)) == kept
