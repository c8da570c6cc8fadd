"""How long to wait before the next attempt, and how long a call may take in total."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Final

import httpx2

from shiftboss.client.errors import ServerUnreachable

FIRST_DELAY_SECONDS: Final = 0.2
DELAY_SECONDS_MAX: Final = 5.0

CALL_SECONDS_MAX: Final = 4.0
CONNECT_SECONDS_MAX: Final = 2.0


def backoff_delays() -> Iterator[float]:
    """Doubling delays with jitter, without end: a server that comes back is not met by everybody at
    the same moment."""
    delay = FIRST_DELAY_SECONDS
    while True:
        yield delay * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret
        delay = min(delay * 2, DELAY_SECONDS_MAX)


def delay_after(error: ServerUnreachable, delays: Iterator[float]) -> float:
    """The next delay, and before it what the server asked for: not everybody returns at once."""
    return error.retry_after_seconds + next(delays)


class Deadline:
    """The end of one call, which may make several requests."""

    def __init__(self, seconds: float = CALL_SECONDS_MAX) -> None:
        self._end = time.monotonic() + seconds

    def seconds_left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def timeout(self) -> httpx2.Timeout:
        """The timeout of the next request. Raises ServerUnreachable when no time is left."""
        seconds = self.seconds_left()
        if not seconds:
            raise ServerUnreachable("the call ran out of time")
        return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS_MAX))
