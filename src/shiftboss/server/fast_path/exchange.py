"""A call on the fast path, in place of uvicorn's own request and response cycle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Generator
from types import coroutine as generator_coroutine
from typing import Any, Final

from shiftboss.protocol.fields import Answer
from shiftboss.rules.access.actors import Actor
from shiftboss.server.http.calls import Call

# Their reply may overtake their events, because no other client waits for those. If their write
# gives an Answer, that is the answer of the call.
EARLY_PATHS: Final = frozenset({"/bus/ack_task", "/bus/worker_done"})
# A free worker waits for this reply, so it is written at once and not at the end of the event
# loop's turn.
URGENT_PATH: Final = "/bus/poll_task"
# Their coroutines run up to the first `await` without a task, and mostly need no other one. Until
# then they must not use anything that needs a task, such as `asyncio.timeout`.
TASKLESS_PATHS: Final = frozenset(
    {"/bus/add_task", "/bus/poll_task", "/bus/submit_task", "/bus/worker_done"}
)


class _NoEvent:
    """In place of the event that wakes uvicorn's own cycle."""

    def set(self) -> None:
        pass


class FastExchange:
    """One request and its reply. uvicorn's connection uses it like a cycle of its own: it reads
    whether the response is complete, and notes that the client or the server is about to go."""

    message_event = _NoEvent()
    status = 200
    code: str | None = None

    def __init__(self, call: Call, headers: list[tuple[bytes, bytes]], actor: Actor) -> None:
        self.call = call
        self.headers = headers
        self.actor = actor
        self.body = b""
        self.answer: asyncio.Future[Any] | None = None
        # The part of the reply that is still to be written. None: nothing has been written yet.
        self.unsent: bytes | None = None
        self.response_complete = False
        self.disconnected = False
        self.keep_alive = True
        # For the access log.
        self.began_at = time.monotonic()


@generator_coroutine
def continued(
    coroutine: Coroutine[Any, Any, Answer], awaited: object
) -> Generator[Any, Any, Answer]:
    """The rest of a coroutine that was started without a task and waits for `awaited`."""
    while True:
        try:
            yield awaited
        except BaseException as error:  # noqa: BLE001 (such as a cancellation: for the coroutine)
            resume, argument = coroutine.throw, error
        else:
            resume, argument = coroutine.send, None  # type: ignore[assignment]
        try:
            awaited = resume(argument)
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer
