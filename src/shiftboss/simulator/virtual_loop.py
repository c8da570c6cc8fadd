"""An event loop whose time is virtual: when nothing is ready, the clock jumps to the next timer.

It has one thread and no input or output, so the same callbacks always run in the same order.
"""

from __future__ import annotations

import asyncio
from typing import Any

# Timers closer together than this fire in one turn of the loop.
CLOCK_RESOLUTION_SECONDS = 1e-9


class NothingLeftToDo(RuntimeError):
    """No callback is ready and no timer is set: the simulation waits for something that can never
    happen."""


class _VirtualSelector:
    """Waiting for input takes no real time: it moves the clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeftToDo("no callback is ready and no timer is set")
        self.now += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._selector = _VirtualSelector()
        self._clock_resolution = CLOCK_RESOLUTION_SECONDS

    def time(self) -> float:
        return self._selector.now

    def _process_events(self, _events: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass
