"""Use case of waivers: the operator accepts work although a check of it fails."""

from __future__ import annotations

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.dispatch import take_swarm
from shiftboss.errors import Conflict, UnknownHandoff
from shiftboss.protocol.claims.verdicts import Verdict, Waiver
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import WaiveAnswer, WaiveRequest
from shiftboss.protocol.handoffs import VerificationPolicy, WorkerHandoff
from shiftboss.rules.claims.waivers import check_waiver, covers_refusal
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.store.port import Transaction


def waive(tx: Transaction, request: WaiveRequest, now_ms: int) -> WaiveAnswer:
    """The receipt will record it. A worker that waits because of this check continues."""
    take_swarm(tx, request.swarm_id, now_ms)
    handoff = tx.handoff(request.swarm_id, request.bead_id)
    if handoff is None:
        raise UnknownHandoff(request.bead_id)
    contract = WorkerHandoff.model_validate_json(handoff.body).contract
    check_waiver(request.check, request.subject, contract.success_criteria)
    _check_not_accepted(tx, handoff)
    if request.check == "ancestry":
        _check_has_work(tx, handoff)
    waiver = Waiver(
        check=request.check,
        subject=request.subject,
        reason=request.reason,
        granted_by=tx.actor.recorded_as(request.granted_by),
    )
    tx.put_waiver(request.swarm_id, request.bead_id, waiver, now_ms)
    tx.add_event(
        request.swarm_id,
        EventKind.WAIVER_GRANTED,
        now_ms,
        {"bead_id": request.bead_id, **waiver.model_dump()},
        task_id=request.bead_id,
    )
    _answer_questions(tx, handoff, waiver, now_ms)
    return WaiveAnswer(
        success=True, bead_id=request.bead_id, check=request.check, subject=request.subject
    )


def _check_not_accepted(tx: Transaction, handoff: Handoff) -> None:
    task = tx.task(handoff.swarm_id, handoff.task_id)
    if task is None or task.status != "done":
        return
    landing = tx.landing(handoff.swarm_id, handoff.task_id)
    has_landed = landing is not None and landing.landed_commit is not None
    state = "has landed" if has_landed else "is accepted"
    receipt = f"shiftboss receipt show {handoff.task_id} --swarm {handoff.swarm_id}"
    raise Conflict(
        f"{handoff.task_id} {state}, so a waiver has no effect; nothing was changed",
        field="bead_id",
        hint=f"`{receipt}` shows which checks it has passed",
        facts={"task_status": task.status},
    )


def _check_has_work(tx: Transaction, handoff: Handoff) -> None:
    """A receipt for the base itself would contradict itself."""
    last = tx.last_claim(handoff.swarm_id, handoff.task_id)
    if last is None or last.verdict is None:
        return
    if Verdict.model_validate_json(last.verdict).commit == handoff.base_commit:
        retry = f"shiftboss task retry {handoff.task_id} --swarm {handoff.swarm_id}"
        raise Conflict(
            f"{handoff.task_id} claims the base itself: there is no work to accept; nothing was "
            "changed",
            field="check",
            hint=f"`{retry}` lets another attempt do the work",
        )


def _answer_questions(tx: Transaction, handoff: Handoff, waiver: Waiver, now_ms: int) -> None:
    subject = "" if waiver.subject == "*" else f" of {waiver.subject}"
    text = f"The check {waiver.check}{subject} is waived: {waiver.reason}"
    task = (handoff.swarm_id, handoff.task_id)
    questions.answer_disputes(tx, *task, text, now_ms)
    last = tx.last_claim(*task)
    if last is None or last.state != "refused" or last.verdict is None:
        return
    verdict = Verdict.model_validate_json(last.verdict)
    policy = VerificationPolicy.model_validate_json(handoff.policy)
    if covers_refusal(verdict, policy, tx.waivers(*task)):
        questions.answer_about_refusals(tx, *task, text, now_ms)
