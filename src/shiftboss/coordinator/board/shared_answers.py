"""Answers that several readers share: the pages that get the same frame ask for the same cards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from shiftboss.coordinator.board.change_feed import ChangeFeed
from shiftboss.protocol.board.rendered import RenderedAnswer

ANSWERS_MAX: Final = 32

# The answer, and the id of the newest event that it shows.
Made = tuple[RenderedAnswer, int]


class _Shared(NamedTuple):
    frame: int
    made: asyncio.Future[Made]


class SharedAnswers:
    """An answer is shared until the next frame of the feed: after that there may be changes that it
    does not show. Used on the event loop only."""

    def __init__(self, feed: ChangeFeed) -> None:
        self._feed = feed
        self._answers: dict[str, _Shared] = {}

    async def get(
        self, key: str, as_of: int, make: Callable[[], Awaitable[Made]]
    ) -> RenderedAnswer:
        """An answer that shows all events up to `as_of`."""
        shared = self._answers.get(key)
        if shared is not None and shared.frame == self._feed.frames:
            answer, last_event_id = await asyncio.shield(shared.made)
            if last_event_id >= as_of:
                return answer
        if shared is None or shared.frame != self._feed.frames:
            self._drop_old()
        made = asyncio.ensure_future(make())
        self._answers[key] = _Shared(self._feed.frames, made)
        return (await asyncio.shield(made))[0]

    def _drop_old(self) -> None:
        current = self._feed.frames
        self._answers = {
            key: shared for key, shared in self._answers.items() if shared.frame == current
        }
        if len(self._answers) >= ANSWERS_MAX:
            self._answers.clear()
