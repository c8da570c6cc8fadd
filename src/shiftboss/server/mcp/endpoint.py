"""POST /mcp: plain calls here, all else through the SDK."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import MethodNotAllowed
from shiftboss.server.exchange import read_body, send_json
from shiftboss.server.mcp.calls import ToolDesk, address_of, call_id
from shiftboss.server.mcp.patience import KEEP_ALIVE_SECONDS, send_patiently
from shiftboss.server.mcp.plain_calls import PlainCall, plain_call
from shiftboss.server.mcp.sdk_runner import SdkRunner
from shiftboss.server.mcp.tools import Caller

MCP_PATH: Final = "/mcp"


class McpEndpoint:
    def __init__(
        self, coordinator: Coordinator, keep_alive_seconds: float = KEEP_ALIVE_SECONDS
    ) -> None:
        self._desk = ToolDesk(coordinator)
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
