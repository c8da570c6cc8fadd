"""Threads for requests: the network and the disk never block the event loop that draws."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[Callable[[], Any], "asyncio.Future[Any]", asyncio.AbstractEventLoop]


class Lane:
    """Runs functions one after the other, in a thread that does not keep the process alive: a
    request that hangs does not delay the end of the program."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        self._jobs.put((function, outcome, loop))
        return await outcome

    def end(self, seconds: float = 0.0) -> None:
        """After what is queued; waits at most so long for it."""
        self._jobs.put(None)
        if seconds:
            self._thread.join(seconds)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, outcome, loop = job
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                _report(loop, outcome, None, error)
            else:
                _report(loop, outcome, result, None)


def _report(
    loop: asyncio.AbstractEventLoop,
    outcome: asyncio.Future[Any],
    result: object,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if outcome.done():  # nobody waits for it any more
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        pass  # the program has ended
