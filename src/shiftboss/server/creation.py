"""Creating a swarm, with the address where it can be reached in the answer."""

from __future__ import annotations

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.protocol.fields import wire_time
from shiftboss.protocol.swarms import CreateSwarmAnswer, CreateSwarmRequest


async def create_swarm(
    coordinator: Coordinator, request: CreateSwarmRequest, address: str
) -> CreateSwarmAnswer:
    swarm = await coordinator.create_swarm(request)
    return CreateSwarmAnswer(
        swarm_id=swarm.swarm_id,
        endpoint=f"{address}/swarm/{swarm.swarm_id}",
        created_at=wire_time(swarm.created_at_ms),
        auto_merge=swarm.auto_merge,
        notify_on_complete=swarm.notify_on_complete,
    )
