"""In which column of the board a task was, as its events tell it: the rules of `board_columns.py`,
from folded facts. The conformance tests compare the two."""

from __future__ import annotations

from collections import Counter
from typing import Final, get_args

from shiftboss.protocol.board.cards import Column
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.board_fold import FoldedBoard, FoldedCard
from shiftboss.rules.tasks.event_fold import FoldedAttempt, FoldedTask

COLUMNS: Final[tuple[Column, ...]] = get_args(Column)
_VERIFYING: Final = frozenset({WorkerState.VERIFYING, WorkerState.SELF_REVIEW})


def columns_of(board: FoldedBoard, *, lands: bool) -> dict[str, Column]:
    """The column of every task and packet, by its id, in the order of the ids."""
    ids = sorted(board.swarm.tasks.keys() | board.swarm.attempts.keys())
    return {task_id: column_of(board, task_id, lands=lands) for task_id in ids}


def column_of(board: FoldedBoard, task_id: str, *, lands: bool) -> Column:
    """Only events about a task move it. `lands`: the swarm runs a plan, whose accepted work is to
    land. Packets have attempts, but no tasks."""
    task = board.swarm.tasks.get(task_id)
    if task is None:
        return _packet_column(board.swarm.attempts[task_id])
    return _column(board, task, lands=lands)


def counts_of(columns: dict[str, Column]) -> dict[str, int]:
    counted = Counter(columns.values())
    return {column: counted[column] for column in COLUMNS}


def _column(board: FoldedBoard, task: FoldedTask, *, lands: bool) -> Column:
    card = board.card(task.task_id)
    if _needs_person(board, task, card):
        return "needs_you"
    if task.status == "failed":
        return "failed"
    if task.status == "active":
        return "verifying" if _is_verified(board, task, card) else "running"
    if task.status == "done":
        has_to_land = lands and card.accepted_commit is not None and card.landed_commit is None
        return "accepted" if has_to_land else "done"
    return "done" if task.status == "cancelled" else "waiting"


def _packet_column(attempt: FoldedAttempt) -> Column:
    if attempt.state is WorkerState.COMPLETE:
        return "done"
    if attempt.state is WorkerState.FAILED:
        return "failed"
    return "verifying" if attempt.state in _VERIFYING else "running"


def _needs_person(board: FoldedBoard, task: FoldedTask, card: FoldedCard) -> bool:
    if task.status == "done":
        return task.in_review
    if task.status == "cancelled":
        return False
    over_budget = (task.task_id, "budget") in board.holds
    return bool(card.questions) or card.is_escalated or over_budget


def _is_verified(board: FoldedBoard, task: FoldedTask, card: FoldedCard) -> bool:
    held = board.swarm.attempts.get(task.task_id)
    return card.claim_id is not None or (held is not None and held.state in _VERIFYING)
