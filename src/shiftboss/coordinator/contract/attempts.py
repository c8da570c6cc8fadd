"""The contract's data of an attempt besides its state: clock, reports, checkpoints.

The return values of a worker at completion are kept with the attempt until there is a claim, and
become the summary of the receipt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.ci import CiReport, CiRun
from shiftboss.protocol.contract.contract_requests import CompletionReturn
from shiftboss.protocol.contract.milestones import Done, MilestoneReport, PushedToCi
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.policy import Milestone
from shiftboss.rules.contract.checkpoints import (
    AttemptProgress,
    WorkSinceBase,
    checkpoint_body,
    with_decisions,
    with_work,
)
from shiftboss.rules.contract.ci_verdict import runs_of_commit
from shiftboss.rules.contract.milestones import RunName, is_named_run, milestone_view
from shiftboss.rules.contract.records import ContractAttempt, StoredCheckpoint, Tracking, summary_of
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction


def attempt_of(tx: Transaction, held: Assignment) -> ContractAttempt:
    """The record of this attempt; a new one if the stored record is of an earlier attempt."""
    stored = tx.contract_attempt(held.swarm_id, held.task_id)
    if stored is not None and stored.epoch == held.epoch:
        return stored
    return ContractAttempt(held.swarm_id, held.task_id, held.epoch, held.updated_at_ms)


def restarted(attempt: ContractAttempt, now_ms: int) -> ContractAttempt:
    """Start the clock and the ladder of a new milestone."""
    return attempt._replace(milestone_at_ms=now_ms, ladder=None, signs=None, look_at_ms=now_ms)


def restart_clock(tx: Transaction, held: Assignment, now_ms: int, *, helped: bool = False) -> None:
    """Start the clock again after a question was asked or answered. `helped`: a person answered, so
    the attempts to fix the CI are counted from zero again."""
    if held.contract_version is None:
        return
    stored = tx.contract_attempt(held.swarm_id, held.task_id)
    if stored is not None and stored.epoch == held.epoch:
        fix_attempts = 0 if helped else stored.fix_attempts
        tx.put_contract_attempt(restarted(stored, now_ms)._replace(fix_attempts=fix_attempts))


def milestone_of(held: Assignment, attempt: ContractAttempt) -> Milestone | None:
    return milestone_view(held.state, ci_failed=attempt.ci_failed)


def claim_content(tracking: Tracking | None, attempt: ContractAttempt) -> dict[str, Any]:
    """The content of a claim, the same for a DONE report and for the server after CI has passed.
    The summary is what the worker returned with its push."""
    return {
        "commit": tracking.sha if tracking else None,
        "files_touched": [],
        "summary": _returned_summary(tracking, attempt),
    }


def _returned_summary(tracking: Tracking | None, attempt: ContractAttempt) -> str:
    last_report = json.loads(attempt.progress) if attempt.progress else {}
    if "returns" not in last_report:
        return ""
    returns = CompletionReturn.model_validate(last_report["returns"])
    is_run_known = is_named_run(returns.ci_run_id, run_names(_seen_runs(tracking)))
    return summary_of(returns, is_run_known=is_run_known)


def _seen_runs(tracking: Tracking | None) -> list[CiRun]:
    """The runs of the commit that CI has reported. None are known until CI responds."""
    if tracking is None or tracking.report is None:
        return []
    return runs_of_commit(CiReport.model_validate_json(tracking.report))


def run_names(runs: Sequence[CiRun]) -> list[RunName]:
    return [RunName(run.run_id, run.url) for run in runs]


def ci_view(tracking: Tracking | None) -> dict[str, Any] | None:
    if tracking is None:
        return None
    return {
        "repo": tracking.repo,
        "sha": tracking.sha,
        "state": tracking.state,
        "run_id": tracking.run_id,
        "errors": tracking.errors,
        "jobs": _jobs(tracking),
    }


def _jobs(tracking: Tracking) -> list[dict[str, str]]:
    report = json.loads(tracking.report) if tracking.report else {"runs": []}
    return [
        {"name": job["name"], "state": job["state"]}
        for run in report["runs"]
        for job in run.get("jobs", [])
    ]


def store_checkpoint(
    tx: Transaction, held: Assignment, handoff: Handoff, trigger: str, now_ms: int
) -> None:
    """Store the progress of the attempt: at a change of milestone, a push, a result of CI, and
    every few minutes. The next worker gets the newest checkpoint."""
    attempt = attempt_of(tx, held)
    tracking = tx.tracking(held.swarm_id, held.task_id)
    previous = tx.checkpoint(held.swarm_id, held.task_id)
    progress = AttemptProgress(
        worker=held.worker,
        repo=handoff.repo_name,
        task_id=held.task_id,
        milestone=milestone_of(held, attempt),
        at_ms=now_ms,
        commits=json.loads(held.commits) if held.commits else [],
        ci_runs=_runs(tracking) if tracking else [],
        last_report=json.loads(attempt.progress) if attempt.progress else {},
        paused=attempt.paused,
    )
    body = checkpoint_body(progress, json.loads(previous.body) if previous is not None else {})
    tx.put_checkpoint(
        StoredCheckpoint(held.swarm_id, held.task_id, held.epoch, trigger, json.dumps(body), now_ms)
    )


def earlier_checkpoint(tx: Transaction, swarm_id: str, task_id: str) -> dict[str, Any] | None:
    """The checkpoint of an attempt that has ended, for the worker that replaces it."""
    stored = tx.checkpoint(swarm_id, task_id)
    held = tx.assignment(swarm_id, task_id)
    if stored is None or (held is not None and held.epoch == stored.epoch):
        return None
    body: dict[str, Any] = json.loads(stored.body)
    return body


def amend_checkpoint(
    tx: Transaction,
    swarm_id: str,
    task_id: str,
    *,
    work: WorkSinceBase | None = None,
    decisions: Sequence[str] = (),
) -> None:
    """Add what became known since the last checkpoint: the state of git, decisions."""
    stored = tx.checkpoint(swarm_id, task_id)
    if stored is None:
        return
    body = with_decisions(json.loads(stored.body), decisions)
    if work is not None:
        body = with_work(body, work)
    tx.put_checkpoint(stored._replace(body=json.dumps(body)))


def _runs(tracking: Tracking) -> list[dict[str, Any]]:
    """The runs of the tracked commit. `result` is the verdict on its CI as a whole."""
    runs = json.loads(tracking.report)["runs"] if tracking.report else []
    return [
        {
            "id": run["run_id"],
            "status": run["state"],
            "result": tracking.state,
            "jobs_passed": [job["name"] for job in run["jobs"] if job["state"] == "success"],
            "sha": tracking.sha,
        }
        for run in runs
    ] or [
        {
            "id": None,
            "status": "waiting",
            "result": tracking.state,
            "jobs_passed": [],
            "sha": tracking.sha,
        }
    ]


def add_attempt_event(
    tx: Transaction,
    held: Assignment,
    kind: EventKind,
    now_ms: int,
    report_key: bytes | None = None,
    **facts: object,
) -> None:
    """Add an event about an attempt."""
    tx.add_event(
        held.swarm_id,
        kind,
        now_ms,
        {"bead_id": held.task_id, "worker": held.worker, "epoch": held.epoch, **facts},
        task_id=held.task_id,
        report_key=report_key,
    )


def check_returns(report: MilestoneReport, returns: CompletionReturn | None) -> None:
    if returns is not None and not isinstance(report, Done | PushedToCi):
        raise InvalidRequest(
            f"returns: only allowed with DONE or PUSHED_TO_CI, not with {report.milestone}",
            field="returns",
        )


def with_report(
    attempt: ContractAttempt, report: MilestoneReport, returns: CompletionReturn | None
) -> ContractAttempt:
    """The attempt with its newest report. The return values of an earlier push are dropped."""
    data = report.model_dump(mode="json", exclude_none=True)
    if returns is not None:
        data["returns"] = returns.model_dump(mode="json")
    return attempt._replace(progress=json.dumps(data))


def keep_returns(
    tx: Transaction,
    held: Assignment,
    attempt: ContractAttempt,
    report: Done,
    returns: CompletionReturn,
    tracking: Tracking | None,
) -> ContractAttempt:
    """Keep what DONE returned. If the server has claimed already, its claim gets the summary."""
    attempt = with_report(attempt, report, returns)
    tx.put_contract_attempt(attempt)
    if held.claim_id is not None:
        claim = tx.claim(held.swarm_id, held.task_id, held.claim_id)
        assert claim is not None, "an attempt's claim is there"
        # Only the summary: a verifier may be verifying the commit already.
        content = json.loads(claim.words) | {"summary": claim_content(tracking, attempt)["summary"]}
        tx.amend_claim(claim._replace(words=json.dumps(content)))
    return attempt
