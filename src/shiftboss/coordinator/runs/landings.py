"""Use cases of landing: what is accepted and not on its target yet, and what has got there."""

from __future__ import annotations

import json

from shiftboss.coordinator.contract import locks
from shiftboss.coordinator.contract.cascade import landed_at
from shiftboss.coordinator.contract.locks import take_back
from shiftboss.coordinator.swarms.swarms import existing
from shiftboss.errors import Conflict, InvalidRequest, UnknownHandoff, UnknownReceipt, UnknownTask
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.protocol.runs import (
    Landable,
    LandableList,
    LandedAnswer,
    ListLandableRequest,
    ReportLandedRequest,
)
from shiftboss.rules.claims.handoffs import Handoff
from shiftboss.rules.runs.records import LandingRecord
from shiftboss.store.handoff_port import ReceiptRow
from shiftboss.store.port import Transaction


def accepted(tx: Transaction, receipt: ReceiptRow) -> None:
    """From here on it can land."""
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
    if request.swarm_id != DEFAULT_SWARM:
        existing(tx, request.swarm_id)
    found = tx.landings_to_come(request.swarm_id, _mark(request.after), request.limit)
    last = found[-1] if len(found) == request.limit else None
    return LandableList(
        tasks=[_landable(tx, one) for one in found],
        next_after=f"{last.accepted_at_ms}:{last.receipt_id}" if last else None,
    )


def _mark(after: str) -> tuple[int, str]:
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
    )


def _handoff(tx: Transaction, swarm_id: str, task_id: str) -> Handoff:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is None:
        raise UnknownHandoff(task_id)
    return handoff


def reported(tx: Transaction, request: ReportLandedRequest) -> tuple[LandingRecord, Handoff]:
    """The accepted work that a report is about. Raises where the report does not fit it."""
    if request.swarm_id != DEFAULT_SWARM:
        existing(tx, request.swarm_id)
    landing = tx.landing(request.swarm_id, request.bead_id)
    if landing is None:
        if tx.task(request.swarm_id, request.bead_id) is None:
            raise UnknownTask(request.bead_id)
        raise UnknownReceipt(
            f"{request.bead_id} has no receipt: nobody has proven that it is done",
            field="bead_id",
            hint="work lands when it is accepted; see swarm_complete",
        )
    if request.commit != landing.commit_sha:
        raise Conflict(
            f"{landing.commit_sha} of {request.bead_id} was accepted, not {request.commit}; "
            "nothing was changed",
            field="commit",
            facts={"commit": landing.commit_sha, "receipt_id": landing.receipt_id},
        )
    handoff = _handoff(tx, request.swarm_id, request.bead_id)
    if handoff.target not in (None, request.target):
        raise Conflict(
            f"{request.bead_id} goes to {handoff.target}, not to {request.target}; nothing was "
            "changed",
            field="target",
            facts={"target": handoff.target},
        )
    return landing, handoff


def landed(
    tx: Transaction, request: ReportLandedRequest, ci: str | None, now_ms: int
) -> LandedAnswer:
    """For a caller that has looked: the commits are on the target. `ci` is what is known of the one
    that landed, where a policy wants to know: passed, failed, pending or unverifiable. The first
    report counts; one that comes again can only tell more of the CI."""
    tx.take_swarm(request.swarm_id)
    landing, handoff = reported(tx, request)
    if landing.landed_commit is None:
        landing = landing._replace(
            target=request.target, landed_commit=request.landed_commit, landed_at_ms=now_ms
        )
        tx.put_landing(landing)
        _tell(tx, landing, now_ms)
        take_back(tx, landing.swarm_id, landing.task_id, now_ms)
        landed_at(tx, handoff, landing, now_ms)
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


def still_locked(tx: Transaction) -> list[tuple[LandingRecord, Handoff]]:
    """What has landed as a merge that CI has not passed: the policy keeps its repo locked."""
    return [
        (landing, handoff)
        for lock in tx.repo_locks()
        if (landing := tx.landing(lock.swarm_id, lock.task_id)) is not None
        and landing.landed_commit is not None
        and (handoff := tx.handoff(lock.swarm_id, lock.task_id)) is not None
    ]


def looked_again(
    tx: Transaction, seen: LandingRecord, handoff: Handoff, ci: str | None, now_ms: int
) -> None:
    if tx.take_swarm(seen.swarm_id) is not None:
        locks.release_landed(tx, handoff, seen, ci, now_ms)


def _tell(tx: Transaction, landing: LandingRecord, now_ms: int) -> None:
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


def landed_commit(tx: Transaction, swarm_id: str, task_id: str) -> str | None:
    landing = tx.landing(swarm_id, task_id)
    return landing.landed_commit if landing is not None else None
