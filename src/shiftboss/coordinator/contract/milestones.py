"""Use case of milestones: a worker reports its progress.

A report moves the state of its attempt. With PUSHED_TO_CI the server takes over: it follows the CI
of the commit, no lease runs, and the worker may leave. DONE is a claim.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.contract.attempts import (
    add_attempt_event,
    attempt_of,
    check_returns,
    ci_view,
    claim_content,
    keep_returns,
    milestone_of,
    restarted,
    store_checkpoint,
    with_report,
)
from shiftboss.coordinator.contract.cascade import check_may_push
from shiftboss.coordinator.contract.ci import follow_push, refuse_unless_green
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.recovery import contact_of, end_for_permission
from shiftboss.coordinator.idempotency import first_about, key_reused, report_digest
from shiftboss.errors import IllegalTransition, InvalidRequest, UnknownHandoff
from shiftboss.protocol.ci import CiDemand, CiReport, CiRun
from shiftboss.protocol.contract_requests import MilestoneAnswer, ReportMilestoneRequest
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.milestone_lines import render_line
from shiftboss.protocol.milestones import (
    Blocked,
    BlockedPermission,
    Done,
    FixingCi,
    MilestoneReport,
    PushedToCi,
    milestone_of_report,
    progress_of,
)
from shiftboss.protocol.states import WorkerState
from shiftboss.protocol.verdicts import Verdict
from shiftboss.rules.claims.handoffs import Claim, Handoff
from shiftboss.rules.contract.ci_verdict import runs_of_commit
from shiftboss.rules.contract.milestones import (
    RunName,
    check_done_report,
    check_named_run,
    check_report_order,
    state_of,
)
from shiftboss.rules.contract.records import ContractAttempt
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import check_holds
from shiftboss.store.port import TakenTask, Transaction

# The event that a report leads to.
_EVENTS: Final = {
    Done: EventKind.CLAIM_MADE,
    Blocked: EventKind.QUESTION_ASKED,
    BlockedPermission: EventKind.TASK_FAILED,
}


def record_report(
    tx: Transaction,
    policy: ActivePolicy,
    request: ReportMilestoneRequest,
    report: MilestoneReport,
    sha: str | None,
    key: str | None,
    now_ms: int,
) -> MilestoneAnswer | Claim:
    """`sha` is the full hash of a pushed commit; None if the repository does not have it."""
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
        return _done(tx, taken, handoff, request, report, report_key, now_ms)
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
        held, attempt = follow_push(tx, held, handoff, attempt, report, sha, now_ms)
    else:
        held, attempt = _working(tx, held, attempt, report, now_ms)
    attempt = with_report(attempt, report, request.returns)
    return _record(tx, held, handoff, attempt, report, report_key, now_ms)


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
    asked, message = end_for_permission(
        tx, held, handoff, report.tool, report.error, [], now_ms, report_key
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


def _done(
    tx: Transaction,
    taken: TakenTask,
    handoff: Handoff,
    request: ReportMilestoneRequest,
    report: Done,
    report_key: bytes | None,
    now_ms: int,
) -> Claim:
    """The report must be complete, and CI must not be known to be red; then the verifier decides.
    The server may have claimed before, and the claim may have been accepted."""
    demand = CiDemand.model_validate_json(handoff.ci) if handoff.ci else None
    check_done_report(report, (demand.policy.must_succeed if demand else None) or [])
    accepted = _accepted_claim(tx, taken, request)
    if accepted is not None:
        assert accepted.verdict is not None, "an accepted claim has its verdict"
        verdict = Verdict.model_validate_json(accepted.verdict)
        check_done_runs(request, report, verdict.ci_runs, verdict.commit or "")
        return accepted
    held = check_holds(taken.assignment, request.bead_id, request.name, request.epoch)
    tracking = tx.tracking(held.swarm_id, held.task_id)
    if demand is not None and tracking is not None:
        if tracking.report is not None:
            ci_report = CiReport.model_validate_json(tracking.report)
            check_done_runs(request, report, runs_of_commit(ci_report), tracking.sha)
        refuse_unless_green(tracking, demand)
    attempt = attempt_of(tx, held)
    check_report_order(milestone_of(held, attempt), "DONE")
    if request.returns is not None:
        attempt = keep_returns(tx, held, attempt, report, request.returns, tracking)
    content = claim_content(tracking, attempt) | {"name": request.name, "epoch": request.epoch}
    return claims.make_claim(tx, held, content, report_key, now_ms)


def check_done_runs(
    request: ReportMilestoneRequest, report: Done, runs: Sequence[CiRun], sha: str
) -> None:
    """The runs that a worker names must be runs of its commit. A commit without a run is refused
    for that."""
    names = [RunName(run.run_id, run.url) for run in runs]
    if names and report.ci_run is not None:
        check_named_run(report.ci_run, names, sha, "ci_run")
    if names and request.returns is not None:
        check_named_run(request.returns.ci_run_id, names, sha, "returns.ci_run_id")


def _accepted_claim(
    tx: Transaction, taken: TakenTask, request: ReportMilestoneRequest
) -> Claim | None:
    """The accepted claim of this worker, if the task is done."""
    if taken.task is None or taken.task.status != "done":
        return None
    last = tx.last_claim(request.swarm_id, request.bead_id)
    if last is None or last.state != "accepted" or request.name not in (None, last.worker):
        return None
    return last if request.epoch in (None, last.epoch) else None


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
