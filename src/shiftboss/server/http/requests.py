"""Reading an HTTP request in plain ASGI: headers, body, and whether the client is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from types import TracebackType
from typing import Final, Generic, TypeVar

from starlette.types import Receive

from shiftboss.errors import BodyTooLarge, InvalidRequest
from shiftboss.protocol.fields import IDEMPOTENCY_KEY_CHARACTERS_MAX

T = TypeVar("T")

# The names are in lower case.
Headers = Iterable[tuple[bytes, bytes]]

# The longest legitimate report is a 5,000-character message with every character escaped.
BODY_BYTES_MAX: Final = 256 * 1024


# Where the scope of a request has its actor.
ACTOR_KEY: Final = "shiftboss.actor"


class ClientGoneError(Exception):
    """The client disconnected before it had its reply."""


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


class PendingAnswer(Generic[T]):
    """An answer that may take long, for a client that may disconnect. `async with` cancels what
    is still running at the end."""

    def __init__(self, answer: Awaitable[T], receive: Receive) -> None:
        self._answer = asyncio.ensure_future(answer)
        self._disconnect = asyncio.ensure_future(receive())

    async def __aenter__(self) -> PendingAnswer[T]:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._disconnect.cancel()
        self._answer.cancel()

    async def wait(self, seconds: float | None = None) -> bool:
        """Whether the answer is there in time. Raises ClientGoneError."""
        await asyncio.wait(
            (self._answer, self._disconnect),
            timeout=seconds,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not self._answer.done() and self._disconnect.done():
            raise ClientGoneError
        return self._answer.done()

    def result(self) -> T:
        return self._answer.result()
