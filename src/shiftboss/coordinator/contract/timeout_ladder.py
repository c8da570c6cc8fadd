"""The timeout ladder: warn, probe, extend, restart CI, park, salvage, reassign.

An attempt is checked when a step is due, and every few minutes in between: for its checkpoint, and
for signs of a deadlock.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Final, TypeGuard

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.dispatch import drain, end_attempt, enqueue, free_worker
from shiftboss.coordinator.contract import ci_restarts
from shiftboss.coordinator.contract.attempts import (
    add_attempt_event,
    amend_checkpoint,
    attempt_of,
    milestone_of,
    store_checkpoint,
)
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.recovery import contact_of
from shiftboss.protocol.ci import CiReport
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.policy import Milestone
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.checkpoints import WorkSinceBase
from shiftboss.rules.contract.records import ContractAttempt, Tracking
from shiftboss.rules.contract.timeouts import (
    Activity,
    CiActivity,
    LadderStep,
    StallSigns,
    next_step,
    stall_indicators,
)
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction

STUCK_AFTER_SECONDS: Final = 600
_NEVER_MS: Final = 2**53


def stuck_after_of(policy: ActivePolicy, handoff: Handoff) -> int:
    name = handoff.repo_name
    if name is None or name not in policy:
        return STUCK_AFTER_SECONDS
    return policy.repo(name).ci.stuck_after


def _check_between_steps(
    tx: Transaction,
    policy: ActivePolicy,
    held: Assignment,
    handoff: Handoff,
    attempt: ContractAttempt,
    step: LadderStep | None,
    now_ms: int,
) -> None:
    """No step is due: store a checkpoint, look for signs of a deadlock, and set the next check."""
    milestone = milestone_of(held, attempt)
    times = [step.at_ms] if step is not None else []
    if milestone is not None and attempt.paused is None and held.claim_id is None:
        attempt = _report_signs(tx, policy, held, handoff, attempt, milestone, now_ms)
        times.append(_next_interval(attempt, policy.settings.deadlock.check_interval, now_ms))
        times.append(_checkpoint(tx, policy, held, handoff, now_ms))
    look_at_ms = min(times, default=_NEVER_MS)
    tx.put_contract_attempt(
        attempt._replace(look_at_ms=look_at_ms if look_at_ms < _NEVER_MS else None)
    )


def _next_interval(attempt: ContractAttempt, interval_seconds: int, now_ms: int) -> int:
    """The next multiple of the interval after the start of the milestone."""
    interval_ms = max(interval_seconds, 1) * 1000
    passed = max(now_ms - attempt.milestone_at_ms, 0) // interval_ms
    return attempt.milestone_at_ms + (passed + 1) * interval_ms


def _checkpoint(
    tx: Transaction, policy: ActivePolicy, held: Assignment, handoff: Handoff, now_ms: int
) -> int:
    """Store a checkpoint if the last one is old; when the next is due."""
    interval_ms = max(policy.settings.checkpoints.interval, 1) * 1000
    last = tx.checkpoint(held.swarm_id, held.task_id)
    if last is not None and last.epoch == held.epoch and now_ms < last.at_ms + interval_ms:
        return last.at_ms + interval_ms
    store_checkpoint(tx, held, handoff, "periodic_interval", now_ms)
    return now_ms + interval_ms


def _report_signs(
    tx: Transaction,
    policy: ActivePolicy,
    held: Assignment,
    handoff: Handoff,
    attempt: ContractAttempt,
    milestone: Milestone,
    now_ms: int,
) -> ContractAttempt:
    """Report new signs of a deadlock. Each is reported once per milestone."""
    tracking = tx.tracking(held.swarm_id, held.task_id)
    waits = tracking is not None and tracking.state == "waiting"
    signs = StallSigns(
        milestone=milestone,
        since_ms=attempt.milestone_at_ms,
        last_activity_ms=held.updated_at_ms,
        last_commit_ms=attempt.last_commit_ms,
        ci_waiting_since_ms=tracking.pushed_at_ms if tracking is not None and waits else None,
        api_errors=tracking.errors if tracking is not None else 0,
    )
    stuck_after = stuck_after_of(policy, handoff)
    present = stall_indicators(
        signs, now_ms, policy.settings.deadlock, stuck_after_seconds=stuck_after
    )
    reported: list[str] = json.loads(attempt.signs) if attempt.signs else []
    new = [sign for sign in present if sign.kind not in reported]
    if not new:
        return attempt
    add_attempt_event(
        tx,
        held,
        EventKind.DEADLOCK_SUSPECTED,
        now_ms,
        milestone=milestone,
        signs=[{"sign": sign.kind, "message": sign.message} for sign in new],
    )
    return attempt._replace(signs=json.dumps([*reported, *(sign.kind for sign in new)]))


# More steps are never due at once.
STEPS_AT_ONCE_MAX = 6
# How long CI has to respond, or to be restarted, before the ladder continues.
_PAUSES_MS: Final = {"check_ci": 10_000, "restart_ci": ci_restarts.RESTART_MS}


def climb(
    tx: Transaction,
    policy: ActivePolicy,
    seen: ContractAttempt,
    tip: str | None,
    work: WorkSinceBase | None,
    now_ms: int,
) -> list[str]:
    """Take the steps that are due for one attempt; their kinds. `tip` is the current commit of the
    task's branch. `work` is what it contains, if the branch has moved since the last check."""
    if tx.take_swarm(seen.swarm_id) is None:
        return []
    if work is not None:
        amend_checkpoint(tx, seen.swarm_id, seen.task_id, work=work)
    taken: list[str] = []
    for _ in range(STEPS_AT_ONCE_MAX):
        held = tx.assignment(seen.swarm_id, seen.task_id)
        handoff = tx.handoff(seen.swarm_id, seen.task_id)
        if held is None or not _is_timed(handoff) or held.epoch != seen.epoch:
            _stop_checking(tx, seen)
            return taken
        attempt = _with_tip(attempt_of(tx, held), tip, now_ms)
        step = _due(tx, policy, held, handoff, attempt, now_ms)
        if step is None or step.kind == "none":
            _check_between_steps(tx, policy, held, handoff, attempt, step, now_ms)
            return taken
        taken.append(step.kind)
        ladder = json.dumps(asdict(step.then))
        pause_ms = _PAUSES_MS.get(step.kind, 0)
        tx.put_contract_attempt(attempt._replace(ladder=ladder, look_at_ms=now_ms + pause_ms))
        _take_step(tx, held, handoff, step, now_ms)
        if pause_ms:
            return taken
    return taken


