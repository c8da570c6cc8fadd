"""The history for the surfaces: each call is one use case that only reads."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shiftboss.coordinator.history import claims, events
from shiftboss.coordinator.history.diffs import Diffs
from shiftboss.coordinator.history.replays import Replays
from shiftboss.coordinator.swarms.swarms import check_task_exists
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.board.rendered import RenderedAnswer, rendered
from shiftboss.protocol.claims.diffs import DiffAnswer, ShowDiffRequest
from shiftboss.protocol.history import (
    EventList,
    ListEventsRequest,
    ListTaskClaimsRequest,
    LogAnswer,
    ReadLogRequest,
    ReplaySwarmRequest,
    TaskClaimList,
)
from shiftboss.store.port import Store


class HistoryService:
    def __init__(self, store: Store, evidence: Evidence, state_folder: Path | None) -> None:
        """`state_folder` is where the runs of this machine keep what their agents print."""
        self._store = store
        self._state_folder = state_folder
        self.replays = Replays(store)
        self._diffs = Diffs(store, evidence)

    async def list_events(self, request: ListEventsRequest, _key: str | None = None) -> EventList:
        return await self._store.read(lambda tx: events.listing(tx, request))

    async def list_task_claims(
        self, request: ListTaskClaimsRequest, _key: str | None = None
    ) -> TaskClaimList:
        return await self._store.read(lambda tx: claims.listing(tx, request))

    async def read_log(self, request: ReadLogRequest, _key: str | None = None) -> LogAnswer:
        await self._store.read(lambda tx: check_task_exists(tx, request.swarm_id, request.bead_id))
        return await asyncio.to_thread(_read_log, self._state_folder, request)

    async def replay_swarm(
        self, request: ReplaySwarmRequest, _key: str | None = None
    ) -> RenderedAnswer:
        """Thousands of tasks are not rendered on the event loop."""
        return await asyncio.to_thread(rendered, await self.replays.replay(request))

    async def show_diff(self, request: ShowDiffRequest, _key: str | None = None) -> DiffAnswer:
        return await self._diffs.show(request)


def _read_log(state: Path | None, request: ReadLogRequest) -> LogAnswer:
    """In a thread: it reads files, and imports every agent when it is called first."""
    from shiftboss.coordinator.history.logs import read_log

    return read_log(state, request)
