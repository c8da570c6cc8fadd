"""Work that must not stop halfway, or not go on, when its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. A caller that is cancelled, however often, first waits until
    the work has ended."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()
        raise cancelled
    return task.result()


async def run_together(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Run several at once. If one of them fails or the caller is cancelled, the others are
    cancelled; nothing continues after the end of this call."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await run_to_completion(_ended(tasks))


async def _ended(tasks: Sequence[asyncio.Future[T]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)
