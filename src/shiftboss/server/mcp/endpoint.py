"""POST /mcp: answers plain calls itself, and leaves everything else to the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from starlette.types import Message, Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import MethodNotAllowed
from shiftboss.server.http.replies import json_reply
from shiftboss.server.http.requests import PendingAnswer, read_body
from shiftboss.server.mcp.calls import ToolService, address_of, call_id
from shiftboss.server.mcp.plain_calls import PlainCall, plain_call
from shiftboss.server.mcp.tools import CallContext

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


MCP_PATH: Final = "/mcp"
KEEP_ALIVE_SECONDS: Final = 15.0

_KEEP_ALIVE: Final = b": keep-alive\r\n\r\n"
_STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class McpEndpoint:
    def __init__(
        self, coordinator: Coordinator, keep_alive_seconds: float = KEEP_ALIVE_SECONDS
    ) -> None:
        self._tools = ToolService(coordinator)
        self._keep_alive_seconds = keep_alive_seconds
        self._sdk = SdkRunner(self._tools)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # The server sends nothing unasked, so GET has no stream to open.
            raise MethodNotAllowed(scope["method"], MCP_PATH, ["POST"])
        body = await read_body(receive)
        call = plain_call(scope, body)
        if call is not None:
            await self._answer(call, scope, receive, send)
        else:
            await self._sdk(_with_trimmed_headers(scope), _replay(body, receive), send)

    async def stop(self) -> None:
        await self._sdk.stop()

    async def _answer(self, call: PlainCall, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._response(call, CallContext(call_id(call.meta), address_of(scope)))
        if call.tool.waits:
            await send_slow_response(response, receive, send, self._keep_alive_seconds)
        else:
            await json_reply(await response).send(send)

    async def _response(self, call: PlainCall, context: CallContext) -> bytes:
        return call.response(await self._tools.call(call.tool, call.arguments, context))


class SdkRunner:
    """The SDK's HTTP side, started with the first request that needs it.

    Importing the SDK takes half a second or more and 27 MB, which a server without such clients
    does not have to pay. A thread does it, so that the server continues in the meantime.
    """

    def __init__(self, tools: ToolService) -> None:
        self._tools = tools
        self._manager: StreamableHTTPSessionManager | None = None
        self._start_lock = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = self._manager or await self._start()
        await manager.handle_request(scope, receive, send)

    async def stop(self) -> None:
        self._stopping.set()
        if self._running is not None:
            await self._running

    async def _start(self) -> StreamableHTTPSessionManager:
        async with self._start_lock:
            if self._manager is None:
                manager = await asyncio.to_thread(_import_manager, self._tools)
                ready = asyncio.Event()
                self._running = asyncio.create_task(self._run(manager, ready))
                await ready.wait()
                self._manager = manager
            return self._manager

    async def _run(self, manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
        """The same task has to close what the SDK opens, so it has a task of its own."""
        async with manager.run():
            ready.set()
            await self._stopping.wait()


def _import_manager(tools: ToolService) -> StreamableHTTPSessionManager:
    from shiftboss.server.mcp.sdk import http_manager

    return http_manager(tools)


async def send_slow_response(
    response: Awaitable[bytes], receive: Receive, send: Send, keep_alive_seconds: float
) -> None:
    """Send the response as JSON if it is ready soon, else as an event stream with keep-alives.

    The SDK does the same. The keep-alives tell proxies that the connection is in use. The response
    is given up when the client disconnects.
    """
    async with PendingAnswer(response, receive) as pending:
        if await pending.wait(keep_alive_seconds):
            await json_reply(pending.result()).send(send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        await _send_part(send, _KEEP_ALIVE)
        while not await pending.wait(keep_alive_seconds):
            await _send_part(send, _KEEP_ALIVE)
        await _send_part(send, b"event: message\r\ndata: %b\r\n\r\n" % pending.result())
        await send({"type": "http.response.body", "body": b""})


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


def _with_trimmed_headers(scope: Scope) -> Scope:
    """The parser leaves spaces after a header's value, which are not part of it."""
    headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
    return {**scope, "headers": headers}


def _replay(body: bytes, receive: Receive) -> Receive:
    """Let another reader receive the body, then what comes after it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    def next_message() -> Awaitable[Message]:
        return _ready(first.pop()) if first else receive()

    return next_message


async def _ready(message: Message) -> Message:
    return message
