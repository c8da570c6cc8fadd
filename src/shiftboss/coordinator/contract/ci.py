"""Use cases of CI: follow a pushed commit, and act on the results of its runs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.contract import ci_restarts
from shiftboss.coordinator.contract.attempts import (
    attempt_of,
    claim_content,
    milestone_of,
    restarted,
    store_checkpoint,
)
from shiftboss.coordinator.contract.cascade import record_red
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import ContractViolations, InvalidRequest
from shiftboss.protocol.ci import CiDemand, CiReport
from shiftboss.protocol.contract.milestones import PushedToCi
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.ci_verdict import CiFinding, ci_state, judge_ci_report
from shiftboss.rules.contract.records import ContractAttempt, Tracking
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.message_payloads import with_commit
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.monitoring.measures import Measure
from shiftboss.store.port import Transaction

LOCAL_PAUSE_MS = 1_000
# The longest pause between two checks, unless the policy sets a longer one.
PAUSE_MS_MAX = 60_000
FIRST_PAUSE_AFTER_ERROR_MS = 5_000


def follow_push(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    attempt: ContractAttempt,
    report: PushedToCi,
    sha: str | None,
    now_ms: int,
) -> tuple[Assignment, ContractAttempt]:
    """Follow the CI of the pushed commit from now on, instead of an earlier one."""
    if sha is None:
        raise InvalidRequest(
            f"commit: {report.commit} is not a commit of {report.repo}",
            field="commit",
            hint="commit and push first, then report the pushed commit",
        )
    before = milestone_of(held, attempt)
    after = with_commit(held, sha, "commit")._replace(
        state=WorkerState.VERIFYING, updated_at_ms=now_ms, lease_expires_at_ms=None
    )
    tx.save_assignment(after)
    tx.mark_answers_delivered(held.swarm_id, held.task_id, held.epoch)
    followed = follow_commit(tx, held, handoff, report.repo, sha, now_ms)
    # A worker that could push has its permissions, and earlier failures are resolved.
    attempt = attempt._replace(ci_failed=False, last_commit_ms=now_ms, denials=None)
    new = followed or before != "PUSHED_TO_CI"
    return after, restarted(attempt, now_ms) if new else attempt


def follow_commit(
    tx: Transaction, held: Assignment, handoff: Handoff, repo: str, sha: str, now_ms: int
) -> bool:
    """Follow the CI of a commit. False if it is followed already."""
    current = tx.tracking(held.swarm_id, held.task_id)
    if current is not None and current.sha == sha and current.look_at_ms is not None:
        return False
    if handoff.ci is not None:
        tx.put_tracking(_tracking(held, repo, sha, now_ms))
        # A task branch counts as pushed to the repo when it lands.
        if not handoff.lands_later and (current is None or current.sha != sha):
            tx.hold_repo(repo)
            tx.add_push(repo, sha, held.swarm_id, held.task_id, now_ms)
    return True


def _tracking(held: Assignment, repo: str, sha: str, now_ms: int) -> Tracking:
    return Tracking(
        swarm_id=held.swarm_id,
        task_id=held.task_id,
        epoch=held.epoch,
        repo=repo,
        sha=sha,
        state="waiting",
        run_id=None,
        report=None,
        errors=0,
        pushed_at_ms=now_ms,
        look_at_ms=now_ms,
    )


def refuse_unless_green(tracking: Tracking | None, demand: CiDemand) -> None:
    """Refuse DONE while CI is known not to be green, and name every job. If CI was not checked yet,
    the verifier does it."""
    if tracking is None or tracking.report is None or tracking.state == "passed":
        return
    report = CiReport.model_validate_json(tracking.report)
    findings = [
        finding for finding in judge_ci_report(report, demand) if finding.outcome != "passed"
    ]
    if not findings:
        return
    named = "\n".join(f"- {finding.message}" for finding in findings)
    raise ContractViolations(
        f"Contract violations detected:\n{named}",
        field="report",
        hint="; ".join(dict.fromkeys(finding.hint for finding in findings if finding.hint)),
        facts={
            "violations": [
                {
                    "check": "ci",
                    "job": finding.job,
                    "message": finding.message,
                    "hint": finding.hint,
                }
                for finding in findings
            ]
        },
    )


def record_report(
    tx: Transaction,
    policy: ActivePolicy,
    seen: Tracking,
    report: CiReport,
    now_ms: int,
) -> str:
    """Record a report of CI; the state: waiting, running, passed or failed. "gone" if another push
    has replaced the commit, or the result is no longer needed."""
    current = _current(tx, seen)
    if current is None:
        return "gone"
    handoff = tx.handoff(seen.swarm_id, seen.task_id)
    held = _holder(tx, current)
    if handoff is None or handoff.ci is None or not (held or _is_queued(tx, current)):
        tx.drop_tracking(seen.swarm_id, seen.task_id)
        return "gone"
    demand = CiDemand.model_validate_json(handoff.ci)
    findings = judge_ci_report(report, demand)
    outcome = ci_state(findings)
    if outcome == "failed" and ci_restarts.is_under_way(tx, current, now_ms):
        tx.put_tracking(current._replace(look_at_ms=now_ms + ci_restarts.CHECK_AFTER_MS))
        return current.state
    after = _updated(current, report, outcome, demand, now_ms)
    if after.look_at_ms is not None and current.look_at_ms != seen.look_at_ms:
        # A webhook arrived during the check, whose news this report may not include.
        after = after._replace(look_at_ms=now_ms + round(report.not_before_seconds * 1000))
    tx.put_tracking(after)
    if after.run_id is not None and after.run_id != current.run_id:
        _add_event(tx, after, held, EventKind.CI_RUN_FOUND, now_ms)
    if outcome in ("passed", "failed"):
        task = (after.swarm_id, after.task_id)
        tx.measure(Measure.CI_WAIT, (now_ms - after.pushed_at_ms) / 1000, outcome, task)
    if outcome == "passed":
        _passed(tx, held, handoff, after, now_ms)
    elif outcome == "failed":
        _failed(tx, policy, held, handoff, after, findings, report, now_ms)
    return after.state


def _current(tx: Transaction, seen: Tracking) -> Tracking | None:
    """The tracking record, if this commit is still followed."""
    if tx.take_swarm(seen.swarm_id) is None:
        return None
    current = tx.tracking(seen.swarm_id, seen.task_id)
    if current is None or current.sha != seen.sha or current.look_at_ms is None:
        return None
    return current


def _holder(tx: Transaction, tracking: Tracking) -> Assignment | None:
    """The attempt that pushed the commit or took it over. While there is none, the result is kept,
    and the next attempt starts from it."""
    held = tx.assignment(tracking.swarm_id, tracking.task_id)
    return held if held is not None and held.epoch == tracking.epoch else None


def _is_queued(tx: Transaction, tracking: Tracking) -> bool:
    task = tx.task(tracking.swarm_id, tracking.task_id)
    return task is not None and task.status in ("queued", "active")


def _updated(
    current: Tracking, report: CiReport, outcome: str, demand: CiDemand, now_ms: int
) -> Tracking:
    """The tracking record after a report. While nothing changes the pauses get longer, except for
    the local runner, which is cheap to check."""
    text = report.model_dump_json(exclude_none=True, exclude={"unchanged", "not_before_seconds"})
    usual_ms = max(demand.policy.poll_every, 1) * 1000
    if demand.policy.provider == "local":
        usual_ms = LOCAL_PAUSE_MS
    pause_ms = usual_ms
    if text == current.report and demand.policy.provider != "local":
        pause_ms = min(max(current.pause_ms * 2, usual_ms), max(PAUSE_MS_MAX, usual_ms))
    ended = outcome in ("passed", "failed")
    wait_ms = max(pause_ms, round(report.not_before_seconds * 1000))
    return current._replace(
        state=outcome if ended else _under_way(report),
        run_id=report.runs[0].run_id if report.runs else None,
        report=text,
        errors=0,
        look_at_ms=None if ended else now_ms + wait_ms,
        pause_ms=pause_ms,
    )


def _under_way(report: CiReport) -> str:
    return "running" if any(run.state == "running" for run in report.runs) else "waiting"


def record_unreachable(
    tx: Transaction, seen: Tracking, reason: str, again_in_seconds: float, limit: int, now_ms: int
) -> None:
    """A forge that does not respond is asked again, with growing pauses. After several failures in
    a row an event reports it, once."""
    current = _current(tx, seen)
    if current is None:
        return
    errors = current.errors + 1
    backoff_ms = min(FIRST_PAUSE_AFTER_ERROR_MS * 2 ** min(errors - 1, 10), PAUSE_MS_MAX)
    pause_ms = max(round(again_in_seconds * 1000), backoff_ms)
    after = current._replace(errors=errors, look_at_ms=now_ms + pause_ms)
    tx.put_tracking(after)
    if errors == limit + 1:
        _add_event(
            tx,
            after,
            _holder(tx, after),
            EventKind.CI_UNREACHABLE,
            now_ms,
            errors=errors,
            reason=reason,
        )


def _add_event(
    tx: Transaction,
    tracking: Tracking,
    held: Assignment | None,
    kind: EventKind,
    now_ms: int,
    **facts: object,
) -> None:
    """Add an event about a commit, also while no worker holds the task."""
    tx.add_event(
        tracking.swarm_id,
        kind,
        now_ms,
        {
            "bead_id": tracking.task_id,
            "worker": held.worker if held else None,
            "epoch": tracking.epoch,
            "repo": tracking.repo,
            "sha": tracking.sha,
            "run_id": tracking.run_id,
            **facts,
        },
        task_id=tracking.task_id,
    )


def _passed(
    tx: Transaction,
    held: Assignment | None,
    handoff: Handoff,
    tracking: Tracking,
    now_ms: int,
) -> None:
    """CI passed: the server claims for the worker, which may have left. The repo does not count as
    green yet: the commit may have left the branch, or CI may have been restarted."""
    _add_event(tx, tracking, held, EventKind.CI_PASSED, now_ms)
    if held is None:
        return
    store_checkpoint(tx, held, handoff, "ci_result_received", now_ms)
    if held.state is WorkerState.VERIFYING and held.claim_id is None:
        claim_for_worker(tx, held, tracking, now_ms)


def claim_for_worker(tx: Transaction, held: Assignment, tracking: Tracking, now_ms: int) -> None:
    """Claim on behalf of the worker. An earlier refusal of the same claim is out of date."""
    refused = claims.undelivered_refusal(tx, held)
    if refused is not None:
        tx.mark_verdict_delivered(refused, now_ms)
    claims.make_claim(tx, held, claim_content(tracking, attempt_of(tx, held)), None, now_ms)


def _failed(
    tx: Transaction,
    policy: ActivePolicy,
    held: Assignment | None,
    handoff: Handoff,
    tracking: Tracking,
    findings: Sequence[CiFinding],
    report: CiReport,
    now_ms: int,
) -> None:
    """CI failed: the work continues at FIXING_CI. After the last attempt the contact is asked."""
    failed = [finding for finding in findings if finding.outcome == "failed"]
    resumes = held is not None and held.state is WorkerState.VERIFYING and held.claim_id is None
    _add_event(
        tx,
        tracking,
        held,
        EventKind.CI_FAILED,
        now_ms,
        jobs=[
            {"job": finding.job, "message": finding.message, "hint": finding.hint}
            for finding in failed
        ],
        log_tails=_log_tails(report),
        resumes=resumes,
    )
    if not handoff.lands_later:
        record_red(tx, tracking, now_ms)
    if held is None:
        return
    attempt = attempt_of(tx, held)
    attempt = restarted(attempt, now_ms)._replace(
        ci_failed=True,
        fix_attempts=attempt.fix_attempts + 1,
        progress=json.dumps({"failed_jobs": [finding.job for finding in failed]}),
    )
    tx.put_contract_attempt(attempt)
    if resumes:
        held = _resume_work(tx, held, now_ms)
        limit = policy.settings.timeouts.milestones.FIXING_CI.max_attempts
        if attempt.fix_attempts > limit:
            _ask_contact(tx, held, handoff, failed, limit, now_ms)
    store_checkpoint(tx, held, handoff, "ci_result_received", now_ms)


def _log_tails(report: CiReport) -> dict[str, str]:
    return {
        job.name: job.log_tail
        for run in report.runs
        for job in run.jobs
        if job.log_tail is not None
    }


def _resume_work(tx: Transaction, held: Assignment, now_ms: int) -> Assignment:
    held = held._replace(
        state=WorkerState.EXECUTING,
        updated_at_ms=now_ms,
        lease_expires_at_ms=lease_end_ms(held, WorkerState.EXECUTING, now_ms),
    )
    tx.save_assignment(held)
    return held


def _ask_contact(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    failed: Sequence[CiFinding],
    limit: int,
    now_ms: int,
) -> None:
    contact = WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact
    named = "; ".join(finding.message for finding in failed)
    questions.ask(
        tx,
        held,
        contact,
        f"{held.worker} has tried {limit} times to fix the CI of {held.task_id}: {named}",
        now_ms,
    )
