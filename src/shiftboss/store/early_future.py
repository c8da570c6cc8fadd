"""An answer that one listener can hear ahead of the event loop's next turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class EarlyFuture(asyncio.Future[T]):
    """`at_once`, where somebody has set it, hears the answer on the thread that has it first: the
    one that writes, for a use case that was alone in its commit. The future follows on the loop."""

    at_once: Callable[[Any], None] | None = None

    def give(self, answer: T) -> None:
        """On the event loop."""
        if not self.done():
            if self.at_once is not None:
                self.at_once(answer)
            self.set_result(answer)
