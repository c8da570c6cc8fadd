"""The four reports: the hot path, ahead of the router, in plain ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import UnknownSwarm
from shiftboss.protocol.fields import Answer, Request, is_swarm_id
from shiftboss.protocol.problem import invalid_request
from shiftboss.protocol.reports import (
    CompleteAnswer,
    CompleteRequest,
    ErrorAnswer,
    ErrorRequest,
    ProgressAnswer,
    ProgressRequest,
    RegisterAnswer,
    RegisterRequest,
)
from shiftboss.server.exchange import idempotency_key, read_body, send_json, unless_gone


class Report(NamedTuple):
    """`waits`: its answer may take long."""

    request: type[Request]
    answer: type[Answer]
    use_case: Callable[..., Awaitable[Answer]]
    summary: str
    waits: bool = False


OPERATIONS: dict[str, Report] = {
    "register": Report(
        RegisterRequest, RegisterAnswer, Coordinator.register, "A worker takes its packet."
    ),
    "progress": Report(
        ProgressRequest, ProgressAnswer, Coordinator.progress, "How a task of the packet goes."
    ),
    "complete": Report(
        CompleteRequest,
        CompleteAnswer,
        Coordinator.complete,
        "The packet is done. With a handoff, the server looks at its commit first.",
        waits=True,
    ),
    "error": Report(ErrorRequest, ErrorAnswer, Coordinator.error, "A task failed."),
}


class Reports:
    """POST /swarm/{swarm_id}/register, progress, complete and error."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    @staticmethod
    def match(scope: Scope) -> tuple[str, Report] | None:
        """The swarm and the operation, when the request is a report."""
        if scope["method"] != "POST":
            return None
        parts = scope["path"].split("/")
        if len(parts) != 4 or parts[1] != "swarm":
            return None
        operation = OPERATIONS.get(parts[3])
        return None if operation is None else (parts[2], operation)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        matched = self.match(scope)
        assert matched is not None, "the router matched the same path and method"
        await self.answer(*matched, scope, receive, send)

    async def answer(
        self, swarm_id: str, operation: Report, scope: Scope, receive: Receive, send: Send
    ) -> None:
        body = await read_body(receive)
        if not is_swarm_id(swarm_id):
            raise UnknownSwarm(swarm_id)
        request = parse(operation.request, body)
        call = operation.use_case(self._coordinator, swarm_id, request, idempotency_key(scope))
        answer = await (unless_gone(call, receive) if operation.waits else call)
        await send_json(send, answer.__pydantic_serializer__.to_json(answer))


def parse(model: type[Request], body: bytes) -> Any:
    try:
        return model.__pydantic_validator__.validate_json(body)
    except ValidationError as error:
        raise invalid_request(error) from None
