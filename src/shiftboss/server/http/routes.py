"""The endpoints behind the router: each parses, calls one use case and renders."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from shiftboss import __version__
from shiftboss.coordinator.bus.service import BusService
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.deployment.service import difference_view, reason_view
from shiftboss.errors import InvalidRequest, NotReady, TooManyRequests, UnknownSwarm
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.deployment.servers import DifferenceView, ReadyAnswer
from shiftboss.protocol.fields import Answer, is_swarm_id
from shiftboss.protocol.messages import message_from_json
from shiftboss.protocol.swarms import HealthAnswer
from shiftboss.rules.access.roles import Permission
from shiftboss.rules.access.scope import check_permission, check_swarm
from shiftboss.rules.deployment.readiness import ReadinessProblem
from shiftboss.server.http.calls import BUS_PREFIX, Calls, render_compact
from shiftboss.server.http.event_streams import EventStream, since_event_id
from shiftboss.server.http.forwarded import Forwarding
from shiftboss.server.http.guard import OPERATOR_PREFIX, STATIC_PREFIX, WEBHOOK_PREFIX, Guard
from shiftboss.server.http.openapi import openapi_document
from shiftboss.server.http.replies import json_reply
from shiftboss.server.http.requests import idempotency_key, read_body
from shiftboss.server.metrics.snapshot import Monitor, Snapshot
from shiftboss.server.operations.authorization import authorize, authorize_message
from shiftboss.server.operations.bus import BUS_OPERATIONS
from shiftboss.server.operations.handoffs import OPERATOR_OPERATIONS
from shiftboss.server.operations.swarms import (
    CREATE_SWARM,
    REPORTS,
    create_swarm,
    parse_create_swarm,
)
from shiftboss.server.web.change_stream import Changes
from shiftboss.server.web.login import Login, Logout, SessionPage
from shiftboss.server.web.static_files import StaticFiles
from shiftboss.store.current_actor import CURRENT_ACTOR

SWARMS_PER_PAGE = 50
WEBHOOKS_AT_ONCE = 64
WEBHOOK_RETRY_SECONDS = 5.0


class Endpoints:
    def __init__(
        self,
        coordinator: Coordinator,
        calls: Calls,
        guard: Guard,
        started_at: str,
        forwarding: Forwarding,
        monitor: Monitor,
    ) -> None:
        self._monitor = monitor
        self._coordinator = coordinator
        self._guard = guard
        self._calls = calls
        self._started_at = started_at
        self._forwarding = forwarding
        self._started = time.monotonic()

    def routes(self) -> list[Route]:
        return [
            Route("/swarm/create", self.create_swarm, methods=["POST"]),
            Route("/swarms", self.swarms, methods=["GET"]),
            Route("/swarm/{swarm_id}/status", self.status, methods=["GET"]),
            Route(
                "/swarm/{swarm_id}/events", _Events(self._coordinator, self._guard), methods=["GET"]
            ),
            # The application answers these before the router; they are here so that a wrong
            # method gets its error.
            *(Route(path, self._calls, methods=["POST"]) for path in _call_paths()),
            Route(f"{WEBHOOK_PREFIX}{{repo}}", _CiWebhook(self._coordinator), methods=["POST"]),
            Route("/messages", _Messages(self._coordinator.bus), methods=["POST"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/ready", self.ready, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            *self._page_routes(),
        ]

    def _page_routes(self) -> list[Route]:
        coordinator, forwarding = self._coordinator, self._forwarding
        static = StaticFiles()
        return [
            Route("/", static, methods=["GET"]),
            Route(f"{STATIC_PREFIX}{{path:path}}", static, methods=["GET"]),
            Route("/login", Login(coordinator, forwarding, static), methods=["GET", "POST"]),
            Route("/logout", Logout(coordinator, forwarding), methods=["POST"]),
            Route(
                "/session", SessionPage(coordinator, self._guard, self._started_at), methods=["GET"]
            ),
            Route("/changes", Changes(coordinator, self._guard, self._started_at), methods=["GET"]),
        ]

    async def create_swarm(self, request: Request) -> Response:
        actor = CURRENT_ACTOR.get()
        check_permission(actor, CREATE_SWARM)
        body = await read_body(request.receive)
        parsed = parse_create_swarm(body, request.query_params.multi_items())
        parsed = authorize(actor, CREATE_SWARM, parsed)
        address = self._forwarding.address(request.scope)
        return _json(await create_swarm(self._coordinator, parsed, address), status=201)

    async def swarms(self, request: Request) -> Response:
        """A reader that is limited to a swarm gets that one alone."""
        check_permission(CURRENT_ACTOR.get(), Permission.READ)
        limit = request.query_params.get("limit", str(SWARMS_PER_PAGE))
        if not (
            limit.isascii() and limit.isdecimal() and len(limit) <= 3 and 1 <= int(limit) <= 200
        ):
            raise InvalidRequest("limit: must be a whole number from 1 to 200", field="limit")
        before = request.query_params.get("before")
        return _json(await self._coordinator.swarms.list_swarms(before, int(limit)))

    async def status(self, request: Request) -> Response:
        swarm_id = _readable_swarm(request.scope)
        if request.query_params.get("shared") == "true":
            shared = await self._coordinator.board.shared_status(swarm_id)
            return Response(shared.body, media_type="application/json")
        return _json(await self._coordinator.swarms.status(swarm_id))

    async def health(self, request: Request) -> Response:
        """A server that answers is not restarted for what is wrong with it besides its database;
        strangers learn only that something is."""
        await self._coordinator.health.check()
        deployment = self._coordinator.deployment
        problems = [*await deployment.reasons(), *await deployment.warnings()]
        is_told = bool(problems) and self._guard.knows(request.scope["headers"])
        answer = HealthAnswer(
            status="degraded" if problems else "healthy",
            version=__version__,
            store=self._coordinator.store.name,
            uptime_seconds=int(time.monotonic() - self._started),
            started_at=self._started_at,
            problems=[reason_view(each) for each in problems] if is_told else None,
        )
        body = answer.model_dump_json(exclude_none=True)
        return Response(body, media_type="application/json")

    async def ready(self, request: Request) -> Response:
        """Strangers learn only whether it may get traffic."""
        deployment = self._coordinator.deployment
        reasons = await deployment.reasons()
        is_known = self._guard.knows(request.scope["headers"])
        differences = [difference_view(each) for each in deployment.differences]
        if reasons:
            raise _not_ready(reasons, differences, is_known=is_known)
        version = deployment.presence.version
        answer = ReadyAnswer(status="ready")
        if is_known:
            warnings = [reason_view(each) for each in await deployment.warnings()]
            answer = ReadyAnswer(
                status="ready", version=version, differences=differences, warnings=warnings
            )
        body = answer.model_dump_json(exclude_none=True)
        return Response(body, media_type="application/json")

    async def metrics(self, request: Request) -> Response:
        """They are about all swarms, so a token that is limited to one does not read them."""
        actor = CURRENT_ACTOR.get()
        check_permission(actor, Permission.READ)
        check_swarm(actor, None)
        snapshot = await self._monitor.snapshot()
        accept = request.headers.get("accept", "")
        body, content_type = await asyncio.to_thread(_render_metrics, snapshot, accept)
        return Response(body, headers={"content-type": content_type, "cache-control": "no-store"})

    async def openapi(self, _request: Request) -> Response:
        document = openapi_document(self._forwarding.public_url)
        return Response(document, media_type="application/json")


def _render_metrics(snapshot: Snapshot, accept: str) -> tuple[bytes, str]:
    # The Prometheus client is imported with the first scrape.
    from shiftboss.server.metrics.exposition import render

    return render(snapshot, accept)


def _not_ready(
    reasons: list[ReadinessProblem], differences: list[DifferenceView], *, is_known: bool
) -> NotReady:
    if not is_known:
        return NotReady("the server is not ready", hint="a caller with a token is told why")
    error = NotReady("; ".join(reason.detail for reason in reasons), hint=reasons[0].todo or None)
    error.facts |= {
        "reasons": [reason._asdict() for reason in reasons],
        "differences": [each.model_dump() for each in differences],
    }
    return error


def _call_paths() -> Iterator[str]:
    yield from (f"/swarm/{{swarm_id}}/{name}" for name in REPORTS)
    yield from (f"{BUS_PREFIX}{name}" for name in BUS_OPERATIONS)
    yield from (f"{OPERATOR_PREFIX}{name}" for name in OPERATOR_OPERATIONS)


class _Events:
    """GET /swarm/{swarm_id}/events. Plain ASGI: a stream has no response object."""

    def __init__(self, coordinator: Coordinator, guard: Guard) -> None:
        self._coordinator = coordinator
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        swarm_id = _readable_swarm(scope)
        since = since_event_id(scope)
        follow = Request(scope).query_params.get("follow", "true")
        if follow not in ("true", "false"):
            raise InvalidRequest("follow: must be true or false", field="follow")
        is_admitted = self._guard.watch(
            scope["method"],
            scope["path"],
            scope["headers"],
            CURRENT_ACTOR.get(),
        )
        stream = EventStream(self._coordinator, swarm_id, since, send, is_admitted)
        # HEAD wants only the headers.
        is_live = follow == "true" and scope["method"] == "GET"
        await stream.run(receive, follow=is_live)


class _CiWebhook:
    """POST /ci/webhook/{repo}. Plain ASGI: the signature covers the bytes of the body."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._webhooks = coordinator.webhooks
        self._arriving = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await self._read(receive)
        headers = {str(name, "latin-1"): str(value, "latin-1") for name, value in scope["headers"]}
        answer = await self._webhooks.receive(scope["path_params"]["repo"], headers, body)
        await json_reply(answer.model_dump_json(exclude_none=True).encode()).send(send)

    async def _read(self, receive: Receive) -> bytes:
        """Anybody can send a body, as its signature is checked when it is complete. The check of CI
        that a refused one asked for comes anyway."""
        if self._arriving >= WEBHOOKS_AT_ONCE:
            raise TooManyRequests("too many webhooks are arriving at once", WEBHOOK_RETRY_SECONDS)
        self._arriving += 1
        try:
            return await read_body(receive)
        finally:
            self._arriving -= 1


