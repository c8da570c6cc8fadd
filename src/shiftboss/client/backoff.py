"""How long to wait before the next try."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Final

import httpx2

from shiftboss.client.exchange import ServerUnreachable

FIRST_PAUSE_SECONDS: Final = 0.2
PAUSE_SECONDS_MAX: Final = 5.0


def pauses() -> Iterator[float]:
    """Doubling, and no two workers in step: a server that comes back is not met by all at once."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - nothing to guess here
        pause = min(pause * 2, PAUSE_SECONDS_MAX)


# How long a caller is kept waiting.


CALL_SECONDS_MAX: Final = 4.0
CONNECT_SECONDS_MAX: Final = 2.0


class Deadline:
    """Of one call, over all its requests."""

    def __init__(self, seconds: float = CALL_SECONDS_MAX) -> None:
        self._end = time.monotonic() + seconds

    def seconds_left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def timeout(self) -> httpx2.Timeout:
        """Of the next request. Raises ServerUnreachable when there is no time for one."""
        left = self.seconds_left()
        if not left:
            raise ServerUnreachable("the time of this call is up")
        return httpx2.Timeout(left, connect=min(left, CONNECT_SECONDS_MAX))
