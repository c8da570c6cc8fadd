"""The tools: the operations of the bus and of swarms, by name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from pydantic import create_model

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.protocol.fields import Answer, Request, SwarmId
from shiftboss.protocol.swarms import CreateSwarmAnswer, CreateSwarmRequest, SwarmStatus
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.operation import Operation
from shiftboss.server.operations.swarms import OPERATIONS, Report, create_swarm


class Caller(NamedTuple):
    """`key` tells a repeat of the same call; `address` is where the caller reached us."""

    key: str | None
    address: str


class Tool(NamedTuple):
    """`reads`: it changes nothing. `waits`: its answer may take long."""

    name: str
    description: str
    request: type[Request]
    answer: type[Answer]
    call: Callable[[Coordinator, Any, Caller], Awaitable[Answer]]
    reads: bool = False
    waits: bool = False


class OfSwarm(Request):
    swarm_id: SwarmId


def _of_bus(name: str, operation: Operation) -> Tool:
    def call(coordinator: Coordinator, request: Any, caller: Caller) -> Awaitable[Answer]:
        return operation.call(operation.desk(coordinator), request, caller.key)

    return Tool(
        name,
        operation.summary,
        operation.request,
        operation.answer,
        call,
        reads=operation.reads,
        waits=operation.waits,
    )


def _of_report(name: str, operation: Report) -> Tool:
    """Over HTTP the swarm is in the path, here it is an argument like the others."""

    def call(coordinator: Coordinator, request: Any, caller: Caller) -> Awaitable[Answer]:
        report = operation.request.model_validate(request.model_dump(exclude={"swarm_id"}))
        return operation.use_case(coordinator.swarms, request.swarm_id, report, caller.key)

    type_name = f"{operation.request.__name__}OfSwarm"
    return Tool(
        name,
        operation.summary,
        create_model(type_name, __base__=(operation.request, OfSwarm)),
        operation.answer,
        call,
        waits=operation.waits,
    )


def _create(
    coordinator: Coordinator, request: CreateSwarmRequest, caller: Caller
) -> Awaitable[Answer]:
    return create_swarm(coordinator, request, caller.address)


def _status(coordinator: Coordinator, request: OfSwarm, _caller: Caller) -> Awaitable[Answer]:
    return coordinator.swarms.status(request.swarm_id)


_REPORTS: Final = {
    "swarm_register": "register",
    "swarm_progress": "progress",
    "swarm_packet_complete": "complete",
    "swarm_error": "error",
}

TOOLS: Final[dict[str, Tool]] = {
    tool.name: tool
    for tool in (
        *(_of_bus(name, operation) for name, operation in BUS_OPERATIONS.items()),
        Tool("swarm_create", "Create a swarm.", CreateSwarmRequest, CreateSwarmAnswer, _create),
        *(_of_report(name, OPERATIONS[report]) for name, report in _REPORTS.items()),
        Tool("swarm_status", "What is true of a swarm.", OfSwarm, SwarmStatus, _status, reads=True),
    )
}
