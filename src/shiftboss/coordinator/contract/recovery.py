"""How an attempt starts after an earlier one, continues after a refusal, or ends without success.

The CI of the pushed commit decides where a new attempt starts: if it passed, it is claimed at once;
if it failed, at FIXING_CI; if it is running, at PUSHED_TO_CI; without a push, at WORKING.
"""

from __future__ import annotations

from collections.abc import Sequence

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.task_endings import fail_task
from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.contract.attempts import (
    attempt_of,
    claim_content,
    restarted,
    store_checkpoint,
)
from shiftboss.coordinator.contract.ci import follow_commit
from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.records import ContractAttempt, Tracking
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.permission_denials import DIAGNOSIS, RECOVERY, termination
from shiftboss.store.port import Transaction

OPERATIONS_NAMED_MAX = 20


def first_state(tx: Transaction, held: Assignment) -> WorkerState:
    """The state in which an acknowledged attempt starts: the server continues to follow the CI of
    the last attempt's push."""
    handoff = tx.handoff(held.swarm_id, held.task_id)
    tracking = tx.tracking(held.swarm_id, held.task_id)
    follows = handoff is not None and handoff.repo_name is not None and tracking is not None
    if follows and tracking is not None and tracking.state != "failed":
        return WorkerState.VERIFYING
    return WorkerState.EXECUTING


def start_attempt(tx: Transaction, held: Assignment, now_ms: int) -> None:
    """Start the clock of an acknowledged task, if it works on a repo of the policy."""
    handoff = tx.handoff(held.swarm_id, held.task_id)
    if handoff is None or handoff.repo_name is None:
        return
    previous = tx.contract_attempt(held.swarm_id, held.task_id)
    tracking = tx.tracking(held.swarm_id, held.task_id)
    attempt = _new_attempt(held, previous, tracking, now_ms)
    tx.put_contract_attempt(attempt)
    if tracking is not None:
        tx.put_tracking(tracking._replace(epoch=held.epoch))
    if tracking is not None and tracking.state != "failed":
        held = held._replace(state=WorkerState.VERIFYING, lease_expires_at_ms=None)
        tx.save_assignment(held)
        if tracking.state == "passed":
            claims.make_claim(tx, held, claim_content(tracking, attempt), None, now_ms)
    if previous is None:
        store_checkpoint(tx, held, handoff, "milestone_transition", now_ms)


def _new_attempt(
    held: Assignment, previous: ContractAttempt | None, tracking: Tracking | None, now_ms: int
) -> ContractAttempt:
    """The record of the new attempt. Attempts to fix the CI are counted per task."""
    failed = tracking is not None and tracking.state == "failed"
    fix_attempts = previous.fix_attempts if previous else 0
    if failed and not (previous and previous.ci_failed):
        fix_attempts += 1
    fresh = ContractAttempt(held.swarm_id, held.task_id, held.epoch, now_ms)
    return restarted(fresh, now_ms)._replace(
        fix_attempts=fix_attempts,
        ci_failed=failed,
        progress=previous.progress if previous else None,
        last_commit_ms=previous.last_commit_ms if previous else None,
    )


def after_refusal(
    tx: Transaction, held: Assignment, handoff: Handoff, verdict: Verdict, now_ms: int
) -> Assignment:
    """`held` continues after a refusal. If only CI was at fault, or nothing could be verified, the
    server follows the commit, also if its worker claimed without reporting the push, and claims
    again when CI has passed."""
    if handoff.repo_name is None:
        return held
    tracking = tx.tracking(held.swarm_id, held.task_id)
    attempt = restarted(attempt_of(tx, held), now_ms)
    tx.put_contract_attempt(attempt._replace(ci_failed=False))
    if not _is_only_ci(verdict):
        tx.drop_tracking(held.swarm_id, held.task_id)
        return held
    if tracking is None:
        if verdict.commit is None or handoff.ci is None:
            return held
        follow_commit(tx, held, handoff, handoff.repo_name, verdict.commit, now_ms)
    elif tracking.look_at_ms is None:
        tx.put_tracking(tracking._replace(state="waiting", look_at_ms=now_ms, pause_ms=0))
    return held._replace(state=WorkerState.VERIFYING, lease_expires_at_ms=None)


def _is_only_ci(verdict: Verdict) -> bool:
    """Whether only CI was at fault, or nothing could be verified."""
    unverifiable = all(check.outcome == "unverifiable" for check in verdict.checks)
    return unverifiable or all(violation.check == "ci" for violation in verdict.violations)


def contact_of(handoff: Handoff) -> str:
    return WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact


def end_worker(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    reason: str,
    question: str,
    now_ms: int,
    report_key: bytes | None = None,
    *,
    counts: bool = True,
) -> int:
    """Fail the task and ask the contact; the next worker gets the answer. The repo stays locked."""
    fail_task(tx, held, reason, now_ms, counts=counts, report_key=report_key)
    return questions.note(tx, held, contact_of(handoff), question, now_ms)


def end_for_permission(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    tool: str,
    error: str,
    operations: Sequence[str],
    now_ms: int,
    report_key: bytes | None = None,
) -> tuple[int, str]:
    """End an attempt that lacks permissions, and ask the contact with the possible solutions; the
    id of the question, and the message for the worker."""
    end = termination(tool, error)
    lines = [end.report, end.message]
    lines += [f"Attempted: {operation}" for operation in operations[:OPERATIONS_NAMED_MAX]]
    lines += [DIAGNOSIS, *(f"- {option.name}: {option.words}" for option in RECOVERY)]
    lines.append("Answer with the instructions for the next worker, then retry the task.")
    asked = end_worker(
        tx, held, handoff, end.report, "\n".join(lines), now_ms, report_key, counts=False
    )
    return asked, end.message
