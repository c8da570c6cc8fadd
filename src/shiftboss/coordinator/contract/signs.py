"""Between the rungs of the ladder: the periodic checkpoint, and the signs of a deadlock."""

from __future__ import annotations

import json
from typing import Final

from shiftboss.coordinator.contract.attempts import milestone_of, store_checkpoint, tell
from shiftboss.coordinator.contract.contracts import Contracts
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.policy import Milestone
from shiftboss.rules.claims.handoffs import Handoff
from shiftboss.rules.contract.records import ContractAttempt
from shiftboss.rules.contract.timeouts import Signs, Step, indicators
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction

STUCK_AFTER_SECONDS: Final = 600
_NEVER_MS: Final = 2**53


def stuck_after_of(contracts: Contracts, handoff: Handoff) -> int:
    name = handoff.repo_name
    if name is None or name not in contracts:
        return STUCK_AFTER_SECONDS
    return contracts.repo(name).ci.stuck_after


def rest(
    tx: Transaction,
    contracts: Contracts,
    held: Assignment,
    handoff: Handoff,
    attempt: ContractAttempt,
    step: Step | None,
    now_ms: int,
) -> None:
    """No rung is due: the checkpoint and the signs of a deadlock, and when to look again."""
    milestone = milestone_of(held, attempt)
    times = [step.at_ms] if step is not None else []
    if milestone is not None and attempt.paused is None and held.claim_id is None:
        attempt = _with_signs(tx, contracts, held, handoff, attempt, milestone, now_ms)
        times.append(_after(attempt, contracts.policy.deadlock.check_interval, now_ms))
        times.append(_checkpoint(tx, contracts, held, handoff, now_ms))
    look_at_ms = min(times, default=_NEVER_MS)
    tx.put_contract_attempt(
        attempt._replace(look_at_ms=look_at_ms if look_at_ms < _NEVER_MS else None)
    )


def _after(attempt: ContractAttempt, interval_seconds: int, now_ms: int) -> int:
    """The next of the times that lie an interval apart, from the beginning of the milestone."""
    interval_ms = max(interval_seconds, 1) * 1000
    passed = max(now_ms - attempt.milestone_at_ms, 0) // interval_ms
    return attempt.milestone_at_ms + (passed + 1) * interval_ms


def _checkpoint(
    tx: Transaction, contracts: Contracts, held: Assignment, handoff: Handoff, now_ms: int
) -> int:
    """Write it down if the last one is old; when the next is due."""
    interval_ms = max(contracts.policy.checkpoints.interval, 1) * 1000
    last = tx.checkpoint(held.swarm_id, held.task_id)
    if last is not None and last.epoch == held.epoch and now_ms < last.at_ms + interval_ms:
        return last.at_ms + interval_ms
    store_checkpoint(tx, held, handoff, "periodic_interval", now_ms)
    return now_ms + interval_ms


def _with_signs(
    tx: Transaction,
    contracts: Contracts,
    held: Assignment,
    handoff: Handoff,
    attempt: ContractAttempt,
    milestone: Milestone,
    now_ms: int,
) -> ContractAttempt:
    """Each sign of a deadlock is told once in a milestone."""
    tracking = tx.tracking(held.swarm_id, held.task_id)
    waits = tracking is not None and tracking.state == "waiting"
    signs = Signs(
        milestone=milestone,
        since_ms=attempt.milestone_at_ms,
        last_activity_ms=held.updated_at_ms,
        last_commit_ms=attempt.last_commit_ms,
        ci_waiting_since_ms=tracking.pushed_at_ms if tracking is not None and waits else None,
        api_errors=tracking.errors if tracking is not None else 0,
    )
    stuck_after = stuck_after_of(contracts, handoff)
    found = indicators(signs, now_ms, contracts.policy.deadlock, stuck_after_seconds=stuck_after)
    told: list[str] = json.loads(attempt.signs) if attempt.signs else []
    new = [one for one in found if one.kind not in told]
    if not new:
        return attempt
    tell(
        tx,
        held,
        EventKind.DEADLOCK_SUSPECTED,
        now_ms,
        milestone=milestone,
        signs=[{"sign": one.kind, "message": one.message} for one in new],
    )
    return attempt._replace(signs=json.dumps([*told, *(one.kind for one in new)]))
