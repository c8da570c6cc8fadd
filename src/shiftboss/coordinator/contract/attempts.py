"""What the contract stores of an attempt besides its state: clock, reports, checkpoints.

What a worker returns at completion is kept with the attempt until there is a claim, and becomes the
summary of the receipt.
"""

from __future__ import annotations

import json
from typing import Any

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.contract_requests import CompletionReturn
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.milestones import Done, MilestoneReport, PushedToCi
from shiftboss.protocol.policy import Milestone
from shiftboss.rules.claims.handoffs import Handoff
from shiftboss.rules.contract.milestones import milestone_view
from shiftboss.rules.contract.records import ContractAttempt, StoredCheckpoint, Tracking, summary_of
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction

COMMITS_KEPT_MAX = 200


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
    last_report = json.loads(attempt.progress) if attempt.progress else {}
    returns = last_report.get("returns")
    return {
        "commit": tracking.sha if tracking else None,
        "files_touched": [],
        "summary": summary_of(CompletionReturn.model_validate(returns)) if returns else "",
    }


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
    last_report = json.loads(attempt.progress) if attempt.progress else {}
    blockers = [last_report.get("reason"), attempt.paused]
    previous = tx.checkpoint(held.swarm_id, held.task_id)
    previous_body = json.loads(previous.body) if previous is not None else {}
    commits = json.loads(held.commits) if held.commits else []
    body = {
        "worker_id": held.worker,
        "repo_name": handoff.repo_name,
        "component_id": held.task_id,
        "current_milestone": milestone_of(held, attempt),
        "timestamp": now_ms,
        "commits": list(dict.fromkeys([*previous_body.get("commits", []), *commits]))[
            -COMMITS_KEPT_MAX:
        ],
        "ci_runs": [_run(tracking)] if tracking else [],
        "files_modified": last_report.get("affected_files")
        or previous_body.get("files_modified", []),
        "context_summary": last_report.get("description")
        or last_report.get("diagnosis")
        or previous_body.get("context_summary"),
        "blockers": [blocker for blocker in blockers if blocker],
        "decisions_made": [],
    }
    tx.put_checkpoint(
        StoredCheckpoint(held.swarm_id, held.task_id, held.epoch, trigger, json.dumps(body), now_ms)
    )


def _run(tracking: Tracking) -> dict[str, Any]:
    return {
        "id": tracking.run_id,
        "status": tracking.state,
        "jobs_passed": [job["name"] for job in _jobs(tracking) if job["state"] == "success"],
        "sha": tracking.sha,
    }


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
    """The attempt with its newest report. What an earlier push returned is dropped."""
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
