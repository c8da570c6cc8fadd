"""Calls: POST requests that are answered from their path, headers and body alone.

Every operation and every report of a packet is one. ASGI answers them here; the fast path answers
them from the connection. Both use the same `Call`, so the replies are the same bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping

from starlette.types import Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import ShiftbossError, UnknownSwarm
from shiftboss.protocol.board.rendered import RenderedAnswer
from shiftboss.protocol.fields import Answer, is_swarm_id
from shiftboss.protocol.questions import MessageRequest
from shiftboss.rules.access.scope import check_permission
from shiftboss.server.http.access_log import CURRENT_REQUEST
from shiftboss.server.http.guard import OPERATOR_PREFIX
from shiftboss.server.http.replies import Reply, error_reply, json_reply
from shiftboss.server.http.requests import Headers, PendingAnswer, idempotency_key, read_body
from shiftboss.server.metrics.request_metrics import route_of
from shiftboss.server.operations.authorization import authorize
from shiftboss.server.operations.bus import BUS_OPERATIONS, refusal
from shiftboss.server.operations.handoffs import OPERATOR_OPERATIONS
from shiftboss.server.operations.operation import Operation, is_audited
from shiftboss.server.operations.swarms import REPORTS, SwarmOperation, parse
from shiftboss.store.current_actor import CURRENT_ACTOR

BUS_PREFIX = "/bus/"
REPORT_ROUTE = route_of("/swarm/")


class Call(ABC):
    """What one path does. `waits`: the answer may take long, and is given up when the client
    disconnects."""

    path: str
    # Under which it is counted.
    route: str
    waits: bool
    # Whether it is written to the audit log.
    is_audited: bool = False

    @abstractmethod
    def begin(self, headers: Headers, body: bytes) -> Awaitable[Answer]:
        """Parse the request and start the use case. A refusal is raised here or by the answer."""

    @abstractmethod
    def render(self, answer: Answer) -> bytes: ...

    def reply(self, answer: Answer) -> Reply:
        try:
            return json_reply(self.render(answer))
        except Exception as error:  # noqa: BLE001 (logged by the error's reply)
            return self.error_reply(error)

    def error_reply(self, error: BaseException) -> Reply:
        return error_reply(error, f"POST {self.path}")


class OperationCall(Call):
    def __init__(
        self, coordinator: Coordinator, prefix: str, name: str, operation: Operation
    ) -> None:
        self.path = f"{prefix}{name}"
        self.route = route_of(prefix)
        self.waits = operation.waits
        self.is_audited = is_audited(name, operation.permission, reads=operation.reads)
        self._name = name
        self._operation = operation
        self._has_message = issubclass(operation.request, MessageRequest)
        self._service = operation.service(coordinator)

    def begin(self, headers: Headers, body: bytes) -> Awaitable[Answer]:
        operation, actor = self._operation, CURRENT_ACTOR.get()
        check_permission(actor, operation.permission)
        request = parse(operation.request, body or b"{}")
        if self._has_message or actor.is_limited:
            request = authorize(actor, operation.permission, request, reads=operation.reads)
        return operation.call(self._service, request, idempotency_key(headers))

    def render(self, answer: Answer) -> bytes:
        return render_compact(answer)

    def error_reply(self, error: BaseException) -> Reply:
        if isinstance(error, ShiftbossError):
            error.facts |= refusal(self._name, error)
        return super().error_reply(error)


class ReportCall(Call):
    def __init__(
        self, coordinator: Coordinator, path: str, swarm_id: str, report: SwarmOperation
    ) -> None:
        self.path = path
        self.route = REPORT_ROUTE
        self.waits = report.waits
        self._coordinator = coordinator
        self._swarm_id = swarm_id
        self._report = report

    def begin(self, headers: Headers, body: bytes) -> Awaitable[Answer]:
        report, actor = self._report, CURRENT_ACTOR.get()
        check_permission(actor, report.permission)
        if not is_swarm_id(self._swarm_id):
            raise UnknownSwarm(self._swarm_id)
        request = parse(report.request, body)
        if actor.is_limited:  # a report has no message
            request = authorize(actor, report.permission, request, swarm_id=self._swarm_id)
        key = idempotency_key(headers)
        return report.use_case(self._coordinator.swarms, self._swarm_id, request, key)

    def render(self, answer: Answer) -> bytes:
        return answer.__pydantic_serializer__.to_json(answer)


class Calls:
    """`POST /bus/{name}`, `POST /operator/{name}` and `POST /swarm/{swarm_id}/{report}`."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._operations = {
            **_operation_calls(coordinator, BUS_PREFIX, BUS_OPERATIONS),
            **_operation_calls(coordinator, OPERATOR_PREFIX, OPERATOR_OPERATIONS),
        }

    def find(self, method: str, path: str) -> Call | None:
        if method != "POST":
            return None
        return self._operations.get(path) or self._find_report(path)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self.find(scope["method"], scope["path"])
        assert call is not None, "the router matched the same path and method"
        await answer_asgi(call, scope, receive, send)

    def _find_report(self, path: str) -> Call | None:
        parts = path.split("/")
        if len(parts) != 4 or parts[1] != "swarm":
            return None
        report = REPORTS.get(parts[3])
        return None if report is None else ReportCall(self._coordinator, path, parts[2], report)


async def answer_asgi(call: Call, scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_body(receive)
    facts = CURRENT_REQUEST.get()
    if facts is not None:
        facts.body, facts.is_audited = body, call.is_audited
    try:
        answer = call.begin(scope["headers"], body)
        reply = call.reply(await (_unless_gone(answer, receive) if call.waits else answer))
    except ShiftbossError as error:
        reply = call.error_reply(error)
    if facts is not None:
        facts.code = reply.code
    await reply.send(send)


async def _unless_gone(answer: Awaitable[Answer], receive: Receive) -> Answer:
    async with PendingAnswer(answer, receive) as pending:
        await pending.wait()
        return pending.result()


def _operation_calls(
    coordinator: Coordinator, prefix: str, operations: Mapping[str, Operation]
) -> dict[str, Call]:
    calls = (
        OperationCall(coordinator, prefix, name, operation)
        for name, operation in operations.items()
    )
    return {call.path: call for call in calls}


def render_compact(answer: Answer) -> bytes:
    """The members that the documents name are always there, others only when they say something."""
    if isinstance(answer, RenderedAnswer):
        return answer.body
    return answer.__pydantic_serializer__.to_json(answer, exclude_defaults=True)
