"""The ASGI application: guard, calls, MCP, router, and errors as problem documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import MethodNotAllowed, ShiftbossError, UnknownPath
from shiftboss.rules.access.actors import UNKNOWN, Actor
from shiftboss.server.http.access_log import (
    CURRENT_REQUEST,
    REQUEST_ID_HEADER,
    AccessLog,
    RequestFacts,
    request_id_of,
)
from shiftboss.server.http.calls import Calls, answer_asgi
from shiftboss.server.http.certificates import Certificates
from shiftboss.server.http.forwarded import Forwarding
from shiftboss.server.http.guard import Guard
from shiftboss.server.http.rate_limits import RateLimits
from shiftboss.server.http.replies import error_reply
from shiftboss.server.http.requests import ACTOR_KEY, ClientGoneError, header
from shiftboss.server.http.routes import Endpoints
from shiftboss.server.mcp.endpoint import MCP_PATH, McpEndpoint
from shiftboss.server.metrics.request_metrics import route_of
from shiftboss.server.metrics.snapshot import Monitor
from shiftboss.store.current_actor import CURRENT_ACTOR

_READS: Final = ("GET", "HEAD")
_READ_HEADERS: Final = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class App:
    def __init__(
        self,
        coordinator: Coordinator,
        token: str | None = None,
        operator_token: str | None = None,
        rates: RateLimits | None = None,
        certificates: Certificates | None = None,
        forwarding: Forwarding | None = None,
        *,
        needs_token: bool = False,
    ) -> None:
        """`certificates`: the server speaks TLS. `needs_token`: without one, nobody is admitted,
        even if there is none that all share."""
        self.coordinator = coordinator
        self.certificates = certificates
        self.forwarding = forwarding or Forwarding()
        started_at = datetime.fromtimestamp(coordinator.clock() / 1000, UTC)
        # In milliseconds: it tells this server from an earlier one at the same address.
        self.started_at = started_at.isoformat(timespec="milliseconds")
        self.on_started: Callable[[], None] = _nothing
        self.start_error: ShiftbossError | None = None
        self.guard = Guard(
            token,
            operator_token,
            scheme="http" if certificates is None else "https",
            needs_token=needs_token,
            clock=coordinator.clock,
            public_url=self.forwarding.public_url,
            is_proxied=self.forwarding.has_proxies,
        )
        coordinator.settings.add(self._load_tokens)
        coordinator.admissions.is_valid = self.guard.tokens.is_valid
        self.rates = rates or RateLimits()
        self.access_log = AccessLog()
        self.calls = Calls(coordinator)
        self.monitor = Monitor(coordinator)
        self._mcp = McpEndpoint(coordinator)

    @cached_property
    def _router(self) -> Router:
        """Takes 10 ms to make. Most commands without a server do not need it."""
        endpoints = Endpoints(
            self.coordinator,
            self.calls,
            self.guard,
            self.started_at,
            self.forwarding,
            self.monitor,
        )
        return Router(endpoints.routes(), redirect_slashes=False, default=_no_such_path)

    async def _load_tokens(self) -> None:
        self.guard.tokens.replace_named(await self.coordinator.store.read(lambda tx: tx.tokens()))
        self.coordinator.board.changes.wake_readers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        _ = self._router  # not during the first request
        try:
            await self.coordinator.start()
        except ShiftbossError as error:
            self.start_error = error
            await send({"type": "lifespan.startup.failed", "message": error.detail})
            return
        await send({"type": "lifespan.startup.complete"})
        self.on_started()
        await receive()
        await self._mcp.stop()
        await self.coordinator.stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.forwarding.note_client(scope)
        given_id = header(scope["headers"], REQUEST_ID_HEADER)
        facts = _facts_of(scope, given_id)
        # Every request has a task, and so a context, of its own.
        CURRENT_REQUEST.set(facts)
        CURRENT_ACTOR.set(UNKNOWN)
        answered_id = facts.request_id if given_id == facts.request_id else None
        response = _Response(send, answered_id, is_read=facts.method in _READS)
        try:
            CURRENT_ACTOR.set(self._admit(scope))
            await self._answer(scope, receive, response)
        except (ClientGoneError, asyncio.CancelledError):
            pass  # there is no client to send a reply to
        except Exception as error:  # noqa: BLE001 (logged by the error's reply)
            problem = _wrong_method(scope, error) if isinstance(error, HTTPException) else error
            reply = error_reply(problem, f"{scope['method']} {scope['path']}")
            facts.code = reply.code
            if not response.has_started:
                await reply.send(response)
        finally:
            self._log(facts, response)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self.calls.find(scope["method"], scope["path"])
        if call is not None:
            await answer_asgi(call, scope, receive, send)
        elif scope["path"] == MCP_PATH:
            await self._mcp(scope, receive, send)
        else:
            # With an app in the scope, the router raises for a wrong method.
            scope["app"] = self
            await self._router(scope, receive, send)

    def _log(self, facts: RequestFacts, response: _Response) -> None:
        self.monitor.requests.count(route_of(facts.path), response.status)
        self.access_log.record(facts, CURRENT_ACTOR.get(), response.status)

    def _admit(self, scope: Scope) -> Actor:
        client = scope.get("client")
        rate = None if client is None else self.rates.of(client[0])
        # Access control comes first: what it refuses must not use up what the workers of the same
        # address may send.
        try:
            actor = self.guard.check(scope["method"], scope["path"], scope["headers"])
        except ShiftbossError:
            if rate is not None:
                rate.check_refusal()
            raise
        if rate is not None:
            rate.check()
        scope[ACTOR_KEY] = actor
        return actor


class _Response:
    """Notes that the response has started: from then on it cannot become an error. A client that
    has sent an id of the request gets it back. What is read is private, and true for a moment: no
    browser and no proxy keeps it, unless it says something else, as the files of the page do."""

    def __init__(self, send: Send, request_id: str | None, *, is_read: bool) -> None:
        self._send = send
        self._request_id = request_id
        self._is_read = is_read
        self.has_started = False
        # Of a client that was gone before it had its response.
        self.status = 499

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._added(message)]}
        await self._send(message)

    def _added(self, message: Message) -> Iterator[tuple[bytes, bytes]]:
        if self._request_id is not None:
            yield REQUEST_ID_HEADER, self._request_id.encode()
        if self._is_read:
            given = {name for name, _ in message["headers"]}
            yield from (header for header in _READ_HEADERS if header[0] not in given)


def _facts_of(scope: Scope, given_id: str | None) -> RequestFacts:
    client = scope.get("client")
    return RequestFacts(
        scope["method"], scope["path"], client[0] if client else "-", request_id_of(given_id)
    )


def _nothing() -> None:
    pass


async def _no_such_path(scope: Scope, _receive: Receive, _send: Send) -> None:
    raise UnknownPath(
        f"there is nothing at {scope['path']}",
        field="path",
        hint="GET /openapi.json lists the paths",
    )


def _wrong_method(scope: Scope, error: HTTPException) -> ShiftbossError:
    allowed = (error.headers or {}).get("Allow", "").split(", ")
    return MethodNotAllowed(scope["method"], scope["path"], allowed)
