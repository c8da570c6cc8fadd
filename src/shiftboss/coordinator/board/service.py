"""The operations of the board. Each reads and renders its answer off the event loop."""

from __future__ import annotations

from shiftboss.coordinator.board import cards, inbox, workers
from shiftboss.coordinator.board.change_feed import ChangeFeed
from shiftboss.coordinator.board.shared_answers import SharedAnswers
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.event_hub import Hub
from shiftboss.protocol.board.cards import ListCardsRequest
from shiftboss.protocol.board.inbox import ListInboxRequest
from shiftboss.protocol.board.rendered import RenderedAnswer, rendered
from shiftboss.protocol.board.workers import ListWorkersRequest
from shiftboss.store.port import Store, Transaction


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
        polling = self._hub.polling_workers()
        return await self._store.read(
            lambda tx: rendered(inbox.listing(tx, request.swarm_id, polling))
        )