def _is_timed(handoff: Handoff | None) -> TypeGuard[Handoff]:
    """Only tasks on repos of the policy are timed."""
    return handoff is not None and handoff.repo_name is not None


def _stop_checking(tx: Transaction, seen: ContractAttempt) -> None:
    """The attempt has ended: stop checking it. Its record stays for the next attempt's count."""
    current = tx.contract_attempt(seen.swarm_id, seen.task_id)
    if current is not None and current.epoch == seen.epoch:
        tx.put_contract_attempt(current._replace(look_at_ms=None))


def _with_tip(attempt: ContractAttempt, tip: str | None, now_ms: int) -> ContractAttempt:
    """A branch that has moved since the last check shows that the worker is active."""
    if tip is None or tip == attempt.tip:
        return attempt
    moved = attempt.tip is not None
    return attempt._replace(tip=tip, last_commit_ms=now_ms if moved else attempt.last_commit_ms)


def _due(
    tx: Transaction,
    policy: ActivePolicy,
    held: Assignment,
    handoff: Handoff,
    attempt: ContractAttempt,
    now_ms: int,
) -> LadderStep | None:
    """The step that is due; None if nothing is timed. Verification does not count as the worker's
    time."""
    milestone = milestone_of(held, attempt)
    if milestone is None or attempt.paused is not None:
        return None
    tracking = tx.tracking(held.swarm_id, held.task_id)
    ladder = ci_restarts.ladder_of(attempt)
    stuck_after = stuck_after_of(policy, handoff)
    activity = Activity(
        last_activity_ms=held.updated_at_ms,
        last_commit_ms=attempt.last_commit_ms,
        ci_state=_ci_activity(tracking, ladder.ci_restarted_at_ms, stuck_after, now_ms),
        attempts=max(attempt.fix_attempts, 1),
        server_holds=held.claim_id is not None,
        worker_since_ms=held.registered_at_ms,
        ci_mark=ci_restarts.mark_of(tracking),
    )
    return next_step(
        milestone,
        attempt.milestone_at_ms,
        now_ms,
        activity,
        policy.settings.timeouts,
        ladder,
    )


