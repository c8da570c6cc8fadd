"""Notices that the server itself was suspended: its process was stopped, or its machine slept.

No worker could reach it during that time, so an expired lease says nothing about its worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from shiftboss.system.elapsed import elapsed_seconds

TICK_SECONDS: Final = 2.0
# A busy machine is late, too.
LATE_SECONDS: Final = 5.0


class SuspendDetector:
    """`run` ticks. A late tick shows that the server was suspended."""

    def __init__(
        self,
        elapsed: Callable[[], float] = elapsed_seconds,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        """`elapsed` must also count the time in which the machine is suspended."""
        self._elapsed = elapsed
        self._tick_seconds = tick_seconds
        self._ticked_at: float | None = None
        self._stood_still = False

    async def run(self) -> None:
        while True:
            self.tick()
            await asyncio.sleep(self._tick_seconds)

    def tick(self) -> None:
        self._stood_still = self._stood_still or self._is_late()
        self._ticked_at = self._elapsed()

    def take(self) -> bool:
        """Whether the server has been suspended since the last call, or since the first tick. It
        does not matter whether a tick or the caller comes first after that."""
        stood_still = self._stood_still or self._is_late()
        self._stood_still = False
        if stood_still:
            self._ticked_at = self._elapsed()
        return stood_still

    def put_back(self) -> None:
        """The caller could not react to the suspension: the next `take` is true again."""
        self._stood_still = True

    def _is_late(self) -> bool:
        if self._ticked_at is None:
            return False
        return self._elapsed() - self._ticked_at > self._tick_seconds + LATE_SECONDS
