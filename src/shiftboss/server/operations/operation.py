"""An operation: a request, an answer, and the use case in between, for every surface."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any, NamedTuple

from shiftboss.protocol.fields import Answer, Request


class Operation(NamedTuple):
    """`call(desk, request, idempotency_key)`, where `desk` finds the desk at a coordinator.

    `reads`: it changes nothing. `waits`: its answer may take long. `prompt`: nobody waits for what
    it changes but who asked.
    """

    request: type[Request]
    answer: type[Answer]
    call: Callable[..., Awaitable[Answer]]
    summary: str
    reads: bool = False
    waits: bool = False
    prompt: bool = False
    desk: Callable[[Any], Any] = attrgetter("bus")
