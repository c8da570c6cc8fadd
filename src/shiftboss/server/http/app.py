"""The ASGI application: guard, reports, router, and errors as problem documents."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import MethodNotAllowed, ShiftbossError, UnknownPath
from shiftboss.server.http.calls import Calls, answer_asgi
from shiftboss.server.http.exchange import ClientGoneError, send_problem
from shiftboss.server.http.guard import Guard
from shiftboss.server.http.routes import Endpoints
from shiftboss.server.mcp.endpoint import MCP_PATH, McpEndpoint

log = logging.getLogger(__name__)


class App:
    def __init__(
        self,
        coordinator: Coordinator,
        token: str | None = None,
        operator_token: str | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.on_started: Callable[[], None] = _nothing
        self.start_error: ShiftbossError | None = None
        self.guard = Guard(token, operator_token)
        self.calls = Calls(coordinator)
        self._mcp = McpEndpoint(coordinator)
        self._router = Router(
            Endpoints(coordinator, self.calls).routes(),
            redirect_slashes=False,
            default=_no_such_path,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
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
        answer = _AnswerOnce(send)
        try:
            self.guard.check(scope["path"], scope["headers"])
            call = self.calls.find(scope["method"], scope["path"])
            if call is not None:
                await answer_asgi(call, scope, receive, answer)
            elif scope["path"] == MCP_PATH:
                await self._mcp(scope, receive, answer)
            else:
                # With an app in the scope, the router raises for a wrong method.
                scope["app"] = self
                await self._router(scope, receive, answer)
        except HTTPException as error:
            await answer.problem(_of_router(scope, error))
        except ShiftbossError as error:
            await answer.problem(error)
        except (ClientGoneError, asyncio.CancelledError):
            pass  # nobody is there to hear the answer
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            await answer.problem(
                ShiftbossError("something is wrong here", hint="see the server's log")
            )


class _AnswerOnce:
    """Sends, and remembers that it did: an answer that has begun cannot turn into an error."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._begun = False

    async def __call__(self, message: Message) -> None:
        self._begun = True
        await self._send(message)

    async def problem(self, error: ShiftbossError) -> None:
        if not self._begun:
            await send_problem(self, error)


def _nothing() -> None:
    pass


async def _no_such_path(scope: Scope, _receive: Receive, _send: Send) -> None:
    raise UnknownPath(
        f"there is nothing at {scope['path']}",
        field="path",
        hint="GET /openapi.json lists what is",
    )


def _of_router(scope: Scope, error: HTTPException) -> ShiftbossError:
    allowed = (error.headers or {}).get("Allow", "another method")
    return MethodNotAllowed(
        f"{scope['method']} is not for {scope['path']}", field="method", hint=f"use {allowed}"
    )
