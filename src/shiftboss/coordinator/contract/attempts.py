"""What the contract keeps of an attempt beside its state, and the views of it."""

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
    """What is kept of this very attempt; an older one's is forgotten."""
    known = tx.contract_attempt(held.swarm_id, held.task_id)
    if known is not None and known.epoch == held.epoch:
        return known
    return ContractAttempt(held.swarm_id, held.task_id, held.epoch, held.updated_at_ms)


def restarted(attempt: ContractAttempt, now_ms: int) -> ContractAttempt:
    """A milestone begins: its clock and the ladder start anew."""
    return attempt._replace(milestone_at_ms=now_ms, ladder=None, signs=None, look_at_ms=now_ms)


def restart_clock(tx: Transaction, held: Assignment, now_ms: int, *, helped: bool = False) -> None:
    """The same for an attempt that a question has blocked, or that its answer sets going. Who was
    `helped` by a person has all its attempts to mend the CI again."""
    if held.contract_version is None:
        return
    known = tx.contract_attempt(held.swarm_id, held.task_id)
    if known is not None and known.epoch == held.epoch:
        fix_attempts = 0 if helped else known.fix_attempts
        tx.put_contract_attempt(restarted(known, now_ms)._replace(fix_attempts=fix_attempts))


def milestone_of(held: Assignment, attempt: ContractAttempt) -> Milestone | None:
    return milestone_view(held.state, ci_failed=attempt.ci_failed)


def claim_words(tracking: Tracking | None, attempt: ContractAttempt) -> dict[str, Any]:
    """The same whether the worker says DONE or the server sees that CI has passed. The summary is
    what the worker returned with its push."""
    said = json.loads(attempt.progress) if attempt.progress else {}
    returns = said.get("returns")
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
    """Where the attempt stands: at a change of milestone, a push, a result of CI, and every few
    minutes. The next worker gets the newest."""
    attempt = attempt_of(tx, held)
    tracking = tx.tracking(held.swarm_id, held.task_id)
    said = json.loads(attempt.progress) if attempt.progress else {}
    blockers = [said.get("reason"), attempt.paused]
    before = tx.checkpoint(held.swarm_id, held.task_id)
    kept = json.loads(before.body) if before is not None else {}
    own = json.loads(held.commits) if held.commits else []
    body = {
        "worker_id": held.worker,
        "repo_name": handoff.repo_name,
        "component_id": held.task_id,
        "current_milestone": milestone_of(held, attempt),
        "timestamp": now_ms,
        "commits": list(dict.fromkeys([*kept.get("commits", []), *own]))[-COMMITS_KEPT_MAX:],
        "ci_runs": [_run(tracking)] if tracking else [],
        "files_modified": said.get("affected_files") or kept.get("files_modified", []),
        "context_summary": said.get("description")
        or said.get("diagnosis")
        or kept.get("context_summary"),
        "blockers": [one for one in blockers if one],
        "decisions_made": [],
    }
    tx.put_checkpoint(
        StoredCheckpoint(held.swarm_id, held.task_id, held.epoch, trigger, json.dumps(body), now_ms)
    )


def _run(tracking: Tracking) -> dict[str, Any]:
    return {
        "id": tracking.run_id,
        "status": tracking.state,
        "jobs_passed": [one["name"] for one in _jobs(tracking) if one["state"] == "success"],
        "sha": tracking.sha,
    }


def tell(
    tx: Transaction,
    held: Assignment,
    kind: EventKind,
    now_ms: int,
    report_key: bytes | None = None,
    **facts: object,
) -> None:
    """An event about an attempt."""
    tx.add_event(
        held.swarm_id,
        kind,
        now_ms,
        {"bead_id": held.task_id, "worker": held.worker, "epoch": held.epoch, **facts},
        task_id=held.task_id,
        report_key=report_key,
    )


# What a worker gives back at completion. It is kept with the attempt until there is a claim, and
# stands in the receipt as its summary.


def check_returns(said: MilestoneReport, returns: CompletionReturn | None) -> None:
    if returns is not None and not isinstance(said, Done | PushedToCi):
        raise InvalidRequest(
            f"returns: goes with DONE or PUSHED_TO_CI, not with {said.milestone}", field="returns"
        )


def with_words(
    attempt: ContractAttempt, said: MilestoneReport, returns: CompletionReturn | None
) -> ContractAttempt:
    """The attempt with its last report. What was returned with an older push is forgotten."""
    words = said.model_dump(mode="json", exclude_none=True)
    if returns is not None:
        words["returns"] = returns.model_dump(mode="json")
    return attempt._replace(progress=json.dumps(words))


def give_back(
    tx: Transaction,
    held: Assignment,
    attempt: ContractAttempt,
    said: Done,
    returns: CompletionReturn,
    tracking: Tracking | None,
) -> ContractAttempt:
    """With DONE. The server may have claimed by itself: then its claim gets the words."""
    attempt = with_words(attempt, said, returns)
    tx.put_contract_attempt(attempt)
    if held.claim_id is not None:
        claim = tx.claim(held.swarm_id, held.task_id, held.claim_id)
        assert claim is not None, "an attempt's claim is there"
        # The summary alone: the commit is what a verifier may be looking at already.
        words = json.loads(claim.words) | {"summary": claim_words(tracking, attempt)["summary"]}
        tx.amend_claim(claim._replace(words=json.dumps(words)))
    return attempt
