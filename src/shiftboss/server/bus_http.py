"""The bus over HTTP: POST /bus/{operation} and POST /messages, ahead of the router."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from shiftboss.coordinator.bus_desk import BusDesk
from shiftboss.errors import InvalidRequest, ShiftbossError, UnknownSwarm
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.fields import Answer, is_swarm_id
from shiftboss.protocol.messages import message_from_json
from shiftboss.server.bus_operations import BUS_OPERATIONS, BusOperation, refusal
from shiftboss.server.exchange import ClientGoneError, idempotency_key, read_body, send_json
from shiftboss.server.reports import parse

T = TypeVar("T")

_PREFIX = "/bus/"


class BusHttp:
    def __init__(self, desk: BusDesk) -> None:
        self._desk = desk

    @staticmethod
    def match(scope: Scope) -> BusOperation | None:
        path: str = scope["path"]
        if scope["method"] != "POST" or not path.startswith(_PREFIX):
            return None
        return BUS_OPERATIONS.get(path[len(_PREFIX) :])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        operation = self.match(scope)
        assert operation is not None, "the router matched the same path and method"
        await self.answer(operation, scope, receive, send)

    async def answer(
        self, operation: BusOperation, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            await self._answer(operation, scope, receive, send)
        except ShiftbossError as error:
            # The document's own form of a refusal, beside ours.
            error.facts |= refusal(scope["path"][len(_PREFIX) :], error)
            raise

    async def _answer(
        self, operation: BusOperation, scope: Scope, receive: Receive, send: Send
    ) -> None:
        request = parse(operation.request, await read_body(receive) or b"{}")
        call = operation.call(self._desk, request, idempotency_key(scope))
        if operation is _POLL:
            answer = await _unless_gone(call, receive)
        else:
            answer = await call
        await send_json(send, rendered(answer))


_POLL = BUS_OPERATIONS["poll_task"]


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


async def _unless_gone(call: Awaitable[T], receive: Receive) -> T:
    """The answer of a call that may wait; given up when the client hangs up."""
    waiting = asyncio.ensure_future(call)
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientGoneError
        return waiting.result()
    finally:
        gone.cancel()
        waiting.cancel()
