"""How long a caller is kept waiting."""

from __future__ import annotations

import time
from typing import Final

import httpx2

from shiftboss.worker.exchange import ServerUnreachable

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
