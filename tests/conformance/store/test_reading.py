"""What a read sees, on every store."""

from __future__ import annotations

import asyncio
import threading

import pytest

from shiftboss.errors import StoreUnavailable, UnknownSwarm
from shiftboss.store.port import Transaction
from tests.conformance.opened import OpenStore
from tests.conformance.store.rows import SWARM, TASK, add_event, assignment

pytestmark = pytest.mark.anyio

WAIT_SECONDS = 10


async def test_a_read_sees_every_answered_write(with_swarm: OpenStore) -> None:
    async def write_then_read(_: int) -> None:
        event = await with_swarm.write(add_event)
        found = await with_swarm.read(lambda tx: tx.events_after(SWARM, event.event_id - 1, 1))
        assert found == [event]

    for _ in range(5):
        await asyncio.gather(*map(write_then_read, range(20)))


async def test_a_read_sees_a_consistent_snapshot(with_swarm: OpenStore) -> None:
    loop = asyncio.get_running_loop()
    looked, written = asyncio.Event(), threading.Event()

    def look_twice(tx: Transaction) -> tuple[object, object]:
        before = tx.events_after(SWARM, 0, 10), tx.assignments(SWARM)
        loop.call_soon_threadsafe(looked.set)
        assert written.wait(WAIT_SECONDS)
        return before, (tx.events_after(SWARM, 0, 10), tx.assignments(SWARM))

    reading = asyncio.create_task(with_swarm.read(look_twice))
    async with asyncio.timeout(WAIT_SECONDS):
        await looked.wait()
    await with_swarm.write(add_event)
    await with_swarm.write(lambda tx: tx.put_assignment(assignment()))
    written.set()
    before, after = await reading
    assert before == after == ([], [])
    assert len(await with_swarm.read(lambda tx: tx.events_after(SWARM, 0, 10))) == 1


async def test_a_read_cannot_write(with_swarm: OpenStore) -> None:
    with pytest.raises(StoreUnavailable):
        await with_swarm.read(lambda tx: tx.put_assignment(assignment()))
    assert await with_swarm.read(lambda tx: tx.assignments(SWARM)) == []
    await with_swarm.write(lambda tx: tx.put_assignment(assignment()))


async def test_an_error_in_a_read_affects_only_its_caller(
    with_swarm: OpenStore,
) -> None:
    def refuse(tx: Transaction) -> None:
        tx.swarm(SWARM)
        raise UnknownSwarm("by a rule")

    for _ in range(10):
        with pytest.raises(UnknownSwarm):
            await with_swarm.read(refuse)
    assert await with_swarm.read(lambda tx: tx.state_counts(SWARM)) == {}
    assert await with_swarm.write(lambda tx: tx.take_assignment(SWARM, TASK)) is None
