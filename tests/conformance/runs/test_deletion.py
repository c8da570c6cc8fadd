"""The operator deletes a swarm that is over."""

from __future__ import annotations

import pytest

from shiftboss.coordinator.swarms.deletion import EVENTS_PER_TRANSACTION_MAX
from shiftboss.errors import Conflict, UnknownSwarm
from shiftboss.protocol.bus import DEFAULT_SWARM, AddTaskRequest, CancelTaskRequest
from shiftboss.protocol.runs import DeleteSwarmRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from tests.conformance.bus.bus_fixtures import BusFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-11")]


async def delete(bus: BusFixture, swarm_id: str) -> None:
    await bus.coordinator.runs.delete_swarm(DeleteSwarmRequest(swarm_id=swarm_id))


async def test_only_a_complete_swarm_is_deleted_with_all_that_it_has(bus: BusFixture) -> None:
    await bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id="old"))
    names = [f"t{number}" for number in range(EVENTS_PER_TRANSACTION_MAX // 2 + 10)]
    for name in names:
        await bus.bus_service.add_task(AddTaskRequest(swarm_id="old", bead_id=name, title="T"))
    for name in names:
        with pytest.raises(Conflict, match="swarm old is "):
            await delete(bus, "old")
        await bus.bus_service.cancel_task(CancelTaskRequest(swarm_id="old", bead_id=name))
    await delete(bus, "old")
    with pytest.raises(UnknownSwarm):
        await delete(bus, "old")
    listed = (await bus.coordinator.swarms.list_swarms(None, 10)).swarms
    assert "old" not in [swarm.swarm_id for swarm in listed]


async def test_the_default_swarm_is_never_deleted(bus: BusFixture) -> None:
    await bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=DEFAULT_SWARM))
    with pytest.raises(Conflict, match="always exists"):
        await delete(bus, DEFAULT_SWARM)
