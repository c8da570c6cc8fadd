"""What is held back from being handed out, and how that begins and ends."""

from __future__ import annotations

from shiftboss.coordinator.bus.dispatch import drain, take_swarm, take_task
from shiftboss.errors import WorkPaused
from shiftboss.protocol.bus import HoldView
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.runs import PauseAnswer, PauseSwarmRequest, ResumeSwarmRequest
from shiftboss.rules.runs.records import WHOLE_SWARM, Hold, longer
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.port import Transaction

HOLDS_SHOWN_MAX = 100


def is_held(tx: Transaction, task: Task) -> bool:
    return bool(tx.holds_of_task(task.swarm_id, task.task_id))


def check_not_held(tx: Transaction, task: Task) -> None:
    found = tx.holds_of_task(task.swarm_id, task.task_id)
    if found:
        raise WorkPaused(
            f"{task.task_id} is held back: {found[0].reason}; nothing was changed",
            field="task_id",
            hint="`shiftboss status` shows until when; the operator resumes or raises the budget",
        )


def budget_pause(tx: Transaction, swarm_id: str, task_id: str) -> str | None:
    """Why who works on the task has to stop. Of a pause it need not: it holds back what is not
    handed out yet."""
    found = tx.holds_of_task(swarm_id, task_id)
    return "; ".join(one.reason for one in found if one.kind == "budget") or None


def view(hold: Hold) -> HoldView:
    return HoldView(
        kind=hold.kind,
        bead_id=None if hold.task_id == WHOLE_SWARM else hold.task_id,
        reason=hold.reason,
        since=hold.since_ms,
        until=hold.until_ms,
    )


def shown(tx: Transaction, swarm_id: str) -> list[HoldView]:
    return [view(one) for one in tx.holds_of_swarm(swarm_id, HOLDS_SHOWN_MAX)]


def pause(tx: Transaction, request: PauseSwarmRequest, now_ms: int) -> PauseAnswer:
    """Several may run into one quota: the longer pause counts."""
    _take(tx, request.swarm_id, request.bead_id, now_ms)
    task_id = request.bead_id or WHOLE_SWARM
    wanted = Hold(request.swarm_id, task_id, "pause", request.reason, now_ms, request.until_ms)
    changed = put_pause(tx, wanted, now_ms)
    return PauseAnswer(success=True, changed=changed, paused=view(_pause_of(tx, wanted) or wanted))


def put_pause(tx: Transaction, wanted: Hold, now_ms: int) -> bool:
    known = _pause_of(tx, wanted)
    after = longer(known, wanted)
    if after == known:
        return False
    tx.put_hold(after)
    _tell(tx, after, EventKind.DISPATCH_PAUSED, now_ms, until=after.until_ms)
    return True


def resume(tx: Transaction, request: ResumeSwarmRequest, now_ms: int) -> PauseAnswer:
    """Doing it again changes nothing. What a budget holds back stays where it is."""
    _take(tx, request.swarm_id, request.bead_id, now_ms)
    task_id = request.bead_id or WHOLE_SWARM
    known = _pause_of(tx, Hold(request.swarm_id, task_id, "pause", "", now_ms, None))
    if known is not None:
        lift(tx, known, "by the operator", now_ms)
    return PauseAnswer(success=True, changed=known is not None, paused=None)


def end(tx: Transaction, seen: Hold, now_ms: int) -> bool:
    """Its time is over. False when it was made longer or lifted meanwhile."""
    if tx.take_swarm(seen.swarm_id) is None:
        return False
    known = _pause_of(tx, seen)
    if known is None or known.until_ms is None or known.until_ms > now_ms:
        return False
    lift(tx, known, "its time is over", now_ms)
    return True


def lift(tx: Transaction, hold: Hold, how: str, now_ms: int) -> None:
    """Nothing holds it any more for this reason: what can be handed out is."""
    if tx.drop_hold(hold):
        _tell(tx, hold, EventKind.DISPATCH_RESUMED, now_ms, how=how)
        drain(tx, hold.swarm_id, now_ms)


def _pause_of(tx: Transaction, like: Hold) -> Hold | None:
    found = tx.holds_of_task(like.swarm_id, like.task_id)
    return next((one for one in found if (one.task_id, one.kind) == (like.task_id, "pause")), None)


def _take(tx: Transaction, swarm_id: str, task_id: str | None, now_ms: int) -> None:
    if task_id is None:
        take_swarm(tx, swarm_id, now_ms)
    else:
        take_task(tx, swarm_id, task_id)


def _tell(tx: Transaction, hold: Hold, kind: EventKind, now_ms: int, **facts: object) -> None:
    task_id = None if hold.task_id == WHOLE_SWARM else hold.task_id
    tx.add_event(
        hold.swarm_id,
        kind,
        now_ms,
        {"bead_id": task_id, "kind": hold.kind, "reason": hold.reason, **facts},
        task_id=task_id,
    )
