"""Work that must not stop halfway when whoever waits for it is cancelled."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Its result. Who is cancelled meanwhile, however often, waits for its end first."""
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


# Starting a program so that whoever starts it can be cancelled at any moment.


async def start_program(
    argv: tuple[str, ...], end: Callable[[Process], Awaitable[None]], **options: Any
) -> Process:
    """As `asyncio.create_subprocess_exec`, which waits for ever when it is cancelled before the
    pipes are connected (Python 3.11). So the start is never cancelled: it is waited for, `end` ends
    what was started, and then the cancellation goes on."""
    starting = asyncio.ensure_future(asyncio.create_subprocess_exec(*argv, **options))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await to_the_end(_end_started(starting, end))
        raise


async def _end_started(
    starting: asyncio.Future[Process], end: Callable[[Process], Awaitable[None]]
) -> None:
    try:
        process = await starting
    except OSError:
        return  # nothing was started
    await end(process)
