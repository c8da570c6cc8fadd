"""Wait for another process or task, with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PAUSE_SECONDS = 0.01
# What takes long is asked for less often: some conditions cost a request.
LONG_PAUSE_SECONDS = 0.05


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Poll until `condition` holds; `what` describes it in the error message."""
    began_at = time.monotonic()
    while not condition():
        time.sleep(_pause(time.monotonic() - began_at, seconds, what))


async def eventually(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """The same without blocking the event loop."""
    began_at = time.monotonic()
    while not condition():
        pause = _pause(time.monotonic() - began_at, seconds, what)
        await asyncio.sleep(pause)


def _pause(waited: float, seconds: float, what: str) -> float:
    assert waited < seconds, f"not within {seconds} s: {what}"
    return min(max(PAUSE_SECONDS, waited / 20), LONG_PAUSE_SECONDS)
