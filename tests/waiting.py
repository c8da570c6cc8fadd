"""Wait for another process or task, with a deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

PAUSE_SECONDS = 0.01


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """Poll until `condition` holds; `what` describes it in the error message."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(PAUSE_SECONDS)


async def eventually(condition: Callable[[], object], what: str, seconds: float = 30.0) -> None:
    """The same without blocking the event loop."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        await asyncio.sleep(PAUSE_SECONDS)
