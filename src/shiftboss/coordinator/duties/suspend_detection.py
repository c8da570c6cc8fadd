"""Notices that the server itself stood still: its process was stopped, or its machine suspended.

No worker could reach it meanwhile, so a lease that ran out says nothing about its worker.
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
    """`run` ticks. A tick that comes late shows a standstill."""

    def __init__(
        self,
        elapsed: Callable[[], float] = elapsed_seconds,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        """`elapsed` must go on while the machine is suspended."""
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
        """Whether the server has stood still since the last call, or since the first tick. It does
        not matter whether a tick or the caller comes first after the standstill."""
        stood_still = self._stood_still or self._is_late()
        self._stood_still = False
        if stood_still:
            self._ticked_at = self._elapsed()
        return stood_still

    def put_back(self) -> None:
        """What follows from the standstill could not be done: the next `take` is true again."""
        self._stood_still = True

    def _is_late(self) -> bool:
        if self._ticked_at is None:
            return False
        return self._elapsed() - self._ticked_at > self._tick_seconds + LATE_SECONDS
