"""Faults of a server and of the network, as a worker meets them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from shiftboss.conformance.exchanges import Exchange


class FaultReply(NamedTuple):
    status: int
    body: bytes
    content_type: str = "application/json"
    retry_after: int | None = None


def _always(_exchange: Exchange) -> bool:
    return True


@dataclass(slots=True)
class Fault:
    """The fault that hits the next requests of an operation. `met` are those that it happened to.

    `reply` is sent instead of asking the server. `cut` closes the connection before the server is
    asked, or after it has answered. `hold` keeps the answer back until the event is set. `poll_ms`
    replaces the duration of a poll. `when` is asked once the server has answered.
    """

    operation: str
    reply: FaultReply | None = None
    cut: Literal["before", "after"] | None = None
    hold: threading.Event | None = None
    poll_ms: int | None = None
    when: Callable[[Exchange], bool] = _always
    times: int = 1
    met: list[Exchange] = field(default_factory=list)

    def fits(self, exchange: Exchange) -> bool:
        return self.operation == exchange.operation and len(self.met) < self.times


def busy(operation: str, status: int, *, retry_after: int | None = None, times: int = 1) -> Fault:
    """The server asks to try again later."""
    body = b'{"code":"store_unavailable","detail":"try again later"}'
    return Fault(operation, reply=FaultReply(status, body, retry_after=retry_after), times=times)


def broken_page(operation: str) -> Fault:
    """Something in between answers for a server that is down, and not in JSON."""
    return Fault(operation, reply=FaultReply(502, b"<html>502 Bad Gateway</html>", "text/html"))


def lost_answer(
    operation: str, when: Callable[[Exchange], bool] = _always, times: int = 1
) -> Fault:
    """The server does what it was asked to, and the caller does not learn of it."""
    return Fault(operation, cut="after", when=when, times=times)
