"""An answer that may take long, to a client that may hang up.

What is ready soon is sent as JSON. After a while of silence the answer becomes an event stream
that is kept alive until it is there, as the SDK does it: nobody between us takes the connection
for a dead one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from starlette.types import Message, Receive, Send

from shiftboss.server.exchange import ClientGoneError, send_json

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