def _ci_activity(
    tracking: Tracking | None, restarted_at_ms: int | None, stuck_after_seconds: int, now_ms: int
) -> CiActivity:
    if tracking is None:
        return "none"
    if tracking.state in ("passed", "failed"):
        return "passed" if tracking.state == "passed" else "failed"
    since_ms = max(tracking.pushed_at_ms, restarted_at_ms or 0)
    if tracking.state == "waiting" and now_ms - since_ms > stuck_after_seconds * 1000:
        return "stuck" if tracking.run_id else "none"
    return "running"


def _take_step(
    tx: Transaction, held: Assignment, handoff: Handoff, step: LadderStep, now_ms: int
) -> None:
    kinds = {
        "warn": EventKind.TIMEOUT_WARNING,
        "escalate": EventKind.TIMEOUT_ESCALATED,
    }
    kind = kinds.get(step.kind, EventKind.TIMEOUT_STEP)
    add_attempt_event(tx, held, kind, now_ms, step=step.kind, message=step.message)
    if step.kind == "check_ci":
        _check_ci_now(tx, held, now_ms)
    elif step.kind == "salvage":
        store_checkpoint(tx, held, handoff, "salvage", now_ms)
    elif step.kind == "reassign":
        _reassign(tx, held, now_ms)
    elif step.kind == "escalate" and held.state is not WorkerState.BLOCKED:
        _escalate(tx, held, handoff, step, now_ms)


def _escalate(
    tx: Transaction, held: Assignment, handoff: Handoff, step: LadderStep, now_ms: int
) -> None:
    """Ask the contact, once per step. The last step of the ladder blocks the worker until the
    question is answered; earlier ones let it, or its CI, continue."""
    contact = contact_of(handoff)
    if step.then.ended:
        milestone = milestone_of(held, attempt_of(tx, held))
        message = f"Worker {held.worker} timed out in {milestone}: {step.message}"
        questions.ask(tx, held, contact, message, now_ms)
    else:
        run = _run_reference(tx, held) if step.then.told_of_ci else ""
        message = f"{held.task_id} of {held.worker} is taking long: {step.message}{run}"
        questions.note(tx, held, contact, message, now_ms)


def _run_reference(tx: Transaction, held: Assignment) -> str:
    """The run of the CI, for a person who has to act on it."""
    tracking = tx.tracking(held.swarm_id, held.task_id)
    if tracking is None or tracking.run_id is None or tracking.report is None:
        return ""
    run = CiReport.model_validate_json(tracking.report).runs[0]
    return f" (run #{run.run_id}{f', {run.url}' if run.url else ''})"


def _check_ci_now(tx: Transaction, held: Assignment, now_ms: int) -> None:
    tracking = tx.tracking(held.swarm_id, held.task_id)
    if tracking is not None and tracking.look_at_ms is not None and not tracking.errors:
        tx.put_tracking(tracking._replace(look_at_ms=min(tracking.look_at_ms, now_ms)))


def _reassign(tx: Transaction, held: Assignment, now_ms: int) -> None:
    """End the attempt; another worker continues from the checkpoint."""
    task = tx.task(held.swarm_id, held.task_id)
    if task is None:
        return
    end_attempt(tx, held, "timed_out", now_ms)
    free_worker(tx, held, now_ms, available=False)
    enqueue(tx, task, now_ms)
    drain(tx, held.swarm_id, now_ms)
