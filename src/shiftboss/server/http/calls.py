"""Calls: a POST that is answered from its path, its headers and its body alone.

Every operation and every report is one. There are two ways to them: the short one of
`shiftboss.server.fast_path.connection`, and ASGI for what is out of the ordinary.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Protocol

from starlette.types import Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.fields import Answer
from shiftboss.server.http.exchange import (
    Headers,
    idempotency_key,
    read_body,
    send_json,
    unless_gone,
)
from shiftboss.server.http.guard import OPERATOR_PREFIX
from shiftboss.server.operations.bus import BUS_OPERATIONS, refusal
from shiftboss.server.operations.handoffs import OPERATOR_OPERATIONS
from shiftboss.server.operations.operation import Operation
from shiftboss.server.operations.swarms import Reports, parse

BUS_PREFIX = "/bus/"


class Call(Protocol):
    """`waits`: the answer may take long, and nobody needs it once the client has hung up.
    `prompt`: the answer comes before the news, for nobody waits for those."""

    @property
    def waits(self) -> bool: ...

    @property
    def prompt(self) -> bool: ...

    def begin(self, headers: Headers, body: bytes) -> Awaitable[Answer]:
        """Check what was asked, and start it. A refusal is raised here or by the answer."""
        ...

    def rendered(self, answer: Answer) -> bytes: ...

    def refused(self, error: ShiftbossError) -> ShiftbossError:
        """The refusal as this call puts it."""
        ...


class OperationCall:
    def __init__(self, coordinator: Coordinator, name: str, operation: Operation) -> None:
        self._name = name
        self._operation = operation
        self._desk = operation.desk(coordinator)
        self.waits = operation.waits
        self.prompt = operation.prompt

    def begin(self, headers: Headers, body: bytes) -> Awaitable[Answer]:
        operation = self._operation
        request = parse(operation.request, body or b"{}")
        return operation.call(self._desk, request, idempotency_key(headers))

    def rendered(self, answer: Answer) -> bytes:
        return rendered(answer)

    def refused(self, error: ShiftbossError) -> ShiftbossError:
        """The document's own form of a refusal, beside ours."""
        error.facts |= refusal(self._name, error)
        return error


class Calls:
    """`POST /bus/{name}`, `POST /operator/{name}` and the reports of `POST /swarm/{id}/{name}`."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._reports = Reports(coordinator)
        self._operations = {
            **_operations(coordinator, BUS_PREFIX, BUS_OPERATIONS),
            **_operations(coordinator, OPERATOR_PREFIX, OPERATOR_OPERATIONS),
        }

    def find(self, method: str, path: str) -> Call | None:
        if method != "POST":
            return None
        return self._operations.get(path) or self._reports.find(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self.find(scope["method"], scope["path"])
        assert call is not None, "the router matched the same path and method"
        await answer_asgi(call, scope, receive, send)


async def answer_asgi(call: Call, scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_body(receive)
    try:
        answer = call.begin(scope["headers"], body)
        document = call.rendered(await (unless_gone(answer, receive) if call.waits else answer))
    except ShiftbossError as error:
        raise call.refused(error) from error
    await send_json(send, document)


def _operations(
    coordinator: Coordinator, prefix: str, operations: Mapping[str, Operation]
) -> dict[str, Call]:
    return {
        f"{prefix}{name}": OperationCall(coordinator, name, operation)
        for name, operation in operations.items()
    }


def rendered(answer: Answer) -> bytes:
    """The document's members always, further ones when they say something."""
    return answer.__pydantic_serializer__.to_json(answer, exclude_defaults=True)
