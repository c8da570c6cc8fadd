"""POST /login and POST /logout, and GET /session: who the page is logged in as."""

from __future__ import annotations

from typing import Final, TypeVar

from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from shiftboss import __version__
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.protocol.deployment.sessions import (
    LoginAnswer,
    LoginRequest,
    LogoutAnswer,
    LogoutRequest,
    SessionView,
)
from shiftboss.protocol.fields import Answer, Request
from shiftboss.rules.access.actors import UNKNOWN, Actor
from shiftboss.rules.access.roles import Permission, Role, is_allowed
from shiftboss.server.http.access_log import CURRENT_REQUEST
from shiftboss.server.http.forwarded import Forwarding
from shiftboss.server.http.guard import Guard
from shiftboss.server.http.replies import Reply, json_reply
from shiftboss.server.http.requests import header, read_body
from shiftboss.server.operations.swarms import parse
from shiftboss.server.web.session_cookie import clear_cookie, set_cookie
from shiftboss.server.web.static_files import StaticFiles
from shiftboss.store.current_actor import CURRENT_ACTOR

R = TypeVar("R", bound=Request)

_NO_STORE: Final = (b"cache-control", b"no-store")


class Login:
    """GET is the page, whose script sends the code. POST needs no token: the code stands for who
    made it."""

    def __init__(self, coordinator: Coordinator, forwarding: Forwarding, page: StaticFiles) -> None:
        self._coordinator = coordinator
        self._forwarding = forwarding
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST":
            await self._log_in(scope, receive, send)
        else:
            await self._page(scope, receive, send)

    async def _log_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = await _request(LoginRequest, receive)
        new = await self._coordinator.sessions.log_in(request.code)
        ends_at_ms = new.token.expires_at_ms or 0
        seconds = max((ends_at_ms - self._coordinator.clock()) // 1000, 0)
        cookie = set_cookie(
            _host(scope), new.secret, seconds, is_secure=_is_secure(self._forwarding, scope)
        )
        answer = LoginAnswer(name=new.token.name, role=new.token.role, expires_at=ends_at_ms)
        await _reply(answer, (b"set-cookie", cookie)).send(send)


class Logout:
    def __init__(self, coordinator: Coordinator, forwarding: Forwarding) -> None:
        self._coordinator = coordinator
        self._forwarding = forwarding

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _request(LogoutRequest, receive)
        ended = await self._coordinator.sessions.log_out(CURRENT_ACTOR.get())
        cookie = clear_cookie(_host(scope), is_secure=_is_secure(self._forwarding, scope))
        await _reply(LogoutAnswer(ended=ended), (b"set-cookie", cookie)).send(send)


class SessionPage:
    """Everybody may ask. A stranger learns that there is a server, and its version."""

    def __init__(self, coordinator: Coordinator, guard: Guard, started_at: str) -> None:
        self._coordinator = coordinator
        self._guard = guard
        self._started_at = started_at

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        is_known = self._guard.knows(scope["headers"])
        await _reply(self._view(CURRENT_ACTOR.get() if is_known else UNKNOWN)).send(send)

    def _view(self, actor: Actor) -> SessionView:
        is_known = actor is not UNKNOWN

        def may(permission: Permission) -> bool:
            return is_known and is_allowed(actor.role, permission)

        return SessionView(
            logged_in=is_known and actor.role is not Role.ANYBODY,
            name=actor.name if is_known else None,
            role=actor.role.value if is_known else None,
            can_read=may(Permission.READ),
            can_steer=may(Permission.STEER),
            can_operate=may(Permission.OPERATE),
            swarm_id=actor.swarm_id if is_known else None,
            version=__version__,
            started_at=self._started_at,
            server_time=self._coordinator.clock(),
        )


async def _request(form: type[R], receive: Receive) -> R:
    """Written to the audit log, without the body: it may be a code."""
    facts = CURRENT_REQUEST.get()
    if facts is not None:
        facts.is_audited = True
    request: R = parse(form, await read_body(receive) or b"{}")
    return request


def _reply(answer: Answer, *headers: tuple[bytes, bytes]) -> Reply:
    return json_reply(to_json(answer))._replace(headers=(_NO_STORE, *headers))


def _host(scope: Scope) -> bytes:
    return (header(scope["headers"], b"host") or "").encode("latin-1")


def _is_secure(forwarding: Forwarding, scope: Scope) -> bool:
    return forwarding.address(scope).startswith("https://")
