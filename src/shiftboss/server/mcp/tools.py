"""The MCP tools: the operations of the bus and of swarms, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from pydantic import create_model

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.protocol.fields import Answer, Request, SwarmId
from shiftboss.protocol.swarms import CreateSwarmAnswer, CreateSwarmRequest, SwarmStatus
from shiftboss.rules.access.roles import Permission
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.operation import Operation
from shiftboss.server.operations.swarms import CREATE_SWARM, REPORTS, SwarmOperation, create_swarm


class CallContext(NamedTuple):
    """`key` is the idempotency key; `address` is where the client reached the server."""

    key: str | None
    address: str


class Tool(NamedTuple):
    """`permission` is what a caller needs. `reads`: it changes nothing. `waits`: its answer may
    take long."""

    name: str
    description: str
    request: type[Request]
    answer: type[Answer]
    call: Callable[[Coordinator, Any, CallContext], Awaitable[Answer]]
    permission: Permission
    reads: bool = False
    waits: bool = False


class SwarmRequest(Request):
    swarm_id: SwarmId


def _bus_tool(name: str, operation: Operation) -> Tool:
    def call(coordinator: Coordinator, request: Any, context: CallContext) -> Awaitable[Answer]:
        return operation.call(operation.service(coordinator), request, context.key)

    return Tool(
        name,
        operation.summary,
        operation.request,
        operation.answer,
        call,
        operation.permission,
        reads=operation.reads,
        waits=operation.waits,
    )


def _report_tool(name: str, operation: SwarmOperation) -> Tool:
    """Over HTTP the swarm is in the path; here it is an argument."""

    def call(coordinator: Coordinator, request: Any, context: CallContext) -> Awaitable[Answer]:
        report = operation.request.model_validate(request.model_dump(exclude={"swarm_id"}))
        return operation.use_case(coordinator.swarms, request.swarm_id, report, context.key)

    type_name = f"{operation.request.__name__}WithSwarm"
    return Tool(
        name,
        operation.summary,
        create_model(type_name, __base__=(operation.request, SwarmRequest)),
        operation.answer,
        call,
        operation.permission,
        waits=operation.waits,
    )


def _create(
    coordinator: Coordinator, request: CreateSwarmRequest, context: CallContext
) -> Awaitable[Answer]:
    return create_swarm(coordinator, request, context.address)


def _status(
    coordinator: Coordinator, request: SwarmRequest, _context: CallContext
) -> Awaitable[Answer]:
    return coordinator.swarms.status(request.swarm_id)


_REPORT_TOOLS: Final = {
    "swarm_register": "register",
    "swarm_progress": "progress",
    "swarm_packet_complete": "complete",
    "swarm_error": "error",
}

TOOLS: Final[dict[str, Tool]] = {
    tool.name: tool
    for tool in (
        *(
            _bus_tool(name, operation)
            for name, operation in BUS_OPERATIONS.items()
            if operation.is_tool
        ),
        Tool(
            "swarm_create",
            "Create a swarm.",
            CreateSwarmRequest,
            CreateSwarmAnswer,
            _create,
            CREATE_SWARM,
        ),
        *(_report_tool(name, REPORTS[report]) for name, report in _REPORT_TOOLS.items()),
        Tool(
            "swarm_status",
            "Show the state of a swarm.",
            SwarmRequest,
            SwarmStatus,
            _status,
            Permission.READ,
            reads=True,
        ),
    )
}
