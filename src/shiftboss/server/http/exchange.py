"""One HTTP exchange in plain ASGI: headers, body in, answer out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Final, TypeVar

from pydantic_core import to_json
from starlette.types import Receive, Send

from shiftboss.errors import BodyTooLarge, InvalidRequest, ShiftbossError
from shiftboss.protocol.fields import IDEMPOTENCY_KEY_CHARACTERS_MAX
from shiftboss.protocol.problems import PROBLEM_CONTENT_TYPE, problem_of

T = TypeVar("T")

# Names in lower case.
Headers = Iterable[tuple[bytes, bytes]]

# The longest honest report is a 5,000-character message with every character escaped.
BODY_BYTES_MAX: Final = 256 * 1024

_JSON_TYPE: Final = (b"content-type", b"application/json")
_PROBLEM_TYPE: Final = (b"content-type", PROBLEM_CONTENT_TYPE.encode())


class ClientGoneError(Exception):
    """The client hung up before its request was complete."""


def header(headers: Headers, name: bytes) -> str | None:
    for key, value in headers:
        if key == name:
            return str(value, "latin-1")
    return None


def idempotency_key(headers: Headers) -> str | None:
    key = header(headers, b"idempotency-key")
    if key is None:
        return None
    if not is_idempotency_key(key):
        raise InvalidRequest(
            f"Idempotency-Key: must be 1 to {IDEMPOTENCY_KEY_CHARACTERS_MAX} printable characters",
            field="Idempotency-Key",
        )
    return key


def is_idempotency_key(text: str) -> bool:
    return 0 < len(text) <= IDEMPOTENCY_KEY_CHARACTERS_MAX and text.isascii() and text.isprintable()


async def read_body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body"):
        if len(body) > BODY_BYTES_MAX:
            break
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
    if len(body) > BODY_BYTES_MAX:
        raise BodyTooLarge(f"body: must not be longer than {BODY_BYTES_MAX} bytes", field="body")
    return body


async def unless_gone(call: Awaitable[T], receive: Receive) -> T:
    """The answer of a call that may wait; given up when the client hangs up."""
    waiting = asyncio.ensure_future(call)
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait((waiting, gone), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            raise ClientGoneError
        return waiting.result()
    finally:
        gone.cancel()
        waiting.cancel()


async def send_json(send: Send, body: bytes, status: int = 200) -> None:
    await _send(send, body, status, _JSON_TYPE)


async def send_problem(send: Send, error: ShiftbossError) -> None:
    await _send(send, to_json(problem_of(error)), error.status, _PROBLEM_TYPE)


async def _send(send: Send, body: bytes, status: int, content_type: tuple[bytes, bytes]) -> None:
    headers = [content_type, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
