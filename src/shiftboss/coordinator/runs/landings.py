"""Use cases of landings: accepted work on its way to its target branch, and work that landed."""

from __future__ import annotations

import json

from shiftboss.coordinator.contract import locks
from shiftboss.coordinator.contract.cascade import record_landing_push
from shiftboss.coordinator.contract.locks import reclaim_lock
from shiftboss.coordinator.runs.reviews import check_approved
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import (
    CiUnavailable,
    Conflict,
    InvalidRequest,
    UnknownHandoff,
    UnknownReceipt,
    UnknownSwarm,
    UnknownTask,
)
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.protocol.runs import (
    Landable,
    LandableList,
    LandedAnswer,
    ListLandableRequest,
    ReportLandedRequest,
    ReportRunAnswer,
    ReportRunRequest,
)
from shiftboss.rules.contract.ci_verdict import ci_state, judge_ci_report
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.runs.merge_tasks import merge_tasks_of
from shiftboss.rules.runs.records import LandingRecord, PlanRunRecord
from shiftboss.store.handoffs.port import ReceiptRow
from shiftboss.store.monitoring.measures import Measure
from shiftboss.store.port import Transaction


def record_run(tx: Transaction, request: ReportRunRequest, now_ms: int) -> ReportRunAnswer:
    """Remember the plan of the swarm, for the commands that continue or land it."""
    if tx.take_swarm(request.swarm_id) is None:
        raise UnknownSwarm(request.swarm_id)
    tx.put_plan_run(PlanRunRecord(request.swarm_id, request.plan_file, now_ms, request.auto_merge))
    return ReportRunAnswer(success=True)


def add_landing(tx: Transaction, receipt: ReceiptRow) -> None:
    """Record accepted work, which can land from now on."""
    tx.put_landing(
        LandingRecord(
            receipt.swarm_id,
            receipt.task_id,
            receipt.receipt_id,
            receipt.commit_sha,
            receipt.accepted_at_ms,
        )
    )


def landable(tx: Transaction, request: ListLandableRequest) -> LandableList:
    check_exists(tx, request.swarm_id)
    landings = tx.landings_to_come(request.swarm_id, _parse_page_mark(request.after), request.limit)
    last = landings[-1] if len(landings) == request.limit else None
    return LandableList(
        tasks=[_landable(tx, landing) for landing in landings],
        next_after=f"{last.accepted_at_ms}:{last.receipt_id}" if last else None,
    )


def _parse_page_mark(after: str) -> tuple[int, str]:
    if not after:
        return (-1, "")
    at_ms, colon, receipt_id = after.partition(":")
    if not (colon and at_ms.isascii() and at_ms.isdecimal() and len(at_ms) <= 15):
        raise InvalidRequest("after: must be the next_after of another page", field="after")
    return int(at_ms), receipt_id


def _landable(tx: Transaction, landing: LandingRecord) -> Landable:
    handoff = _handoff(tx, landing.swarm_id, landing.task_id)
    contract = WorkerHandoff.model_validate_json(handoff.body).contract
    task = tx.task(landing.swarm_id, landing.task_id)
    return Landable(
        bead_id=landing.task_id,
        title=task.title if task else landing.task_id,
        repo=handoff.repo,
        repo_name=handoff.repo_name,
        base_commit=handoff.base_commit,
        branch=handoff.branch,
        target=handoff.target,
        commit=landing.commit_sha,
        receipt_id=landing.receipt_id,
        accepted_at=landing.accepted_at_ms,
        contract_version=handoff.version,
        files_owned=contract.files_owned,
        success_criteria=contract.success_criteria,
        policy=json.loads(handoff.policy),
        depends_on=contract.dependencies_completed,
        landing=handoff.landing,
        review=_review_state(tx, landing, handoff),
    )


def _review_state(tx: Transaction, landing: LandingRecord, handoff: Handoff) -> str | None:
    """For a task that was accepted before a review was required, the review never started."""
    if handoff.review != "required":
        return None
    review = tx.review(landing.swarm_id, landing.task_id)
    return "open" if review is None else review.state


def _handoff(tx: Transaction, swarm_id: str, task_id: str) -> Handoff:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is None:
        raise UnknownHandoff(task_id)
    return handoff


