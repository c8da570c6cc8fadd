"""Use cases of breakage: the question to search when a repo turned red, and the result.

A red repo means that a search is due. The event of the result is stored under the commit that
turned red, so a result is recorded only once.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from shiftboss.coordinator.bus import add_tasks
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.idempotency import report_digest
from shiftboss.protocol.bus import AddTaskRequest
from shiftboss.protocol.ci import CiDemand, CiReport
from shiftboss.protocol.events import EventKind
from shiftboss.rules.contract.breakage import (
    REASONS,
    BreakageFinding,
    BreakageQuestion,
    Remedy,
    UpstreamPush,
    failed_jobs,
    fix_description,
    fix_task_id,
    fix_title,
    remedy_for,
)
from shiftboss.rules.contract.records import Push, RepoState
from shiftboss.store.port import Transaction

CANDIDATES_MAX = 20


def question_about(
    tx: Transaction, policy: ActivePolicy, red: RepoState
) -> BreakageQuestion | None:
    """None if nothing was pushed upstream since the repo was green, the commit is no longer
    followed, or the result is known."""
    if red.repo not in policy or _is_known(tx, red):
        return None
    handoff = tx.handoff(red.swarm_id, red.task_id)
    tracking = tx.tracking(red.swarm_id, red.task_id)
    if handoff is None or handoff.ci is None or tracking is None or tracking.report is None:
        return None
    pushes = _pushes_upstream(tx, policy, red.repo)
    if tracking.sha != red.sha or not pushes:
        return None
    demand = CiDemand.model_validate_json(handoff.ci)
    report = CiReport.model_validate_json(tracking.report)
    jobs = failed_jobs(report, demand)
    return BreakageQuestion(demand, handoff.base_commit, red.sha, jobs, pushes)


def can_run_jobs(question: BreakageQuestion) -> bool:
    """Whether the failed jobs can be run here: only those of the local CI, and only by name."""
    return question.demand.policy.provider == "local" and bool(question.jobs)


def _pushes_upstream(tx: Transaction, policy: ActivePolicy, repo: str) -> list[UpstreamPush]:
    """Pushes since the repo was last green, the oldest first."""
    green_at_ms = tx.last_green_at_ms(repo) or 0
    pushes: list[UpstreamPush] = []
    for name in policy.upstream(repo):
        newest = tx.newest_pushes(name)
        for push, older in zip_longest(newest, newest[1:]):
            if push.at_ms <= green_at_ms:
                break
            before = older.sha if older is not None else _base_of(tx, push)
            if before is not None:
                pushes.append(
                    UpstreamPush(name, push.sha, before, push.swarm_id, push.task_id, push.at_ms)
                )
    pushes.reverse()
    return sorted(pushes, key=lambda push: push.at_ms)


def _base_of(tx: Transaction, push: Push) -> str | None:
    """The commit before the first known push: the base of its task."""
    handoff = tx.handoff(push.swarm_id, push.task_id)
    return handoff.base_commit if handoff is not None else None


def suspect(tx: Transaction, red: RepoState, question: BreakageQuestion, now_ms: int) -> bool:
    """The jobs cannot be run here: name the pushes as suspects, the newest first."""
    if not _lock_if_unknown(tx, red):
        return False
    newest = question.pushes[::-1][:CANDIDATES_MAX]
    _add_event(
        tx,
        red,
        EventKind.BREAKAGE_SUSPECTED,
        now_ms,
        candidates=[_push_data(push) for push in newest],
        reason="the jobs of this repo cannot be run here; the candidates are the upstream pushes "
        "since it was green, newest first",
    )
    return True


def settle(
    tx: Transaction,
    policy: ActivePolicy,
    red: RepoState,
    question: BreakageQuestion,
    finding: BreakageFinding,
    now_ms: int,
) -> str | None:
    """The id of the opened task; None if no upstream push is the cause, or it was recorded
    before."""
    if not _lock_if_unknown(tx, red):
        return None
    if finding.push is None:
        _add_event(
            tx,
            red,
            EventKind.BREAKAGE_RULED_OUT,
            now_ms,
            jobs=question.jobs,
            outcome=finding.outcome,
            reason=REASONS[finding.outcome],
            probes=finding.probes,
        )
        return None
    remedy = remedy_for(finding, one_repo=_touched_one_repo(tx, policy, finding.push))
    task_id = fix_task_id(remedy, red.repo, finding.push.sha)
    _open_task(tx, red, question, finding.push, remedy, task_id, now_ms)
    _add_event(
        tx,
        red,
        EventKind.BREAKAGE_FOUND,
        now_ms,
        jobs=question.jobs,
        breaking=_push_data(finding.push),
        remedy=remedy,
        task=task_id,
        probes=finding.probes,
    )
    return task_id


def _touched_one_repo(tx: Transaction, policy: ActivePolicy, push: UpstreamPush) -> bool:
    return not any(
        (other.swarm_id, other.task_id) == (push.swarm_id, push.task_id)
        for name in policy.settings.repos
        if name != push.repo
        for other in tx.newest_pushes(name)
    )


def _open_task(
    tx: Transaction,
    red: RepoState,
    question: BreakageQuestion,
    push: UpstreamPush,
    remedy: Remedy,
    task_id: str,
    now_ms: int,
) -> None:
    """Open the task in the swarm of the red repo. Repos that one push broke share its revert."""
    if tx.task(red.swarm_id, task_id) is not None:
        return
    request = AddTaskRequest(
        swarm_id=red.swarm_id,
        bead_id=task_id,
        title=fix_title(remedy, red.repo, push),
        description=fix_description(remedy, question, push, _log(tx, red, question)),
    )
    add_tasks.add(tx, request, now_ms)


def _log(tx: Transaction, red: RepoState, question: BreakageQuestion) -> str:
    tracking = tx.tracking(red.swarm_id, red.task_id)
    if tracking is None or tracking.report is None or tracking.sha != red.sha:
        return ""
    report = CiReport.model_validate_json(tracking.report)
    tails = (job.log_tail for run in report.runs for job in run.jobs if job.name in question.jobs)
    return next((tail for tail in tails if tail), "")


def _lock_if_unknown(tx: Transaction, red: RepoState) -> bool:
    return tx.take_swarm(red.swarm_id) is not None and not _is_known(tx, red)


def _is_known(tx: Transaction, red: RepoState) -> bool:
    return tx.event_of_report(red.swarm_id, red.task_id, _key(red)) is not None


def _key(red: RepoState) -> bytes:
    return report_digest("breakage", f"{red.repo} {red.sha} {red.run_id}")


def _push_data(push: UpstreamPush) -> dict[str, Any]:
    return {
        "repo": push.repo,
        "sha": push.sha,
        "swarm_id": push.swarm_id,
        "bead_id": push.task_id,
        "at": push.at_ms,
    }


def _add_event(
    tx: Transaction, red: RepoState, kind: EventKind, now_ms: int, **facts: object
) -> None:
    held = tx.assignment(red.swarm_id, red.task_id)
    about = {
        "bead_id": red.task_id,
        "worker": held.worker if held is not None else None,
        "repo": red.repo,
        "sha": red.sha,
        "run_id": red.run_id,
    }
    tx.add_event(
        red.swarm_id,
        kind,
        now_ms,
        {**about, **facts},
        task_id=red.task_id,
        report_key=_key(red),
    )