class _Messages:
    """POST /messages: one message of the worker protocol."""

    def __init__(self, bus: BusService) -> None:
        self._bus = bus

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = QueryParams(scope["query_string"])
        for name in query:
            if name != "swarm_id":
                raise InvalidRequest(f"{name}: there is no such parameter", field=name)
        check_permission(CURRENT_ACTOR.get(), Permission.WORK)
        message = message_from_json(await read_body(receive))
        named = authorize_message(CURRENT_ACTOR.get(), message, query.get("swarm_id"))
        swarm_id = DEFAULT_SWARM if named is None else named
        if not is_swarm_id(swarm_id):
            raise UnknownSwarm(swarm_id)
        answer = await self._bus.receive(message, swarm_id, idempotency_key(scope["headers"]))
        await json_reply(render_compact(answer)).send(send)


def _readable_swarm(scope: Scope) -> str:
    """Raises Forbidden if the caller may not read the swarm."""
    actor = CURRENT_ACTOR.get()
    check_permission(actor, Permission.READ)
    swarm_id: str = scope["path_params"]["swarm_id"]
    check_swarm(actor, swarm_id)
    if not is_swarm_id(swarm_id):
        raise UnknownSwarm(swarm_id)
    return swarm_id


def _json(answer: Answer, status: int = 200) -> Response:
    return Response(answer.model_dump_json(), status, media_type="application/json")
