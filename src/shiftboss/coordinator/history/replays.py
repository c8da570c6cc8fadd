"""Folds the events of swarms up to any of them, in bounded steps that never hold up the server.

A slider asks for one event after the other. So boards are kept at some events on the way, and the
next question starts at the nearest one before it.
"""

from __future__ import annotations

import asyncio
import pickle
from collections import OrderedDict
from typing import Final

from shiftboss.coordinator.history import replay
from shiftboss.coordinator.history.events import view
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import HistoryIncomplete, InvalidRequest
from shiftboss.protocol.events import Event
from shiftboss.protocol.history import ReplayAnswer, ReplaySwarmRequest
from shiftboss.rules.tasks.board_fold import FoldedBoard
from shiftboss.rules.tasks.folded_columns import columns_of, counts_of
from shiftboss.store.port import Store, Transaction

EVENTS_PER_STEP: Final = 1000
# How many boards of a swarm are kept, and of how many swarms.
BOARDS_KEPT_MAX: Final = 16
SWARMS_KEPT_MAX: Final = 4


class _Bounds:
    """The first and the last event of a swarm, and whether it runs a plan."""

    def __init__(self, tx: Transaction, swarm_id: str) -> None:
        check_exists(tx, swarm_id)
        self.first, self.last = tx.event_bounds(swarm_id)
        self.lands = tx.plan_run(swarm_id) is not None


class Replays:
    def __init__(self, store: Store) -> None:
        self._store = store
        # By swarm: boards by the event that they are at, pickled, as a fold changes them.
        self._kept: OrderedDict[str, dict[int, bytes]] = OrderedDict()
        # One fold at a time: it takes processor time from everything else.
        self._folding = asyncio.Lock()

    async def replay(self, request: ReplaySwarmRequest) -> ReplayAnswer:
        bounds = await self._store.read(lambda tx: _Bounds(tx, request.swarm_id))
        at = bounds.last if request.at is None else request.at
        _check(request, bounds, at)
        async with self._folding:
            board, event = await self._fold(request.swarm_id, at, bounds)
            return await asyncio.to_thread(_answer, board, event, request, bounds)

    async def _fold(
        self, swarm_id: str, at: int, bounds: _Bounds
    ) -> tuple[FoldedBoard, Event | None]:
        board = await self._nearest(swarm_id, at)
        event: Event | None = None
        every = max(EVENTS_PER_STEP, bounds.last // BOARDS_KEPT_MAX)
        while board.swarm.last_event_id < at:
            since = board.swarm.last_event_id
            limit = min(EVENTS_PER_STEP, at - since, every - since % every)
            page = await self._events(swarm_id, since, limit)
            if not page:
                break
            await asyncio.to_thread(_apply, board, page)
            event = page[-1]
            if event.event_id % every == 0:
                await self._keep(swarm_id, board)
        return board, event

    async def _events(self, swarm_id: str, since: int, limit: int) -> list[Event]:
        return await self._store.read(lambda tx: tx.events_after(swarm_id, since, limit))

    async def _nearest(self, swarm_id: str, at: int) -> FoldedBoard:
        """The kept board closest before the event, or an empty one. It is at an earlier event, so
        that the last one is read again and can be shown."""
        kept = self._kept.get(swarm_id, {})
        nearest = max((event_id for event_id in kept if event_id < at), default=0)
        if nearest == 0:
            return FoldedBoard()
        board: FoldedBoard = await asyncio.to_thread(pickle.loads, kept[nearest])
        return board

    async def _keep(self, swarm_id: str, board: FoldedBoard) -> None:
        content = await asyncio.to_thread(pickle.dumps, board)
        kept = self._kept.setdefault(swarm_id, {})
        self._kept.move_to_end(swarm_id)
        kept[board.swarm.last_event_id] = content
        while len(kept) > BOARDS_KEPT_MAX:
            kept.pop(min(kept))
        while len(self._kept) > SWARMS_KEPT_MAX:
            self._kept.popitem(last=False)


def _check(request: ReplaySwarmRequest, bounds: _Bounds, at: int) -> None:
    if at > bounds.last:
        raise InvalidRequest(
            f"at: the last event of {request.swarm_id} is {bounds.last}", field="at"
        )
    if bounds.first > 1:
        raise HistoryIncomplete(request.swarm_id, bounds.first)


def _apply(board: FoldedBoard, page: list[Event]) -> None:
    for event in page:
        board.apply(event)


def _answer(
    board: FoldedBoard, event: Event | None, request: ReplaySwarmRequest, bounds: _Bounds
) -> ReplayAnswer:
    columns = columns_of(board, lands=bounds.lands)
    ids = [task_id for task_id in columns if task_id > request.after]
    shown = ids[: request.limit]
    return ReplayAnswer(
        at=board.swarm.last_event_id,
        event=None if event is None else view(event),
        first_event_id=bounds.first,
        last_event_id=bounds.last,
        complete=board.swarm.is_complete,
        lands=bounds.lands,
        counts=counts_of(columns),
        tasks=[replay.task_view(board, task_id, columns[task_id]) for task_id in shown],
        next_after=shown[-1] if len(shown) < len(ids) else None,
        workers=replay.workers_of(board),
        holds=replay.swarm_holds(board),
    )
