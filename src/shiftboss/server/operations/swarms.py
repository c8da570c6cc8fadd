"""The operations of a swarm: the four reports of a packet, and creating a swarm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.swarms.service import SwarmService
from shiftboss.errors import InvalidRequest
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
from shiftboss.rules.access.roles import Permission

CREATE_SWARM: Final = Permission.SPAWN


class SwarmOperation(NamedTuple):
    """`use_case(swarms, swarm_id, request, idempotency_key)`. `permission` is what a caller needs.
    `waits`: its answer may take long."""

    request: type[Request]
    answer: type[Answer]
    use_case: Callable[..., Awaitable[Answer]]
    summary: str
    permission: Permission
    waits: bool = False


REPORTS: dict[str, SwarmOperation] = {
    "register": SwarmOperation(
        RegisterRequest,
        RegisterAnswer,
        SwarmService.register,
        "Register a worker for its packet.",
        Permission.WORK,
    ),
    "progress": SwarmOperation(
        ProgressRequest,
        ProgressAnswer,
        SwarmService.progress,
        "Report progress on a task of the packet.",
        Permission.WORK,
    ),
    "complete": SwarmOperation(
        CompleteRequest,
        CompleteAnswer,
        SwarmService.complete,
        "Report that the packet is done. If it has a handoff, the server verifies the commit "
        "first.",
        Permission.WORK,
        waits=True,
    ),
    "error": SwarmOperation(
        ErrorRequest,
        ErrorAnswer,
        SwarmService.error,
        "Report that a task failed.",
        Permission.WORK,
    ),
}


def parse(model: type[Request], body: bytes) -> Any:
    try:
        return model.__pydantic_validator__.validate_json(body)
    except ValidationError as error:
        raise invalid_request(error) from None


def parse_create_swarm(body: bytes, query: Sequence[tuple[str, str]]) -> CreateSwarmRequest:
    """The members of the body and of the query, which must not contradict each other."""
    from_body: CreateSwarmRequest = parse(CreateSwarmRequest, body or b"{}")
    if not query:
        return from_body
    for name, count in Counter(name for name, _ in query).items():
        if count > 1:
            raise InvalidRequest(f"{name}: is given {count} times in the query", field=name)
    try:
        from_query = CreateSwarmRequest.model_validate_strings(dict(query), strict=False)
    except ValidationError as error:
        raise invalid_request(error) from None
    for name in sorted(from_query.model_fields_set & from_body.model_fields_set):
        if getattr(from_query, name) != getattr(from_body, name):
            raise InvalidRequest(
                f"{name}: the query and the body contradict each other", field=name
            )
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
