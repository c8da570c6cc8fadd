"""Use cases of CI: what a look at the runs of a commit leads to."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.contract import ci_restarts
from shiftboss.coordinator.contract.attempts import (
    attempt_of,
    claim_words,
    restarted,
    store_checkpoint,
)
from shiftboss.coordinator.contract.cascade import turned_red
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import ContractViolations
from shiftboss.protocol.ci import CiDemand, CiReport
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.handoffs import Handoff
from shiftboss.rules.contract.ci_verdict import CiFinding, ci_state, judge
from shiftboss.rules.contract.records import Tracking
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import Transaction

# The longest pause between two looks, where the policy does not name a longer one.
LOCAL_PAUSE_MS = 1_000
PAUSE_MS_MAX = 60_000
FIRST_PAUSE_AFTER_ERROR_MS = 5_000


def refuse_unless_green(tracking: Tracking | None, demand: CiDemand) -> None:
    """DONE while CI is known not to be green is refused, every job by its name. A CI that was not
    looked at yet is the verifier's to look at."""
    if tracking is None or tracking.report is None or tracking.state == "passed":
        return
    report = CiReport.model_validate_json(tracking.report)
    findings = [one for one in judge(report, demand) if one.outcome != "passed"]
    if not findings:
        return
    named = "\n".join(f"- {one.message}" for one in findings)
    raise ContractViolations(
        f"Contract violations detected:\n{named}",
        field="report",
        hint="; ".join(dict.fromkeys(one.hint for one in findings if one.hint)),
        facts={
            "violations": [
                {"check": "ci", "job": one.job, "message": one.message, "hint": one.hint}
                for one in findings
            ]
        },
    )


def looked(
    tx: Transaction,
    policy: ActivePolicy,
    seen: Tracking,
    report: CiReport,
    now_ms: int,
) -> str:
    """What the look has found: waiting, running, passed or failed; gone when a new push has
    replaced the commit meanwhile, or nobody will need the result."""
    current = _current(tx, seen)
    if current is None:
        return "gone"
    handoff = tx.handoff(seen.swarm_id, seen.task_id)
    held = _holder(tx, current)
    if handoff is None or handoff.ci is None or not (held or _is_queued(tx, current)):
        tx.drop_tracking(seen.swarm_id, seen.task_id)
        return "gone"
    demand = CiDemand.model_validate_json(handoff.ci)
    findings = judge(report, demand)
    outcome = ci_state(findings)
    if outcome == "failed" and ci_restarts.is_under_way(tx, current, now_ms):
        tx.put_tracking(current._replace(look_at_ms=now_ms + ci_restarts.LOOK_AFTER_MS))
        return current.state
    after = _noted(current, report, outcome, demand, now_ms)
    if after.look_at_ms is not None and current.look_at_ms != seen.look_at_ms:
        # The forge had news while we looked, which the look may not have seen.
        after = after._replace(look_at_ms=now_ms + round(report.not_before_seconds * 1000))
    tx.put_tracking(after)
    if after.run_id is not None and after.run_id != current.run_id:
        _tell(tx, after, held, EventKind.CI_RUN_FOUND, now_ms)
    if outcome == "passed":
        _passed(tx, held, handoff, after, now_ms)
    elif outcome == "failed":
        _failed(tx, policy, held, handoff, after, findings, report, now_ms)
    return after.state


def _current(tx: Transaction, seen: Tracking) -> Tracking | None:
    """Still the commit that is followed?"""
    if tx.take_swarm(seen.swarm_id) is None:
        return None
    current = tx.tracking(seen.swarm_id, seen.task_id)
    if current is None or current.sha != seen.sha or current.look_at_ms is None:
        return None
    return current


def _holder(tx: Transaction, tracking: Tracking) -> Assignment | None:
    """The attempt that has pushed the commit, or has taken it over. While there is none, the
    result is kept for the next one, which begins where it says."""
    held = tx.assignment(tracking.swarm_id, tracking.task_id)
    return held if held is not None and held.epoch == tracking.epoch else None


def _is_queued(tx: Transaction, tracking: Tracking) -> bool:
    task = tx.task(tracking.swarm_id, tracking.task_id)
    return task is not None and task.status in ("queued", "active")


