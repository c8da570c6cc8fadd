"""Running a coroutine until it ends or a signal stops it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def until_signal(work: Coroutine[Any, Any, T]) -> T | None:
    """The result of the work, or None if a signal stopped it. Raises what the work raises.

    SIGINT and SIGTERM cancel the work, so that it can clean up.
    """
    return asyncio.run(_until_signal(work))


async def _until_signal(work: Coroutine[Any, Any, T]) -> T | None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait((task,))
    return None if task.cancelled() else task.result()
