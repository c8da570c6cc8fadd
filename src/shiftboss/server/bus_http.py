"""Operations over HTTP: POST /bus/{name} and POST /messages ahead of the router, and those of the
operator behind it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from shiftboss.coordinator.bus_desk import BusDesk
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import InvalidRequest, ShiftbossError, UnknownSwarm
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.fields import Answer, is_swarm_id
from shiftboss.protocol.messages import message_from_json
from shiftboss.server.bus_operations import BUS_OPERATIONS, refusal
from shiftboss.server.exchange import idempotency_key, read_body, send_json, unless_gone
from shiftboss.server.guard import OPERATOR_PREFIX
from shiftboss.server.handoff_operations import OPERATOR_OPERATIONS
from shiftboss.server.operation import Operation
from shiftboss.server.reports import parse


class OperationsHttp:
    """`POST {prefix}{name}` for every operation of a table."""

    def __init__(
        self, coordinator: Coordinator, prefix: str, operations: Mapping[str, Operation]
    ) -> None:
        self._coordinator = coordinator
        self._prefix = prefix
        self._operations = operations

    def match(self, scope: Scope) -> Operation | None:
        path: str = scope["path"]
        if scope["method"] != "POST" or not path.startswith(self._prefix):
            return None
        return self._operations.get(path[len(self._prefix) :])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self.match(scope)
        assert operation is not None, "the router matched the same path and method"
        await self.answer(operation, scope, receive, send)

    async def answer(
        self, operation: Operation, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            await self._answer(operation, scope, receive, send)
        except ShiftbossError as error:
            # The document's own form of a refusal, beside ours.
            error.facts |= refusal(scope["path"][len(self._prefix) :], error)
            raise

    async def _answer(
        self, operation: Operation, scope: Scope, receive: Receive, send: Send
    ) -> None:
        request = parse(operation.request, await read_body(receive) or b"{}")
        desk = operation.desk(self._coordinator)
        call = operation.call(desk, request, idempotency_key(scope))
        answer = await (unless_gone(call, receive) if operation.waits else call)
        await send_json(send, rendered(answer))


class BusHttp(OperationsHttp):
    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator, "/bus/", BUS_OPERATIONS)


class OperatorHttp(OperationsHttp):
    """Behind the guard, which wants the operator's token."""

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator, OPERATOR_PREFIX, OPERATOR_OPERATIONS)


class Messages:
    """POST /messages: one message of the worker protocol."""

    def __init__(self, desk: BusDesk) -> None:
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = QueryParams(scope["query_string"])
        for name in query:
            if name != "swarm_id":
                raise InvalidRequest(f"{name}: there is no such parameter", field=name)
        swarm_id = query.get("swarm_id", DEFAULT_SWARM)
        if not is_swarm_id(swarm_id):
            raise UnknownSwarm(swarm_id)
        message = message_from_json(await read_body(receive))
        answer = await self._desk.receive(message, swarm_id, idempotency_key(scope))
        await send_json(send, rendered(answer))


def rendered(answer: Answer) -> bytes:
    """The document's members always, further ones when they say something."""
    return answer.__pydantic_serializer__.to_json(answer, exclude_defaults=True)
