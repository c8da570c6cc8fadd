"""Threads for requests: the network and the disk never block the event loop that draws."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
_Job = tuple[Callable[[], Any], "asyncio.Future[Any] | None"]


class RequestThread:
    """Runs functions one after the other, in a thread that does not keep the process alive: a
    request that hangs does not delay the end of the program."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[[], T]) -> T:
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put((function, outcome))
        return await outcome

    def do(self, function: Callable[[], object]) -> None:
        """No caller waits for the result."""
        self._jobs.put((function, None))

    def end(self, last: Callable[[], object] | None = None, seconds: float = 0.0) -> None:
        """After what is queued, and what is done last; waits at most so long for it."""
        if last is not None:
            self.do(last)
        self._jobs.put(None)
        if seconds:
            self._thread.join(seconds)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, outcome = job
            try:
                result = function()
            except Exception as error:  # noqa: BLE001 - raised where it is awaited
                if outcome is not None:
                    _call_in_loop_of(outcome, partial(_set_error, outcome, error))
            else:
                if outcome is not None:
                    _call_in_loop_of(outcome, partial(_set_result, outcome, result))


def _set_result(outcome: asyncio.Future[Any], result: object) -> None:
    if not outcome.done():  # else no caller waits for it any more
        outcome.set_result(result)


def _set_error(outcome: asyncio.Future[Any], error: Exception) -> None:
    if not outcome.done():
        outcome.set_exception(error)


def _call_in_loop_of(outcome: asyncio.Future[Any], settle: Callable[[], None]) -> None:
    try:
        outcome.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        pass  # the program has ended
