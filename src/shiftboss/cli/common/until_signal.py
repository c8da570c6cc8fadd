"""Running something until a signal comes. A stop that was asked for is a good end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_until_signal(work: Coroutine[Any, Any, None]) -> None:
    """Raises what the work raises. It is cancelled, and may tidy up, when a signal comes."""
    until_signal(work)


def until_signal(work: Coroutine[Any, Any, T]) -> T | None:
    """What the work gives; None when a signal came first."""
    return asyncio.run(_until_signal(work))


async def _until_signal(work: Coroutine[Any, Any, T]) -> T | None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait((task,))
    return None if task.cancelled() else task.result()
