"""Use case of milestones: a worker reports its progress.

A report moves the state of its attempt. With PUSHED_TO_CI the server takes over: it follows the CI
of the commit, no lease runs, and the worker may leave. DONE is a claim.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.contract.attempts import (
    add_attempt_event,
    amend_checkpoint,
    attempt_of,
    check_returns,
    ci_view,
    milestone_of,
    restarted,
    store_checkpoint,
    with_report,
)
from shiftboss.coordinator.contract.cascade import check_may_push
from shiftboss.coordinator.contract.ci import follow_push
from shiftboss.coordinator.contract.done_reports import claim_done
from shiftboss.coordinator.contract.failures import denied_operations
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.recovery import contact_of, end_for_permission
from shiftboss.coordinator.idempotency import first_about, key_reused, report_digest
from shiftboss.errors import IllegalTransition, InvalidRequest, UnknownHandoff
from shiftboss.protocol.contract.contract_requests import MilestoneAnswer, ReportMilestoneRequest
from shiftboss.protocol.contract.milestone_lines import render_line
from shiftboss.protocol.contract.milestones import (
    Blocked,
    BlockedPermission,
    Done,
    FixingCi,
    MilestoneReport,
    PushedToCi,
    milestone_of_report,
    progress_of,
)
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.policy import Milestone
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.contract.checkpoints import WorkSinceBase
from shiftboss.rules.contract.milestones import (
    check_may_read_ci,
    check_report_order,
    state_of,
)
from shiftboss.rules.contract.records import ContractAttempt
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import check_holds
from shiftboss.store.bus.port import TakenTask
from shiftboss.store.port import Transaction

# The event that a report leads to.
_EVENTS: Final = {
    Done: EventKind.CLAIM_MADE,
    Blocked: EventKind.QUESTION_ASKED,
    BlockedPermission: EventKind.TASK_FAILED,
}


class GitFacts(NamedTuple):
    """The work on the task in git at the time of a report. `sha` is the full hash of a pushed
    commit; None if the repository does not have it. `work` is None if it is not known."""

    sha: str | None = None
    work: WorkSinceBase | None = None


def record_report(
    tx: Transaction,
    policy: ActivePolicy,
    request: ReportMilestoneRequest,
    report: MilestoneReport,
    git: GitFacts,
    key: str | None,
    now_ms: int,
) -> MilestoneAnswer | Claim:
    answer = _recorded(tx, policy, request, report, git, key, now_ms)
    if git.work is not None or request.decisions:
        key_of_task = request.swarm_id, request.bead_id
        amend_checkpoint(tx, *key_of_task, work=git.work, decisions=request.decisions)
    return answer


def _recorded(
    tx: Transaction,
    policy: ActivePolicy,
    request: ReportMilestoneRequest,
    report: MilestoneReport,
    git: GitFacts,
    key: str | None,
    now_ms: int,
) -> MilestoneAnswer | Claim:
    taken, handoff = _take_task(tx, request)
    _check_repo(handoff, report)
    check_returns(report, request.returns)
    report_key = report_digest("milestone", key)
    first = first_about(
        tx, request.swarm_id, request.bead_id, report_key, request.name, request.epoch
    )
    if first is not None:
        return _repeat_answer(tx, taken, first, report)
    if isinstance(report, Done):
        return claim_done(tx, taken, handoff, request, report, report_key, now_ms)
    held = check_holds(taken.assignment, request.bead_id, request.name, request.epoch)
    if held.claim_id is not None:
        raise IllegalTransition(
            f"claim {held.claim_id} of {held.task_id} is being verified; nothing was changed",
            field="report",
            hint="wait for the verdict",
        )
    if isinstance(report, BlockedPermission):
        return _ended_by_permission(tx, held, handoff, report, report_key, now_ms)
    attempt = attempt_of(tx, held)
    check_report_order(milestone_of(held, attempt), milestone_of_report(report))
    if isinstance(report, Blocked):
        return _blocked(tx, held, handoff, attempt, report, report_key, now_ms)
    if isinstance(report, PushedToCi):
        check_may_push(tx, policy, handoff.repo_name)
        held, attempt = follow_push(tx, held, handoff, attempt, report, git.sha, now_ms)
    else:
        held, attempt = _working(tx, held, attempt, report, now_ms)
    attempt = with_report(attempt, report, request.returns)
    return _record(tx, held, handoff, attempt, report, report_key, now_ms)


def check_has_pushed(tx: Transaction, swarm_id: str, task_id: str) -> None:
    """Refuse what a worker needs only after its push. An ended attempt is in the checkpoint."""
    held = tx.assignment(swarm_id, task_id)
    stored = tx.checkpoint(swarm_id, task_id)
    recorded: Milestone | None = json.loads(stored.body)["current_milestone"] if stored else None
    present = milestone_of(held, attempt_of(tx, held)) if held is not None else recorded
    has_pushed = tx.tracking(swarm_id, task_id) is not None
    check_may_read_ci(task_id, present, has_pushed=has_pushed)


def _take_task(tx: Transaction, request: ReportMilestoneRequest) -> tuple[TakenTask, Handoff]:
    taken = tx.take_task(request.swarm_id, request.bead_id)
    handoff = tx.handoff(request.swarm_id, request.bead_id)
    if taken is None or handoff is None:
        raise UnknownHandoff(request.bead_id)
    return taken, handoff


def _check_repo(handoff: Handoff, report: MilestoneReport) -> None:
    if not isinstance(report, PushedToCi | Done) or handoff.repo_name is None:
        return
    if report.repo != handoff.repo_name:
        raise InvalidRequest(
            f"repo: {handoff.task_id} works on {handoff.repo_name}, not on {report.repo}",
            field="repo",
        )


def _repeat_answer(
    tx: Transaction, taken: TakenTask, first: Event, report: MilestoneReport
) -> MilestoneAnswer | Claim:
    """A repeated report changes nothing and gets the current state."""
    line = render_line(report)
    data = json.loads(first.data)
    expected = _EVENTS.get(type(report), EventKind.MILESTONE_REPORTED)
    if first.kind != expected.value or data.get("line", line) != line:
        raise key_reused()
    task_id: str = data["bead_id"]
    if isinstance(report, Done):
        claim = tx.claim(first.swarm_id, task_id, data["claim_id"])
        assert claim is not None, "a claim outlives its event"
        return claim
    held = taken.assignment
    if held is None or held.epoch != data["epoch"]:
        return MilestoneAnswer(
            bead_id=task_id,
            status="recorded",
            milestone=milestone_of_report(report),
            line=line,
            state=WorkerState.FAILED.value if taken.task is None else taken.task.status,
            epoch=data["epoch"],
        )
    return _answer(tx, held, attempt_of(tx, held), report, question_id=data.get("question_id"))


def _record(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    attempt: ContractAttempt,
    report: MilestoneReport,
    report_key: bytes | None,
    now_ms: int,
) -> MilestoneAnswer:
    tx.put_contract_attempt(attempt)
    add_attempt_event(
        tx,
        held,
        EventKind.MILESTONE_REPORTED,
        now_ms,
        report_key,
        milestone=milestone_of(held, attempt),
        line=render_line(report),
        progress=progress_of(report),
        state=held.state.value,
    )
    trigger = "commit_pushed" if isinstance(report, PushedToCi) else "milestone_transition"
    store_checkpoint(tx, held, handoff, trigger, now_ms)
    return _answer(tx, held, attempt, report)


def _working(
    tx: Transaction,
    held: Assignment,
    attempt: ContractAttempt,
    report: MilestoneReport,
    now_ms: int,
) -> tuple[Assignment, ContractAttempt]:
    """WORKING or FIXING_CI: renew the lease."""
    before = milestone_of(held, attempt)
    state = state_of(milestone_of_report(report))
    after = held._replace(
        state=state,
        updated_at_ms=now_ms,
        lease_expires_at_ms=lease_end_ms(held, state, now_ms),
    )
    tx.save_assignment(after)
    tx.mark_answers_delivered(held.swarm_id, held.task_id, held.epoch)
    if isinstance(report, FixingCi) and not attempt.ci_failed:
        attempt = attempt._replace(ci_failed=True, fix_attempts=attempt.fix_attempts + 1)
        tx.drop_tracking(held.swarm_id, held.task_id)
    new = before != milestone_of(after, attempt)
    return after, restarted(attempt, now_ms) if new else attempt


def _blocked(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    attempt: ContractAttempt,
    report: Blocked,
    report_key: bytes | None,
    now_ms: int,
) -> MilestoneAnswer:
    attempt = attempt._replace(progress=report.model_dump_json())
    tx.put_contract_attempt(attempt)
    asked = questions.ask(tx, held, contact_of(handoff), report.reason, now_ms, report_key)
    after = tx.assignment(held.swarm_id, held.task_id)
    assert after is not None, "a worker that asks holds the task"
    store_checkpoint(tx, after, handoff, "milestone_transition", now_ms)
    return _answer(tx, after, attempt, report, question_id=asked)


def _ended_by_permission(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    report: BlockedPermission,
    report_key: bytes | None,
    now_ms: int,
) -> MilestoneAnswer:
    denied = denied_operations(attempt_of(tx, held), report.tool)
    operations = list(dict.fromkeys([*denied, *report.operations]))
    asked, message = end_for_permission(
        tx, held, handoff, report.tool, report.error, operations, now_ms, report_key
    )
    return MilestoneAnswer(
        bead_id=held.task_id,
        status="recorded",
        milestone="BLOCKED",
        line=render_line(report),
        state=WorkerState.FAILED.value,
        epoch=held.epoch,
        question_id=asked,
        hint=message,
    )


def _answer(
    tx: Transaction,
    held: Assignment,
    attempt: ContractAttempt,
    report: MilestoneReport,
    *,
    question_id: int | None = None,
) -> MilestoneAnswer:
    return MilestoneAnswer(
        bead_id=held.task_id,
        status="recorded",
        milestone=milestone_of(held, attempt),
        line=render_line(report),
        state=held.state.value,
        epoch=held.epoch,
        progress=progress_of(report),
        lease_expires_at=held.lease_expires_at_ms,
        ci=ci_view(tx.tracking(held.swarm_id, held.task_id)),
        paused=attempt.paused,
        question_id=question_id,
        hint=_hint(held, report),
    )


def _hint(held: Assignment, report: MilestoneReport) -> str | None:
    if isinstance(report, PushedToCi):
        return f"the server watches CI; get_ci_instructions(bead_id={json.dumps(held.task_id)})"
    return None
