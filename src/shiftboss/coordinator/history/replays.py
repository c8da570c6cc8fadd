"""Folds the events of swarms up to any of them, in bounded steps that never hold up the server.

A slider asks for one event after the other. So boards are kept at some events on the way, and the
next question starts at the nearest one before it.
"""

from __future__ import annotations

import asyncio
import pickle
from collections import OrderedDict
from typing import Final, NamedTuple

from shiftboss.coordinator.history.events import view
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import HistoryIncomplete, InvalidRequest
from shiftboss.protocol.board.cards import Column
from shiftboss.protocol.events import Event
from shiftboss.protocol.history import (
    ReplayAnswer,
    ReplayedTask,
    ReplayedWorker,
    ReplaySwarmRequest,
)
from shiftboss.rules.runs.records import WHOLE_SWARM
from shiftboss.rules.tasks.board_fold import FoldedBoard
from shiftboss.rules.tasks.event_fold import FoldedAttempt, FoldedTask
from shiftboss.rules.tasks.folded_columns import columns_of, counts_of
from shiftboss.store.port import Store, Transaction

EVENTS_PER_STEP: Final = 1000
# How many boards of a swarm are kept, and of how many swarms.
BOARDS_KEPT_MAX: Final = 16
SWARMS_KEPT_MAX: Final = 4


class _Log(NamedTuple):
    """The events of a swarm, and whether it runs a plan. A swarm that is deleted and created again
    is another one."""

    swarm_id: str
    created_at_ms: int
    first: int
    last: int
    lands: bool


def _log(tx: Transaction, swarm_id: str) -> _Log:
    check_exists(tx, swarm_id)
    swarm = tx.swarm(swarm_id)
    created_at_ms = 0 if swarm is None else swarm.created_at_ms
    lands = tx.plan_run(swarm_id) is not None
    return _Log(swarm_id, created_at_ms, *tx.event_bounds(swarm_id), lands)