def _noted(
    current: Tracking, report: CiReport, outcome: str, demand: CiDemand, now_ms: int
) -> Tracking:
    """While nothing changes, the pauses get longer, but for our own runner: to look at it costs
    nothing."""
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


def could_not_look(
    tx: Transaction, seen: Tracking, reason: str, again_in_seconds: float, limit: int, now_ms: int
) -> None:
    """A forge that gives no answer is asked again, later and later. After several times in a row
    the event of it tells, once."""
    current = _current(tx, seen)
    if current is None:
        return
    errors = current.errors + 1
    backoff_ms = min(FIRST_PAUSE_AFTER_ERROR_MS * 2 ** min(errors - 1, 10), PAUSE_MS_MAX)
    pause_ms = max(round(again_in_seconds * 1000), backoff_ms)
    after = current._replace(errors=errors, look_at_ms=now_ms + pause_ms)
    tx.put_tracking(after)
    if errors == limit + 1:
        _tell(
            tx,
            after,
            _holder(tx, after),
            EventKind.CI_UNREACHABLE,
            now_ms,
            errors=errors,
            reason=reason,
        )


def _tell(
    tx: Transaction,
    tracking: Tracking,
    held: Assignment | None,
    kind: EventKind,
    now_ms: int,
    **facts: object,
) -> None:
    """Also when nobody holds the task at the moment."""
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
    """Nobody has to be there any more: the server claims for the worker, and verifies. Until then
    the repo is not called green: the commit may be gone from the branch, or its run made anew."""
    _tell(tx, tracking, held, EventKind.CI_PASSED, now_ms)
    if held is None:
        return
    store_checkpoint(tx, held, handoff, "ci_result_received", now_ms)
    if held.state is WorkerState.VERIFYING and held.claim_id is None:
        claim_for_worker(tx, held, tracking, now_ms)


def claim_for_worker(tx: Transaction, held: Assignment, tracking: Tracking, now_ms: int) -> None:
    """A refusal from before, which the same words would lead to again, is out of date."""
    refused = claims.unheard_refusal(tx, held)
    if refused is not None:
        tx.hear_verdict(refused, now_ms)
    claims.make_claim(tx, held, claim_words(tracking, attempt_of(tx, held)), None, now_ms)


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
    """The work goes on: FIXING_CI. After the last attempt the contact is asked."""
    bad = [one for one in findings if one.outcome == "failed"]
    _tell(
        tx,
        tracking,
        held,
        EventKind.CI_FAILED,
        now_ms,
        jobs=[{"job": one.job, "message": one.message, "hint": one.hint} for one in bad],
        log_tails=_log_tails(report),
    )
    if not handoff.lands_later:
        turned_red(tx, tracking, now_ms)
    if held is None:
        return
    attempt = attempt_of(tx, held)
    attempt = restarted(attempt, now_ms)._replace(
        ci_failed=True,
        fix_attempts=attempt.fix_attempts + 1,
        progress=json.dumps({"failed_jobs": [one.job for one in bad]}),
    )
    tx.put_contract_attempt(attempt)
    if held.state is WorkerState.VERIFYING and held.claim_id is None:
        held = _at_work_again(tx, held, now_ms)
        limit = policy.settings.timeouts.milestones.FIXING_CI.max_attempts
        if attempt.fix_attempts > limit:
            _ask(tx, held, handoff, bad, limit, now_ms)
    store_checkpoint(tx, held, handoff, "ci_result_received", now_ms)


def _log_tails(report: CiReport) -> dict[str, str]:
    return {
        job.name: job.log_tail
        for run in report.runs
        for job in run.jobs
        if job.log_tail is not None
    }


def _at_work_again(tx: Transaction, held: Assignment, now_ms: int) -> Assignment:
    held = held._replace(
        state=WorkerState.EXECUTING,
        updated_at_ms=now_ms,
        lease_expires_at_ms=lease_end_ms(held, WorkerState.EXECUTING, now_ms),
    )
    tx.save_assignment(held)
    return held


def _ask(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    bad: Sequence[CiFinding],
    limit: int,
    now_ms: int,
) -> None:
    contact = WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact
    named = "; ".join(one.message for one in bad)
    questions.ask(
        tx,
        held,
        contact,
        f"{held.worker} has tried {limit} times to mend the CI of {held.task_id}: {named}",
        now_ms,
    )
