"""Use case of DONE: the report must be complete and true, then it is a claim that is verified."""

from __future__ import annotations

from collections.abc import Sequence

from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.contract.attempts import (
    attempt_of,
    claim_content,
    keep_returns,
    milestone_of,
    run_names,
)
from shiftboss.coordinator.contract.ci import refuse_unless_green
from shiftboss.protocol.ci import CiDemand, CiReport, CiRun
from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.contract.contract_requests import ReportMilestoneRequest
from shiftboss.protocol.contract.milestones import Done
from shiftboss.rules.claims.claims import Claim
from shiftboss.rules.contract.ci_verdict import runs_of_commit
from shiftboss.rules.contract.milestones import (
    check_done_report,
    check_named_run,
    check_report_order,
)
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.tasks import check_holds
from shiftboss.store.bus.port import TakenTask
from shiftboss.store.port import Transaction


def claim_done(
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
    for that. Facts that cannot be checked yet are left out of the claim."""
    names = run_names(runs)
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
