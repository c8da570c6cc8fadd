"""A swarm as it was after one of its events, as people see it."""

from __future__ import annotations

from shiftboss.protocol.history import ReplayedTask, ReplayedWorker
from shiftboss.rules.runs.records import WHOLE_SWARM
from shiftboss.rules.tasks.board_fold import FoldedBoard
from shiftboss.rules.tasks.event_fold import FoldedAttempt, FoldedTask


def task_view(board: FoldedBoard, task_id: str, column: str) -> ReplayedTask:
    task, held = board.swarm.tasks.get(task_id), board.swarm.attempts.get(task_id)
    if task is None:
        return _packet_view(board, task_id, column)
    return _task_view(board, task, held, column)


def _task_view(
    board: FoldedBoard, task: FoldedTask, held: FoldedAttempt | None, column: str
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


def _packet_view(board: FoldedBoard, task_id: str, column: str) -> ReplayedTask:
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
