"""The operator deletes a swarm."""

from __future__ import annotations

import pytest

from shiftboss.coordinator.swarms import deletion
from shiftboss.coordinator.swarms.deletion import (
    EVENTS_PER_TRANSACTION_MAX,
    TASKS_PER_TRANSACTION_MAX,
)
from shiftboss.errors import Conflict, NotFound, UnknownSwarm
from shiftboss.protocol.bus import DEFAULT_SWARM, AddTaskRequest, CancelTaskRequest
from shiftboss.protocol.runs import DeleteSwarmAnswer, DeleteSwarmRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.store.port import Transaction
from tests.conformance.bus.bus_fixtures import BusFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-11")]


async def delete(bus: BusFixture, swarm_id: str, **members: bool) -> DeleteSwarmAnswer:
    request = DeleteSwarmRequest(swarm_id=swarm_id, **members)
    return await bus.coordinator.runs.delete_swarm(request)


async def test_only_a_swarm_whose_work_is_over_is_deleted_with_all_that_it_has(
    bus: BusFixture,
) -> None:
    await bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id="old"))
    names = [f"t{number}" for number in range(EVENTS_PER_TRANSACTION_MAX // 2 + 10)]
    for name in names:
        await bus.bus_service.add_task(AddTaskRequest(swarm_id="old", bead_id=name, title="T"))
    for number, name in enumerate(names):
        if number % 100 == 0:
            with pytest.raises(Conflict, match=r"swarm old has .* unfinished tasks"):
                await delete(bus, "old")
        await bus.bus_service.cancel_task(CancelTaskRequest(swarm_id="old", bead_id=name))
    assert (await delete(bus, "old", dry_run=True)).deleted is False
    answer = await delete(bus, "old")
    assert (answer.deleted, answer.tasks, answer.live) == (True, len(names), [])
    with pytest.raises(UnknownSwarm):
        await delete(bus, "old")
    listed = (await bus.coordinator.swarms.list_swarms(None, 10)).swarms
    assert "old" not in [swarm.swarm_id for swarm in listed]


async def test_live_work_is_deleted_with_force_only(bus: BusFixture) -> None:
    await bus.register("a")
    await bus.add_and_submit("t")
    epoch = await bus.start("a", "t")
    assert (await delete(bus, DEFAULT_SWARM, dry_run=True)).live == ["1 unfinished task"]
    with pytest.raises(Conflict, match="unfinished task"):
        await delete(bus, DEFAULT_SWARM)
    assert (await delete(bus, DEFAULT_SWARM, force=True)).deleted
    with pytest.raises(NotFound):
        await bus.done("t", "a", epoch)


async def test_the_default_swarm_begins_anew(bus: BusFixture) -> None:
    await bus.register("a")
    await bus.add_and_submit("t")
    await bus.start("a", "t")
    await bus.done("t", "a")
    await delete(bus, DEFAULT_SWARM)
    await bus.register("a")
    await bus.add_and_submit("t")
    await bus.start("a", "t")
    await bus.done("t", "a")
    assert (await bus.show("t")).status == "done"


async def test_unfinished_tasks_are_deleted_in_small_transactions(bus: BusFixture) -> None:
    """Others must not wait for a swarm that is deleted."""
    await bus.register("a", "b")
    waiting = 2 * TASKS_PER_TRANSACTION_MAX + 5
    await bus.add_and_submit(*(f"t{number}" for number in range(waiting)))
    await bus.start("a", "t0")
    await bus.add("open")
    portions = 0

    def delete_some(tx: Transaction) -> bool:
        before = sum(tx.task_counts(DEFAULT_SWARM).values())
        is_gone = deletion.delete_some(tx, DEFAULT_SWARM, bus.clock.now_ms, force=True)
        after = sum(tx.task_counts(DEFAULT_SWARM).values())
        assert before - after <= TASKS_PER_TRANSACTION_MAX
        return is_gone

    while not await bus.coordinator.store.write(delete_some, DEFAULT_SWARM):
        portions += 1
    assert portions > 2 * waiting / TASKS_PER_TRANSACTION_MAX
    with pytest.raises(NotFound):
        await bus.done("t0", "a")
