"""POST /mcp: plain calls here, all else through the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from starlette.types import Message, Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import MethodNotAllowed
from shiftboss.server.http.exchange import ClientGoneError, read_body, send_json
from shiftboss.server.mcp.calls import ToolService, address_of, call_id
from shiftboss.server.mcp.plain_calls import PlainCall, plain_call
from shiftboss.server.mcp.tools import Caller

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager


# An answer that may take long, to a client that may hang up.
#
# What is ready soon is sent as JSON. After a while of silence the answer becomes an event stream
# that is kept alive until it is there, as the SDK does it: nobody between us takes the connection
# for a dead one.


KEEP_ALIVE_SECONDS: Final = 15.0

_STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


async def send_patiently(
    answer: Awaitable[bytes], receive: Receive, send: Send, keep_alive_seconds: float
) -> None:
    """The answer is given up when the client hangs up."""
    waiting = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(receive())
    try:
        if await _either(waiting, gone, keep_alive_seconds):
            await send_json(send, _unless_gone(waiting))
            return
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        await _send_part(send, b": keep-alive\r\n\r\n")
        while not await _either(waiting, gone, keep_alive_seconds):
            await _send_part(send, b": keep-alive\r\n\r\n")
        await _send_part(send, b"event: message\r\ndata: %b\r\n\r\n" % _unless_gone(waiting))
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        waiting.cancel()


async def _either(
    waiting: asyncio.Future[bytes], gone: asyncio.Future[Message], seconds: float
) -> bool:
    done, _ = await asyncio.wait(
        (waiting, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
    )
    return bool(done)


def _unless_gone(waiting: asyncio.Future[bytes]) -> bytes:
    if not waiting.done():
        raise ClientGoneError
    return waiting.result()


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})


# The SDK's HTTP side, started with the first request that needs it.
#
# Importing the SDK takes half a second or more and 27 MB, which a server without such clients
# need not pay. It is done in a thread: the server goes on meanwhile.


class SdkRunner:
    def __init__(self, desk: ToolService) -> None:
        self._desk = desk
        self._manager: StreamableHTTPSessionManager | None = None
        self._starting = asyncio.Lock()
        self._ending = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = self._manager or await self._started()
        await manager.handle_request(scope, receive, send)

    async def stop(self) -> None:
        self._ending.set()
        if self._running is not None:
            await self._running

    async def _started(self) -> StreamableHTTPSessionManager:
        async with self._starting:
            if self._manager is None:
                manager = await asyncio.to_thread(_manager, self._desk)
                ready = asyncio.Event()
                self._running = asyncio.create_task(self._run(manager, ready))
                await ready.wait()
                self._manager = manager
            return self._manager

    async def _run(self, manager: StreamableHTTPSessionManager, ready: asyncio.Event) -> None:
        """In a task of its own: what the SDK opens must be closed by the same task."""
        async with manager.run():
            ready.set()
            await self._ending.wait()


def _manager(desk: ToolService) -> StreamableHTTPSessionManager:
    from shiftboss.server.mcp.sdk import http_manager

    return http_manager(desk)


MCP_PATH: Final = "/mcp"


class McpEndpoint:
    def __init__(
        self, coordinator: Coordinator, keep_alive_seconds: float = KEEP_ALIVE_SECONDS
    ) -> None:
        self._desk = ToolService(coordinator)
        self._keep_alive_seconds = keep_alive_seconds
        self._sdk = SdkRunner(self._desk)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            # The server has nothing to say unasked, so there is no stream to open with GET.
            raise MethodNotAllowed(
                f"{scope['method']} is not for {MCP_PATH}", field="method", hint="use POST"
            )
        body = await read_body(receive)
        call = plain_call(scope, body)
        if call is not None:
            await self._answer(call, scope, receive, send)
        else:
            await self._sdk(_trimmed(scope), _again(body, receive), send)

    async def stop(self) -> None:
        await self._sdk.stop()

    async def _answer(self, call: PlainCall, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._response(call, Caller(call_id(call.meta), address_of(scope)))
        if call.tool.waits:
            await send_patiently(response, receive, send, self._keep_alive_seconds)
        else:
            await send_json(send, await response)

    async def _response(self, call: PlainCall, caller: Caller) -> bytes:
        return call.response(await self._desk.call(call.tool, call.arguments, caller))


def _trimmed(scope: Scope) -> Scope:
    """Spaces after a header's value are not part of it; the parser leaves them there."""
    headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
    return {**scope, "headers": headers}


def _again(body: bytes, receive: Receive) -> Receive:
    """The body for another reader, then what comes after it."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    def next_message() -> Awaitable[Message]:
        return _ready(first.pop()) if first else receive()

    return next_message


async def _ready(message: Message) -> Message:
    return message
