"""Many use cases in one commit: what the callers can rely on, on every store.

Writes to one partition that are requested in the same turn of the event loop share a commit.
"""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.errors import PacketConflict, StoreUnavailable, UnknownSwarm
from shiftboss.protocol.events import Event
from shiftboss.store.group_writer import BATCH_MAX
from shiftboss.store.port import Transaction, UseCase
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.rows import SWARM, TASK, add_event, add_swarm_with_event, assignment

pytestmark = pytest.mark.anyio


def event_numbered(number: int, swarm_id: str = SWARM) -> UseCase[int]:
    return lambda tx: add_event(tx, swarm_id, number=number).event_id


async def stored(store: OpenStore, swarm_id: str = SWARM) -> list[Event]:
    return await store.read(lambda tx: tx.events_after(swarm_id, 0, 10_000))


def fail_before_writing(tx: Transaction) -> None:
    tx.take_assignment(SWARM, TASK)
    raise PacketConflict("said by a rule")


def fail_after_writing(tx: Transaction) -> None:
    add_event(tx, number=-1)
    tx.put_assignment(assignment())
    raise PacketConflict("said by a rule")


def fail_in_the_database(tx: Transaction) -> None:
    add_event(tx, number=-1)
    tx.put_assignment(assignment(steps_total=0))


def fail_by_mistake(tx: Transaction) -> None:
    add_event(tx, number=-1)
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("failing", "error"),
    [
        (fail_before_writing, PacketConflict),
        (fail_after_writing, PacketConflict),
        (fail_in_the_database, StoreUnavailable),
        (fail_by_mistake, ZeroDivisionError),
    ],
)
async def test_a_failing_use_case_leaves_no_trace_and_affects_no_other(
    with_swarm: OpenStore, failing: UseCase[None], error: type[Exception]
) -> None:
    results = await asyncio.gather(
        with_swarm.write(event_numbered(1)),
        with_swarm.write(failing),
        with_swarm.write(event_numbered(2)),
        with_swarm.write(failing),
        with_swarm.write(event_numbered(3)),
        return_exceptions=True,
    )
    assert [results[0], results[2], results[4]] == [1, 2, 3]
    assert type(results[1]) is type(results[3]) is error
    kept = await stored(with_swarm)
    assert [event.data for event in kept] == ['{"number":1}', '{"number":2}', '{"number":3}']
    assert with_swarm.commits == [kept]
    assert await with_swarm.read(lambda tx: tx.assignments(SWARM)) == []


async def test_each_caller_gets_the_error_of_its_own_use_case(with_swarm: OpenStore) -> None:
    def unknown(tx: Transaction) -> None:
        tx.take_assignment("nobody", TASK)

    first, second = await asyncio.gather(
        with_swarm.write(unknown), with_swarm.write(fail_after_writing), return_exceptions=True
    )
    assert type(first) is UnknownSwarm
    assert type(second) is PacketConflict


async def test_refused_rows_do_not_poison_later_batches(with_swarm: OpenStore) -> None:
    for round_number in range(1, 11):
        with pytest.raises(StoreUnavailable):
            await with_swarm.write(fail_in_the_database)
        assert await with_swarm.write(event_numbered(round_number)) == round_number
    assert [event.event_id for event in with_swarm.heard] == list(range(1, 11))


async def test_writes_of_one_turn_share_a_commit(with_swarm: OpenStore) -> None:
    await asyncio.gather(*(with_swarm.write(event_numbered(number)) for number in range(50)))
    assert [len(commit) for commit in with_swarm.commits] == [50]


async def test_writes_of_one_partition_run_in_the_order_of_the_calls(
    with_swarm: OpenStore,
) -> None:
    count = 3 * BATCH_MAX + 7
    ids = await asyncio.gather(*(with_swarm.write(event_numbered(n)) for n in range(count)))
    assert ids == list(range(1, count + 1))
    assert [event.data for event in await stored(with_swarm)] == [
        f'{{"number":{number}}}' for number in range(count)
    ]
    assert with_swarm.heard == await stored(with_swarm)


async def test_each_partition_has_its_own_sequence(store: OpenStore) -> None:
    swarms = [f"swarm-{number}" for number in range(20)]
    await asyncio.gather(*(store.add_swarm(swarm_id) for swarm_id in swarms))
    await asyncio.gather(
        *(
            store.write(event_numbered(number, swarm_id), swarm_id)
            for number in range(25)
            for swarm_id in swarms
        )
    )
    for swarm_id in swarms:
        heard = [event for event in store.heard if event.swarm_id == swarm_id]
        assert [event.event_id for event in heard] == list(range(1, 26))
        assert heard == await stored(store, swarm_id)


async def test_the_listener_is_told_of_a_commit_before_the_caller_is_answered(
    store_address: str,
) -> None:
    early_answers: list[str] = []
    async with opened(store_address) as store:
        await store.add_swarm()

        async def ask(number: int) -> None:
            event_id = await store.write(event_numbered(number))
            early_answers.append(f"answered {event_id}")
            assert any(event.event_id == event_id for event in store.heard)

        await asyncio.gather(*(ask(number) for number in range(5)))
    assert early_answers == [f"answered {number}" for number in range(1, 6)]


async def test_an_answered_write_is_visible_to_a_store_opened_later(
    store_address: str,
) -> None:
    async with opened(store_address) as store:
        created = await store.write(add_swarm_with_event)
        await store.write(lambda tx: tx.put_assignment(assignment()))
    async with opened(store_address) as again:
        assert await stored(again) == [created]
        assert await again.read(lambda tx: tx.assignments(SWARM)) == [assignment()]
        assert again.heard == []
        assert await again.write(event_numbered(2)) == 2


async def test_closing_finishes_pending_writes(store_address: str) -> None:
    store = OpenStore(store_address)
    await store.store.open(store.commits.append, lambda: None)
    await store.add_swarm()
    writes = [asyncio.create_task(store.write(event_numbered(n))) for n in range(100)]
    await asyncio.sleep(0)
    await store.store.close()
    assert await asyncio.gather(*writes) == list(range(1, 101))
    async with opened(store_address) as again:
        assert len(await stored(again)) == 100


async def test_a_closed_store_refuses_writes(store_address: str) -> None:
    async with opened(store_address) as store:
        pass
    with pytest.raises(StoreUnavailable):
        await store.write(event_numbered(1))


async def test_a_write_is_committed_even_if_its_caller_is_gone(
    with_swarm: OpenStore,
) -> None:
    gone = asyncio.create_task(with_swarm.write(event_numbered(1)))
    await asyncio.sleep(0)
    gone.cancel()
    assert await with_swarm.write(event_numbered(2)) == 2
    assert gone.cancelled()
    assert [event.event_id for event in with_swarm.heard] == [1, 2]


async def test_a_swarm_recreated_after_its_removal_starts_fresh(with_swarm: OpenStore) -> None:
    await with_swarm.write(event_numbered(1))
    await with_swarm.write(lambda tx: tx.delete_swarm(SWARM))
    again = await with_swarm.write(add_swarm_with_event)
    assert again.event_id == 1
    assert await stored(with_swarm) == [again]


async def test_a_swarm_removed_and_recreated_in_one_commit_starts_fresh(
    store: OpenStore,
) -> None:
    _, _, again = await asyncio.gather(
        store.write(add_swarm_with_event),
        store.write(lambda tx: tx.delete_swarm(SWARM)),
        store.write(add_swarm_with_event),
    )
    assert again.event_id == 1
    assert await stored(store) == [again]
