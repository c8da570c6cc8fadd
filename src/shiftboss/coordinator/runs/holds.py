"""Holds: pauses, exhausted budgets and open questions that keep tasks from being handed out."""

from __future__ import annotations

from shiftboss.coordinator.bus.dispatch import drain, take_swarm, take_task
from shiftboss.errors import WorkPaused
from shiftboss.protocol.bus import HoldView
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.runs import PauseAnswer, PauseSwarmRequest, ResumeSwarmRequest
from shiftboss.rules.runs.records import WAITS_FOR_ANSWER, WHOLE_SWARM, Hold, later_hold
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction

HOLDS_SHOWN_MAX = 100
# Of one task: a blocked worker asks few.
OPEN_QUESTIONS_READ_MAX = 50


def is_held(tx: Transaction, task: Task) -> bool:
    return bool(tx.holds_of_task(task.swarm_id, task.task_id))


def check_not_held(tx: Transaction, task: Task) -> None:
    holds = tx.holds_of_task(task.swarm_id, task.task_id)
    if holds:
        raise WorkPaused(
            f"{task.task_id} is on hold: {holds[0].reason}; nothing was changed",
            field="task_id",
            hint="`shiftboss status` shows until when; the operator can resume or raise the budget",
        )


def budget_pause(tx: Transaction, swarm_id: str, task_id: str) -> str | None:
    """Why the worker of the task has to stop: an exhausted budget. A pause only holds back tasks
    that are not handed out yet."""
    holds = tx.holds_of_task(swarm_id, task_id)
    return "; ".join(hold.reason for hold in holds if hold.kind == "budget") or None


def view(hold: Hold) -> HoldView:
    return HoldView(
        kind=hold.kind,
        bead_id=None if hold.task_id == WHOLE_SWARM else hold.task_id,
        reason=hold.reason,
        since=hold.since_ms,
        until=hold.until_ms,
    )


def views_of_swarm(tx: Transaction, swarm_id: str) -> list[HoldView]:
    return [view(hold) for hold in tx.open_holds(swarm_id, HOLDS_SHOWN_MAX)]


def pause(tx: Transaction, request: PauseSwarmRequest, now_ms: int) -> PauseAnswer:
    """Several workers may run into the same quota: the longest pause counts."""
    _lock(tx, request.swarm_id, request.bead_id, now_ms)
    task_id = request.bead_id or WHOLE_SWARM
    wanted = Hold(request.swarm_id, task_id, "pause", request.reason, now_ms, request.until_ms)
    changed = put_hold(tx, wanted, now_ms)
    return PauseAnswer(success=True, changed=changed, paused=view(_hold_of(tx, wanted) or wanted))


def put_hold(tx: Transaction, wanted: Hold, now_ms: int) -> bool:
    current = _hold_of(tx, wanted)
    after = later_hold(current, wanted)
    if after == current:
        return False
    tx.put_hold(after)
    _add_event(tx, after, EventKind.DISPATCH_PAUSED, now_ms, until=after.until_ms)
    return True


def resume(tx: Transaction, request: ResumeSwarmRequest, now_ms: int) -> PauseAnswer:
    """End a pause, and do not wait for the answer to a question any longer; a repeat changes
    nothing. Tasks on hold because of a budget stay on hold."""
    _lock(tx, request.swarm_id, request.bead_id, now_ms)
    task_id = request.bead_id or WHOLE_SWARM
    holds = [
        hold
        for hold in tx.holds_of_task(request.swarm_id, task_id)
        if hold.task_id == task_id and hold.kind != "budget"
    ]
    for hold in holds:
        lift(tx, hold, "by the operator", now_ms)
    return PauseAnswer(success=True, changed=bool(holds), paused=None)


def hold_for_answer(tx: Transaction, task: Task, now_ms: int) -> None:
    """Hold a task back until its question is answered, or the operator resumes it. A pause of the
    task is independent of it: the worker that asks can answer itself, and must not end a pause."""
    put_hold(tx, _answer_hold(task.swarm_id, task.task_id, now_ms), now_ms)


def hold_for_dispute(tx: Transaction, swarm_id: str, task_id: str, now_ms: int) -> bool:
    """Hold a task back whose attempt ends, if its contract is disputed: the next worker would get
    the same contract. Whether it is; then the question has to stay open."""
    asked = tx.open_questions_of_task(swarm_id, task_id, OPEN_QUESTIONS_READ_MAX)
    if all(question.dispute is None for question in asked):
        return False
    put_hold(tx, _answer_hold(swarm_id, task_id, now_ms), now_ms)
    return True


def lift_answer_hold(tx: Transaction, swarm_id: str, task_id: str, now_ms: int) -> None:
    lift(tx, _answer_hold(swarm_id, task_id, now_ms), "its question was answered", now_ms)


def drop_answer_hold(tx: Transaction, swarm_id: str, task_id: str) -> None:
    """For a task that ends: its questions are withdrawn, and will not be answered."""
    tx.drop_hold(_answer_hold(swarm_id, task_id, 0))


def _answer_hold(swarm_id: str, task_id: str, since_ms: int) -> Hold:
    return Hold(swarm_id, task_id, "answer", WAITS_FOR_ANSWER, since_ms, None)


def expire(tx: Transaction, seen: Hold, now_ms: int) -> bool:
    """End an expired pause. False if it was extended or lifted in the meantime."""
    if tx.take_swarm(seen.swarm_id) is None:
        return False
    current = _hold_of(tx, seen)
    if current is None or current.until_ms is None or current.until_ms > now_ms:
        return False
    lift(tx, current, "its time is over", now_ms)
    return True


def lift(tx: Transaction, hold: Hold, how: str, now_ms: int) -> None:
    """Remove a hold and hand out the tasks that are ready now."""
    if tx.drop_hold(hold):
        _add_event(tx, hold, EventKind.DISPATCH_RESUMED, now_ms, how=how)
        drain(tx, hold.swarm_id, now_ms)


def _hold_of(tx: Transaction, like: Hold) -> Hold | None:
    key = (like.task_id, like.kind)
    holds = tx.holds_of_task(like.swarm_id, like.task_id)
    return next((hold for hold in holds if (hold.task_id, hold.kind) == key), None)


def _lock(tx: Transaction, swarm_id: str, task_id: str | None, now_ms: int) -> None:
    if task_id is None:
        take_swarm(tx, swarm_id, now_ms)
    else:
        take_task(tx, swarm_id, task_id)


def _add_event(tx: Transaction, hold: Hold, kind: EventKind, now_ms: int, **facts: object) -> None:
    task_id = None if hold.task_id == WHOLE_SWARM else hold.task_id
    tx.add_event(
        hold.swarm_id,
        kind,
        now_ms,
        {"bead_id": task_id, "kind": hold.kind, "reason": hold.reason, **facts},
        task_id=task_id,
    )
