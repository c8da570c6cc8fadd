"""What has happened, for the surfaces: each call is one use case that only reads."""

from __future__ import annotations

from shiftboss.coordinator.history import claims, events
from shiftboss.protocol.history import (
    EventList,
    ListEventsRequest,
    ListTaskClaimsRequest,
    TaskClaimList,
)
from shiftboss.store.port import Store


class HistoryService:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def list_events(self, request: ListEventsRequest, _key: str | None = None) -> EventList:
        return await self._store.read(lambda tx: events.listing(tx, request))

    async def list_task_claims(
        self, request: ListTaskClaimsRequest, _key: str | None = None
    ) -> TaskClaimList:
        return await self._store.read(lambda tx: claims.listing(tx, request))