class Replays:
    def __init__(self, store: Store) -> None:
        self._store = store
        # By swarm: boards by the event that they are at, pickled, as a fold changes them.
        self._kept: OrderedDict[tuple[str, int], dict[int, bytes]] = OrderedDict()
        # One fold at a time: it takes processor time from everything else.
        self._folding = asyncio.Lock()

    async def replay(self, request: ReplaySwarmRequest) -> ReplayAnswer:
        log = await self._store.read(lambda tx: _log(tx, request.swarm_id))
        at = log.last if request.at is None else request.at
        _check(log, at)
        async with self._folding:
            board, event = await self._fold(log, at)
            return await asyncio.to_thread(_answer, board, event, request, log)

    async def _fold(self, log: _Log, at: int) -> tuple[FoldedBoard, Event | None]:
        board = await self._nearest(log, at)
        event: Event | None = None
        every = max(EVENTS_PER_STEP, log.last // BOARDS_KEPT_MAX)
        while board.swarm.last_event_id < at:
            since = board.swarm.last_event_id
            limit = min(EVENTS_PER_STEP, at - since, every - since % every)
            page = await self._events(log.swarm_id, since, limit)
            if not page:
                break  # the swarm was deleted
            await asyncio.to_thread(_apply, board, page)
            event = page[-1]
            if event.event_id % every == 0:
                await self._keep(log, board)
        return board, event

    async def _events(self, swarm_id: str, since: int, limit: int) -> list[Event]:
        return await self._store.read(lambda tx: tx.events_after(swarm_id, since, limit))

    async def _nearest(self, log: _Log, at: int) -> FoldedBoard:
        """The kept board closest before the event, or an empty one. Never the one at the event
        itself: that event is shown, so it has to be read."""
        kept = self._kept.get(log[:2], {})
        nearest = max((event_id for event_id in kept if event_id < at), default=0)
        if nearest == 0:
            return FoldedBoard()
        board: FoldedBoard = await asyncio.to_thread(pickle.loads, kept[nearest])
        return board

    async def _keep(self, log: _Log, board: FoldedBoard) -> None:
        content = await asyncio.to_thread(pickle.dumps, board)
        kept = self._kept.setdefault(log[:2], {})
        self._kept.move_to_end(log[:2])
        kept[board.swarm.last_event_id] = content
        while len(kept) > BOARDS_KEPT_MAX:
            kept.pop(min(kept))
        while len(self._kept) > SWARMS_KEPT_MAX:
            self._kept.popitem(last=False)


def _check(log: _Log, at: int) -> None:
    if at > log.last:
        raise InvalidRequest(f"at: the last event of {log.swarm_id} is {log.last}", field="at")
    if log.first > 1:
        raise HistoryIncomplete(log.swarm_id, log.first)


def _apply(board: FoldedBoard, page: list[Event]) -> None:
    for event in page:
        board.apply(event)


def _answer(
    board: FoldedBoard, event: Event | None, request: ReplaySwarmRequest, log: _Log
) -> ReplayAnswer:
    only, columns = request.bead_id, columns_of(board, lands=log.lands)
    if only is not None:
        columns = {only: columns[only]} if only in columns else {}
    ids = [task_id for task_id in columns if task_id > request.after]
    shown = ids[: request.limit]
    shown_event = None if event is None else view(event)
    workers = workers_of(board)
    return ReplayAnswer(
        at=board.swarm.last_event_id,
        event=shown_event if shown_event is None or only in (None, shown_event.bead_id) else None,
        first_event_id=log.first,
        last_event_id=log.last,
        complete=board.swarm.is_complete,
        lands=log.lands,
        counts=counts_of(columns),
        tasks=[task_view(board, task_id, columns[task_id]) for task_id in shown],
        next_after=shown[-1] if len(shown) < len(ids) else None,
        workers=[worker for worker in workers if only in (None, worker.task)],
        holds=swarm_holds(board),
    )


def task_view(board: FoldedBoard, task_id: str, column: Column) -> ReplayedTask:
    task, held = board.swarm.tasks.get(task_id), board.swarm.attempts.get(task_id)
    if task is None:
        return _packet_view(board, task_id, column)
    return _task_view(board, task, held, column)


def _task_view(
    board: FoldedBoard, task: FoldedTask, held: FoldedAttempt | None, column: Column
) -> ReplayedTask:
    card = board.card(task.task_id)
    return ReplayedTask(
        bead_id=task.task_id,
        title=card.title,
        status=task.status,
        column=column,
        state=None if held is None or held.state is None else held.state.value,
        worker=task.worker,
        epoch=task.epoch,
        milestone=None if held is None else board.milestone(held),
        depends_on=task.depends_on,
        waits_for=board.swarm.waits_for(task.task_id),
        failures=task.failures,
        questions=len(card.questions),
        claim_id=card.claim_id,
        in_review=task.in_review,
        accepted_commit=card.accepted_commit,
        landed=card.landed_commit,
    )


def _packet_view(board: FoldedBoard, task_id: str, column: Column) -> ReplayedTask:
    held, card = board.swarm.attempts[task_id], board.card(task_id)
    return ReplayedTask(
        bead_id=task_id,
        title=card.title,
        status={"done": "done", "failed": "failed"}.get(column, "active"),
        column=column,
        state=None if held.state is None else held.state.value,
        worker=held.worker,
        epoch=held.epoch,
        questions=len(card.questions),
        claim_id=card.claim_id,
        accepted_commit=card.accepted_commit,
        landed=card.landed_commit,
    )


def workers_of(board: FoldedBoard) -> list[ReplayedWorker]:
    held = {
        attempt.worker: attempt
        for attempt in board.swarm.attempts.values()
        if attempt.worker in board.swarm.workers
    }
    return [_worker_view(name, held.get(name)) for name in sorted(board.swarm.workers)]


def _worker_view(name: str, held: FoldedAttempt | None) -> ReplayedWorker:
    if held is None:
        return ReplayedWorker(name=name)
    state = None if held.state is None else held.state.value
    return ReplayedWorker(name=name, task=held.task_id, state=state, epoch=held.epoch)


def swarm_holds(board: FoldedBoard) -> list[str]:
    return sorted(kind for task_id, kind in board.holds if task_id == WHOLE_SWARM)
