"""A call on the short way, and the bytes of its reply."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, NamedTuple

from pydantic_core import to_json
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from shiftboss.errors import ShiftbossError
from shiftboss.protocol.fields import Answer
from shiftboss.protocol.problems import PROBLEM_CONTENT_TYPE, problem_of
from shiftboss.server.http.calls import Call

log = logging.getLogger(__name__)

_JSON_TYPE: Final = b"application/json"
_PROBLEM_TYPE: Final = PROBLEM_CONTENT_TYPE.encode()


class Reply(NamedTuple):
    status: int
    content_type: bytes
    body: bytes

    def to_bytes(self, further_lines: bytes) -> bytes:
        return b"%bcontent-type: %b\r\ncontent-length: %d\r\n%b\r\n%b" % (
            STATUS_LINE[self.status],
            self.content_type,
            len(self.body),
            further_lines,
            self.body,
        )


class _NobodyWaits:
    """In place of the event that uvicorn's own exchange waits for."""

    def set(self) -> None:
        pass


class FastExchange:
    """uvicorn's connection takes it for an exchange of its own: it asks whether the answer is
    complete, and says that the client is gone or that the server ends."""

    message_event = _NobodyWaits()

    def __init__(self, call: Call, path: str, headers: list[tuple[bytes, bytes]]) -> None:
        self.call = call
        self.path = path
        self.headers = headers
        self.body = b""
        self.answer: asyncio.Future[Any] | None = None
        # What of the reply is still to be written; None: the reply has not begun.
        self.left: bytes | None = None
        # The guard had nothing against it.
        self.is_admitted = False
        self.response_complete = False
        self.disconnected = False
        self.keep_alive = True

    def reply(self, answer: Answer) -> Reply:
        try:
            return Reply(200, _JSON_TYPE, self.call.rendered(answer))
        except Exception as error:  # noqa: BLE001 (the client is told, and so is the log)
            return self.problem(error)

    def problem(self, error: BaseException) -> Reply:
        if isinstance(error, ShiftbossError):
            return problem_reply(self.call.refused(error))
        log.error("POST %s failed", self.path, exc_info=error)
        return problem_reply(ShiftbossError("something is wrong here", hint="see the server's log"))


def problem_reply(error: ShiftbossError) -> Reply:
    return Reply(error.status, _PROBLEM_TYPE, to_json(problem_of(error)))
