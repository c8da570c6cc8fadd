"""Where an attempt stands that begins after another one, or whose claim was refused.

What CI says of the commit that was pushed decides: passed, it is claimed at once; failed, the work
goes on at FIXING_CI; still open, at PUSHED_TO_CI; nothing pushed, at WORKING.
"""

from __future__ import annotations

from collections.abc import Sequence

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.task_endings import fail_task
from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.contract.attempts import (
    attempt_of,
    claim_words,
    restarted,
    store_checkpoint,
)
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.protocol.states import WorkerState
from shiftboss.protocol.verdicts import Verdict
from shiftboss.rules.claims.handoffs import Handoff
from shiftboss.rules.contract.records import ContractAttempt, Tracking
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.permission_denials import DIAGNOSIS, RECOVERY, termination
from shiftboss.store.port import Transaction


def begin(tx: Transaction, held: Assignment, now_ms: int) -> None:
    """A worker has acknowledged a task. If it works on a repo of the policy, its clock starts."""
    handoff = tx.handoff(held.swarm_id, held.task_id)
    if handoff is None or handoff.repo_name is None:
        return
    former = tx.contract_attempt(held.swarm_id, held.task_id)
    tracking = tx.tracking(held.swarm_id, held.task_id)
    attempt = _first(held, former, tracking, now_ms)
    tx.put_contract_attempt(attempt)
    if tracking is not None:
        tx.put_tracking(tracking._replace(epoch=held.epoch))
    if tracking is not None and tracking.state != "failed":
        held = held._replace(state=WorkerState.VERIFYING, lease_expires_at_ms=None)
        tx.save_assignment(held)
        if tracking.state == "passed":
            claims.make_claim(tx, held, claim_words(tracking, attempt), None, now_ms)
    if former is None:
        store_checkpoint(tx, held, handoff, "milestone_transition", now_ms)


def _first(
    held: Assignment, former: ContractAttempt | None, tracking: Tracking | None, now_ms: int
) -> ContractAttempt:
    """Attempts to mend the CI are counted for the task, whoever makes them."""
    failed = tracking is not None and tracking.state == "failed"
    fix_attempts = former.fix_attempts if former else 0
    if failed and not (former and former.ci_failed):
        fix_attempts += 1
    fresh = ContractAttempt(held.swarm_id, held.task_id, held.epoch, now_ms)
    return restarted(fresh, now_ms)._replace(
        fix_attempts=fix_attempts,
        ci_failed=failed,
        progress=former.progress if former else None,
        last_commit_ms=former.last_commit_ms if former else None,
    )


def after_refusal(
    tx: Transaction, held: Assignment, handoff: Handoff, verdict: Verdict, now_ms: int
) -> Assignment:
    """`held` is at work again. Where CI alone was in the way, or nobody could look, the commit is
    followed on, and the server finishes when it has passed."""
    if handoff.repo_name is None:
        return held
    tracking = tx.tracking(held.swarm_id, held.task_id)
    attempt = restarted(attempt_of(tx, held), now_ms)
    tx.put_contract_attempt(attempt._replace(ci_failed=False))
    if tracking is None:
        return held
    if not _is_only_ci(verdict):
        tx.drop_tracking(held.swarm_id, held.task_id)
        return held
    if tracking.look_at_ms is None:
        tx.put_tracking(tracking._replace(state="waiting", look_at_ms=now_ms, pause_ms=0))
    return held._replace(state=WorkerState.VERIFYING, lease_expires_at_ms=None)


def _is_only_ci(verdict: Verdict) -> bool:
    """The work itself was found good, or was not looked at."""
    unseen = all(one.outcome == "unverifiable" for one in verdict.checks)
    return unseen or all(one.check == "ci" for one in verdict.violations)


# How the contract ends a worker that cannot finish: the task fails, a person is asked.


OPERATIONS_NAMED_MAX = 20


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
) -> int:
    """The question, whose answer the next worker of the task gets. The lock of the repo stays."""
    fail_task(tx, held, reason, now_ms, report_key=report_key)
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
    """A worker without permissions cannot finish, however often it tries. The question with the
    ways out, and the last words."""
    end = termination(tool, error)
    lines = [end.report, end.message]
    lines += [f"Attempted: {one}" for one in operations[:OPERATIONS_NAMED_MAX]]
    lines += [DIAGNOSIS, *(f"- {one.name}: {one.words}" for one in RECOVERY)]
    lines.append("Answer with the instructions for the next worker, then retry the task.")
    asked = end_worker(tx, held, handoff, end.report, "\n".join(lines), now_ms, report_key)
    return asked, end.message
