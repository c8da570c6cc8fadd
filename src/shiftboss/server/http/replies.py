"""Replies: status, content type and body, the same through ASGI and on the fast path."""

from __future__ import annotations

import logging
import math
import secrets
from typing import Final, NamedTuple

from pydantic_core import to_json
from starlette.types import Send

from shiftboss.errors import MethodNotAllowed, ShiftbossError, Unauthorized
from shiftboss.protocol.problems import PROBLEM_CONTENT_TYPE, problem_of
from shiftboss.server.http.access_log import CURRENT_REQUEST, subject_of

log = logging.getLogger(__name__)

_JSON_TYPE: Final = b"application/json"
_PROBLEM_TYPE: Final = PROBLEM_CONTENT_TYPE.encode()


class Reply(NamedTuple):
    """`headers` are those beside the type and the length of the body."""

    status: int
    content_type: bytes
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    # The code of an error, for the log.
    code: str | None = None

    async def send(self, send: Send) -> None:
        headers = [
            (b"content-type", self.content_type),
            (b"content-length", b"%d" % len(self.body)),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_reply(body: bytes) -> Reply:
    return Reply(200, _JSON_TYPE, body)


def error_reply(error: BaseException, request: str) -> Reply:
    """`request` is for the log: method and path, or the name of a tool."""
    problem = public_error(error, request)
    return problem_reply(problem)


def problem_reply(problem: ShiftbossError) -> Reply:
    body = to_json(problem_of(problem))
    return Reply(problem.status, _PROBLEM_TYPE, body, _headers_of(problem), problem.code)


def _headers_of(error: ShiftbossError) -> tuple[tuple[bytes, bytes], ...]:
    if isinstance(error, MethodNotAllowed):
        return ((b"allow", error.allowed.encode()),)
    if isinstance(error, Unauthorized):
        return ((b"www-authenticate", b"Bearer"),)
    if error.retry_after_seconds is not None:
        # In whole seconds, as HTTP has it.
        return ((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after_seconds))),)
    return ()


def public_error(error: BaseException, request: str) -> ShiftbossError:
    """What the client is told. An unexpected error is logged, and only the log has the details."""
    if isinstance(error, ShiftbossError):
        return error
    facts = CURRENT_REQUEST.get()
    request_id = secrets.token_hex(8) if facts is None else facts.request_id
    known = {} if facts is None else subject_of(facts)
    line = {"request_id": request_id, **known}
    log.error("%s failed", request, exc_info=error, extra={"facts": line})
    return ShiftbossError(
        "internal error of the server",
        hint=f"see the server's log for {request_id}",
        facts={"request_id": request_id},
    )
