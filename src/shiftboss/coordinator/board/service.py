"""The operations of the board. Each reads and renders its answer off the event loop, once for all
pages that ask for the same frame."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from shiftboss.coordinator.board import cards, inbox, workers
from shiftboss.coordinator.board.change_feed import ChangeFeed
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.swarms import swarms
from shiftboss.protocol.board.cards import ListCardsRequest
from shiftboss.protocol.board.inbox import ListInboxRequest
from shiftboss.protocol.board.rendered import RenderedAnswer, rendered
from shiftboss.protocol.board.workers import ListWorkersRequest
from shiftboss.store.port import Store, Transaction

ANSWERS_MAX: Final = 32

# The answer, and the id of the newest event that it shows.
Made = tuple[RenderedAnswer, int]


class BoardService:
    """None of the operations writes, so that they need no idempotency keys."""

    def __init__(self, store: Store, clock: Clock, hub: Hub) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self.changes = ChangeFeed(hub)
        self._shared = SharedAnswers(self.changes)

    async def list_cards(
        self, request: ListCardsRequest, _key: str | None = None
    ) -> RenderedAnswer:
        if request.as_of is None:
            return (await self._read_cards(request))[0]
        key = request.model_copy(update={"as_of": None}).model_dump_json()
        return await self._shared.get(key, request.as_of, lambda: self._read_cards(request))

    async def _read_cards(self, request: ListCardsRequest) -> tuple[RenderedAnswer, int]:
        now_ms, polling = self._clock(), self._hub.polling(request.swarm_id)

        def read(tx: Transaction) -> tuple[RenderedAnswer, int]:
            answer = cards.listing(tx, request, polling, now_ms)
            return rendered(answer), answer.last_event_id

        return await self._store.read(read)

    async def list_workers(
        self, request: ListWorkersRequest, _key: str | None = None
    ) -> RenderedAnswer:
        now_ms, polling = self._clock(), self._hub.polling(request.swarm_id)
        return await self._store.read(
            lambda tx: rendered(workers.listing(tx, request, polling, now_ms))
        )

    async def list_inbox(
        self, request: ListInboxRequest, _key: str | None = None
    ) -> RenderedAnswer:
        async def read() -> Made:
            polling = self._hub.polling_workers()
            return await self._store.read(
                lambda tx: (rendered(inbox.listing(tx, request.swarm_id, polling)), 0)
            )

        if not request.shared:
            return (await read())[0]
        return await self._shared.get(f"inbox {request.swarm_id or ''}", 0, read)

    async def shared_status(self, swarm_id: str) -> RenderedAnswer:
        """The status of a swarm, once for all pages that got the newest frame."""

        async def read() -> Made:
            polling = self._hub.polling(swarm_id)

            def render(tx: Transaction) -> Made:
                status = swarms.status(tx, swarm_id, polling)
                return RenderedAnswer(body=status.model_dump_json().encode()), 0

            return await self._store.read(render)

        return await self._shared.get(f"status {swarm_id}", 0, read)


class _Shared(NamedTuple):
    frame: int
    made: asyncio.Future[Made]


class SharedAnswers:
    """An answer is shared until the next frame of the feed: after that there may be changes that it
    does not show. Nothing is shared while the feed has no readers, because it then makes no frames.
    Used on the event loop only."""

    def __init__(self, feed: ChangeFeed) -> None:
        self._feed = feed
        self._answers: dict[str, _Shared] = {}

    async def get(
        self, key: str, as_of: int, make: Callable[[], Awaitable[Made]]
    ) -> RenderedAnswer:
        """An answer that shows all events up to `as_of`."""
        if not self._feed.is_read:
            return (await make())[0]
        shared = self._answers.get(key)
        if shared is not None and shared.frame == self._feed.frames:
            answer, last_event_id = await asyncio.shield(shared.made)
            if last_event_id >= as_of:
                return answer
        if shared is None or shared.frame != self._feed.frames:
            self._drop_old()
        made = asyncio.ensure_future(make())
        self._answers[key] = _Shared(self._feed.frames, made)
        made.add_done_callback(partial(self._drop_failed, key))
        return (await asyncio.shield(made))[0]

    def _drop_failed(self, key: str, made: asyncio.Future[Made]) -> None:
        shared = self._answers.get(key)
        is_failed = made.cancelled() or made.exception() is not None
        if is_failed and shared is not None and shared.made is made:
            del self._answers[key]

    def _drop_old(self) -> None:
        current = self._feed.frames
        self._answers = {
            key: shared for key, shared in self._answers.items() if shared.frame == current
        }
        if len(self._answers) >= ANSWERS_MAX:
            self._answers.clear()