def reported_landing(
    tx: Transaction, request: ReportLandedRequest
) -> tuple[LandingRecord, Handoff]:
    """The accepted work that a report is about. Raises if the report contradicts it."""
    check_exists(tx, request.swarm_id)
    landing = tx.landing(request.swarm_id, request.bead_id)
    if landing is None:
        if tx.task(request.swarm_id, request.bead_id) is None:
            raise UnknownTask(request.bead_id)
        raise UnknownReceipt(
            f"{request.bead_id} has no receipt: its completion was not accepted",
            field="bead_id",
            hint="only accepted work lands; see swarm_complete",
        )
    if request.commit != landing.commit_sha:
        raise Conflict(
            f"the accepted commit of {request.bead_id} is {landing.commit_sha}, not "
            f"{request.commit}; nothing was changed",
            field="commit",
            facts={"commit": landing.commit_sha, "receipt_id": landing.receipt_id},
        )
    handoff = _handoff(tx, request.swarm_id, request.bead_id)
    if handoff.target not in (None, request.target):
        raise Conflict(
            f"the target of {request.bead_id} is {handoff.target}, not {request.target}; nothing "
            "was changed",
            field="target",
            facts={"target": handoff.target},
        )
    return landing, handoff


def accepted_commits(tx: Transaction, swarm_id: str, task_id: str, commit: str) -> list[str]:
    """The accepted commits whose squash can stand for the accepted `commit` of a task: itself, and
    those of its merge tasks."""
    accepted = [tx.landing(swarm_id, name) for name in merge_tasks_of(task_id)]
    return [commit, *(landing.commit_sha for landing in accepted if landing is not None)]


def record_landed(
    tx: Transaction, request: ReportLandedRequest, ci: str | None, now_ms: int
) -> LandedAnswer:
    """Record that work has landed; the caller has checked that the commits are on the target.

    `ci` is the CI result of the landed commit, where the policy requires one: passed, failed,
    pending or unverifiable. The first report counts; a repeat can only update the CI result.
    """
    tx.take_swarm(request.swarm_id)
    landing, handoff = reported_landing(tx, request)
    if landing.landed_commit is None:
        check_approved(tx, landing, handoff)
        landing = landing._replace(
            target=request.target, landed_commit=request.landed_commit, landed_at_ms=now_ms
        )
        tx.put_landing(landing)
        seconds = (now_ms - landing.accepted_at_ms) / 1000
        tx.measure(Measure.LANDING_WAIT, seconds, task=(landing.swarm_id, landing.task_id))
        _add_event(tx, landing, now_ms)
        reclaim_lock(tx, landing.swarm_id, landing.task_id, now_ms)
        record_landing_push(tx, handoff, landing, now_ms)
    locked = locks.release_landed(tx, handoff, landing, ci, now_ms)
    return LandedAnswer(
        success=True,
        bead_id=landing.task_id,
        commit=landing.commit_sha,
        target=landing.target or request.target,
        landed_commit=landing.landed_commit or request.landed_commit,
        landed_at=landing.landed_at_ms or now_ms,
        repo_locked=locked,
    )


async def ci_of_landed(
    evidence: Evidence, handoff: Handoff, accepted: str, landed: str
) -> str | None:
    """The CI result of a landed commit: passed, failed, pending or unverifiable. None where the
    policy does not require one. The accepted commit itself has passed before; a merge has not."""
    if not handoff.lands_later or handoff.ci is None:
        return None
    if landed == accepted:
        return "passed"
    demand = CiDemand.model_validate_json(handoff.ci)
    demand = demand.model_copy(update={"branch": handoff.target})
    try:
        report = await evidence.ci_report(demand, landed)
    except CiUnavailable:
        return "pending"
    return ci_state(judge_ci_report(report, demand))


def still_locked(tx: Transaction) -> list[tuple[LandingRecord, Handoff]]:
    """Landed merges that have not passed CI yet: the policy keeps their repos locked."""
    return [
        (landing, handoff)
        for lock in tx.repo_locks()
        if (landing := tx.landing(lock.swarm_id, lock.task_id)) is not None
        and landing.landed_commit is not None
        and (handoff := tx.handoff(lock.swarm_id, lock.task_id)) is not None
    ]


def update_ci(
    tx: Transaction, seen: LandingRecord, handoff: Handoff, ci: str | None, now_ms: int
) -> None:
    if tx.take_swarm(seen.swarm_id) is not None:
        locks.release_landed(tx, handoff, seen, ci, now_ms)


def _add_event(tx: Transaction, landing: LandingRecord, now_ms: int) -> None:
    tx.add_event(
        landing.swarm_id,
        EventKind.TASK_LANDED,
        now_ms,
        {
            "bead_id": landing.task_id,
            "commit": landing.commit_sha,
            "target": landing.target,
            "landed_commit": landing.landed_commit,
            "receipt_id": landing.receipt_id,
        },
        task_id=landing.task_id,
    )
