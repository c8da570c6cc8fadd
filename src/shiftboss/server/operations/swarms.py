"""The operations of a swarm: the four reports of a packet, and creating a swarm."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.swarms.service import SwarmService
from shiftboss.protocol.fields import Answer, Request, wire_time
from shiftboss.protocol.packets import (
    CompleteAnswer,
    CompleteRequest,
    ErrorAnswer,
    ErrorRequest,
    ProgressAnswer,
    ProgressRequest,
    RegisterAnswer,
    RegisterRequest,
)
from shiftboss.protocol.problems import invalid_request
from shiftboss.protocol.swarms import CreateSwarmAnswer, CreateSwarmRequest


class Report(NamedTuple):
    """`use_case(swarms, swarm_id, request, idempotency_key)`. `waits`: its answer may take
    long."""

    request: type[Request]
    answer: type[Answer]
    use_case: Callable[..., Awaitable[Answer]]
    summary: str
    waits: bool = False


REPORTS: dict[str, Report] = {
    "register": Report(
        RegisterRequest, RegisterAnswer, SwarmService.register, "Register a worker for its packet."
    ),
    "progress": Report(
        ProgressRequest,
        ProgressAnswer,
        SwarmService.progress,
        "Report progress on a task of the packet.",
    ),
    "complete": Report(
        CompleteRequest,
        CompleteAnswer,
        SwarmService.complete,
        "Report that the packet is done. If it has a handoff, the server verifies the commit "
        "first.",
        waits=True,
    ),
    "error": Report(ErrorRequest, ErrorAnswer, SwarmService.error, "Report that a task failed."),
}


def parse(model: type[Request], body: bytes) -> Any:
    try:
        return model.__pydantic_validator__.validate_json(body)
    except ValidationError as error:
        raise invalid_request(error) from None


def parse_create_swarm(body: bytes, query: Mapping[str, str]) -> CreateSwarmRequest:
    """The members of the body and of the query. If both have a member, the body's counts."""
    from_body: CreateSwarmRequest = parse(CreateSwarmRequest, body or b"{}")
    if not query:
        return from_body
    try:
        from_query = CreateSwarmRequest.model_validate_strings(query, strict=False)
    except ValidationError as error:
        raise invalid_request(error) from None
    return from_query.model_copy(update=from_body.model_dump(exclude_unset=True))


async def create_swarm(
    coordinator: Coordinator, request: CreateSwarmRequest, address: str
) -> CreateSwarmAnswer:
    """`address` is where the client reached the server."""
    swarm = await coordinator.swarms.create_swarm(request)
    return CreateSwarmAnswer(
        swarm_id=swarm.swarm_id,
        endpoint=f"{address}/swarm/{swarm.swarm_id}",
        created_at=wire_time(swarm.created_at_ms),
        auto_merge=swarm.auto_merge,
        notify_on_complete=swarm.notify_on_complete,
    )
