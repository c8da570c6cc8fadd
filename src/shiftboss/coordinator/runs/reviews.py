"""Use cases of reviews: accepted work that a person approves before it lands, or rejects."""

from __future__ import annotations

import json

from shiftboss.coordinator.bus.dispatch import drain, take_task
from shiftboss.coordinator.bus.task_endings import release_dependents
from shiftboss.errors import Conflict, NotApproved
from shiftboss.protocol.bus import ReviewView
from shiftboss.protocol.claims.receipts import SignedReceipt
from shiftboss.protocol.claims.verdicts import RejectedWork
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.runs import ApproveRequest, RejectRequest, ReviewAnswer
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.runs.records import LandingRecord, ReviewRecord
from shiftboss.rules.tasks.tasks import Salvage, Task
from shiftboss.store.handoffs.port import ReceiptRow
from shiftboss.store.port import Transaction


def request_review(tx: Transaction, receipt: ReceiptRow, now_ms: int) -> None:
    """Accepted work waits for a person. A review of earlier work of the task is replaced."""
    review = ReviewRecord(
        receipt.swarm_id,
        receipt.task_id,
        receipt.receipt_id,
        receipt.commit_sha,
        "open",
        now_ms,
    )
    tx.put_review(review)
    _add_event(tx, review, EventKind.REVIEW_REQUESTED, now_ms)


def approve(tx: Transaction, request: ApproveRequest, now_ms: int) -> ReviewAnswer:
    """The work may land, and the tasks that depend on it may start. A repeat changes nothing."""
    task, _, _ = take_task(tx, request.swarm_id, request.bead_id)
    review = _reviewed(tx, task, request.commit)
    if review.state == "approved":
        return _answer(review, changed=False)
    _check_open(review)
    by = tx.actor.recorded_as(request.by)
    review = review._replace(state="approved", decided_by=by, decided_at_ms=now_ms)
    tx.put_review(review)
    _add_event(tx, review, EventKind.REVIEW_APPROVED, now_ms, by=by)
    release_dependents(tx, task, now_ms)
    drain(tx, task.swarm_id, now_ms)
    return _answer(review, changed=True)


def reject(tx: Transaction, request: RejectRequest, now_ms: int) -> ReviewAnswer:
    """The task has failed, and its commit does not land. The next attempt gets the reason."""
    task, _, _ = take_task(tx, request.swarm_id, request.bead_id)
    review = _reviewed(tx, task, request.commit)
    if review.state == "rejected" and review.reason == request.reason:
        return _answer(review, changed=False)
    _check_open(review)
    by = tx.actor.recorded_as(request.by)
    review = review._replace(
        state="rejected", decided_by=by, decided_at_ms=now_ms, reason=request.reason
    )
    tx.put_review(review)
    _remember(tx, review, by, request.reason, now_ms)
    tx.drop_landing(task.swarm_id, task.task_id)
    _fail(tx, task, review, now_ms)
    _add_event(tx, review, EventKind.REVIEW_REJECTED, now_ms, by=by, reason=request.reason)
    return _answer(review, changed=True)


def _remember(tx: Transaction, review: ReviewRecord, by: str, reason: str, now_ms: int) -> None:
    """Another claim of this work is refused. A waiver of that was about an earlier rejection."""
    receipt = tx.receipt(review.receipt_id)
    assert receipt is not None, "a review is about a receipt that is there"
    rejected = RejectedWork(
        commit=review.commit_sha,
        tree=SignedReceipt.model_validate_json(receipt.body).receipt.tree,
        reason=reason,
        rejected_by=by,
    )
    tx.put_rejection(review.swarm_id, review.task_id, rejected, now_ms)
    tx.drop_waivers_of_check(review.swarm_id, review.task_id, "review")


def _fail(tx: Transaction, task: Task, review: ReviewRecord, now_ms: int) -> None:
    handoff = tx.handoff(task.swarm_id, task.task_id)
    checkpoint: dict[str, object] = {"instructions": review.reason}
    if handoff is None or handoff.landing == "merge":
        # Work built on the rejected commit would bring it to the target.
        checkpoint["start_over"] = True
    worker = task.worker or ""
    salvage = Salvage(task.epoch, worker, "rejected", [review.commit_sha])
    tx.add_salvage(task.swarm_id, task.task_id, salvage, now_ms)
    tx.save_task(
        task._replace(
            status="failed",
            failures=task.failures + 1,
            last_error=f"rejected by {review.decided_by}: {review.reason}",
            checkpoint=json.dumps(checkpoint),
            updated_at_ms=now_ms,
        )
    )


def check_approved(tx: Transaction, landing: LandingRecord, handoff: Handoff) -> None:
    """Raises NotApproved if the work must be reviewed and this commit was not approved."""
    if handoff.review != "required":
        return
    review = tx.review(landing.swarm_id, landing.task_id)
    reviewed = None if review is None else (review.state, review.receipt_id, review.commit_sha)
    if reviewed != ("approved", landing.receipt_id, landing.commit_sha):
        raise NotApproved(
            f"{landing.task_id} has to be reviewed before it lands; nothing was changed",
            field="bead_id",
            hint=f"`shiftboss approve {landing.task_id} --swarm {landing.swarm_id}` (operator)",
        )


def is_in_review(tx: Transaction, task: Task) -> bool:
    """Whether the task is done, but waits for its approval."""
    if task.status != "done" or task.contract_version is None:
        return False
    review = tx.review(task.swarm_id, task.task_id)
    return review is not None and review.state == "open"


def view(review: ReviewRecord | None) -> ReviewView | None:
    if review is None:
        return None
    return ReviewView(
        state=review.state,
        commit=review.commit_sha,
        receipt_id=review.receipt_id,
        requested_at=review.requested_at_ms,
        decided_by=review.decided_by,
        decided_at=review.decided_at_ms,
        reason=review.reason,
    )


def _reviewed(tx: Transaction, task: Task, commit: str | None) -> ReviewRecord:
    """The review of the commit. A decision about other work than the newest is refused."""
    review = tx.review(task.swarm_id, task.task_id)
    if review is None:
        raise Conflict(
            f"{task.task_id} is not in review; nothing was changed",
            field="bead_id",
            hint="a review starts when the work of a task with `review: required` is accepted",
        )
    if commit is not None and not review.commit_sha.startswith(commit):
        raise Conflict(
            f"the commit of {task.task_id} in review is {review.commit_sha[:12]}, not "
            f"{commit[:12]}; nothing was changed",
            field="commit",
            facts={"commit": review.commit_sha},
        )
    return review


def _check_open(review: ReviewRecord) -> None:
    if review.state != "open":
        raise Conflict(
            f"{review.task_id} was {review.state} by {review.decided_by}; nothing was changed",
            field="bead_id",
            facts={"state": review.state},
        )


def _answer(review: ReviewRecord, *, changed: bool) -> ReviewAnswer:
    return ReviewAnswer(
        success=True,
        changed=changed,
        bead_id=review.task_id,
        state=review.state,
        commit=review.commit_sha,
        receipt_id=review.receipt_id,
    )


def _add_event(
    tx: Transaction, review: ReviewRecord, kind: EventKind, now_ms: int, **facts: object
) -> None:
    tx.add_event(
        review.swarm_id,
        kind,
        now_ms,
        {
            "bead_id": review.task_id,
            "commit": review.commit_sha,
            "receipt_id": review.receipt_id,
            **facts,
        },
        task_id=review.task_id,
    )
