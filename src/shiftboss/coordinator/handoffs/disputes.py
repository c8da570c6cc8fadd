"""Use cases of disputes: a worker says that its contract is wrong or impossible, and the operator
amends it or insists on it.

A dispute is no failure: the attempt waits for the answer, as it does for that of any question.
"""

from __future__ import annotations

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.dispatch import take_swarm
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.handoffs.spawn import check_describable, put_in_force
from shiftboss.coordinator.handoffs.spawn_checks import check_criteria, check_runs_held_out
from shiftboss.coordinator.handoffs.strategy_records import record_signal
from shiftboss.coordinator.handoffs.views import show
from shiftboss.coordinator.runs.holds import OPEN_QUESTIONS_READ_MAX
from shiftboss.errors import InvalidRequest, StaleContract, TaskEnded, UnknownHandoff
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import (
    AmendHandoffRequest,
    DisputeContractRequest,
    DisputeView,
    HandoffView,
)
from shiftboss.protocol.handoffs import (
    VerificationPolicy,
    WorkerHandoff,
    canonical_json,
    handoff_hash,
)
from shiftboss.protocol.questions import Dispute
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import check_no_claim
from shiftboss.rules.handoffs.escalations import (
    check_can_dispute,
    check_not_answered,
    dispute_question,
)
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.handoffs.new_contracts import normalised_paths
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Question, check_holds, is_ended, is_reserved
from shiftboss.store.port import Transaction

ANSWERED_READ_MAX = 20


def dispute_contract(tx: Transaction, request: DisputeContractRequest, now_ms: int) -> DisputeView:
    """Block the attempt on a question to its contact. While a dispute is open, another one of the
    same task is the same dispute."""
    if is_reserved(request.bead_id):
        raise InvalidRequest(
            f"bead_id: {request.bead_id} is a packet, whose worker cannot wait for an answer",
            field="bead_id",
            hint="report the problem with swarm_error",
        )
    take_swarm(tx, request.swarm_id, now_ms)
    handoff = _handoff_in_force(tx, request.swarm_id, request.bead_id)
    current = tx.assignment(request.swarm_id, request.bead_id)
    held = check_holds(current, request.bead_id, request.name, request.epoch)
    dispute = Dispute(
        kind=request.kind, reason=request.reason, evidence=request.evidence, commit=request.commit
    )
    question = dispute_of_holder(tx, held, handoff, dispute, now_ms)
    return _view(question, handoff.version)


def dispute_of_holder(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    dispute: Dispute,
    now_ms: int,
    report_key: bytes | None = None,
) -> Question:
    """For a caller that has locked the swarm and knows who holds the task."""
    check_can_dispute(held)
    earlier = _open_dispute(tx, held)
    if earlier is not None:
        return earlier
    answered = tx.answered_disputes(held.swarm_id, held.task_id, held.epoch, ANSWERED_READ_MAX)
    check_not_answered(dispute, answered, handoff.created_at_ms)
    contact = WorkerHandoff.model_validate_json(handoff.body).escalation.blocked_contact
    # The swarm is locked, so no other request takes this number.
    newest = tx.questions(held.swarm_id, 1, only_open=False)
    number = newest[0].question_id + 1 if newest else 1
    text = dispute_question(held.worker, held.swarm_id, held.task_id, number, dispute)
    # A worker that asks again has used the earlier answers.
    tx.mark_answers_delivered(held.swarm_id, held.task_id, held.epoch)
    question_id = questions.ask(tx, held, contact, text, now_ms, report_key, dispute)
    _add_event(tx, held, handoff, dispute, question_id, now_ms)
    record_signal(tx, handoff, held, "dispute", now_ms, reason=dispute.reason, number=question_id)
    question = tx.question(held.swarm_id, question_id)
    assert question is not None, "it was just stored"
    return question


def _open_dispute(tx: Transaction, held: Assignment) -> Question | None:
    asked = tx.open_questions_of_task(held.swarm_id, held.task_id, OPEN_QUESTIONS_READ_MAX)
    return next((question for question in asked if question.dispute is not None), None)


def _add_event(
    tx: Transaction,
    held: Assignment,
    handoff: Handoff,
    dispute: Dispute,
    question_id: int,
    now_ms: int,
) -> None:
    tx.add_event(
        held.swarm_id,
        EventKind.CONTRACT_DISPUTED,
        now_ms,
        {
            "bead_id": held.task_id,
            "worker": held.worker,
            "epoch": held.epoch,
            "question_id": question_id,
            "contract_version": handoff.version,
            "kind": dispute.kind,
            "reason": dispute.reason,
            "commit": dispute.commit,
        },
        task_id=held.task_id,
    )


def _view(question: Question, version: int) -> DisputeView:
    assert question.dispute is not None
    dispute = Dispute.model_validate_json(question.dispute)
    return DisputeView(
        question_id=question.question_id,
        bead_id=question.task_id,
        worker=question.worker,
        epoch=question.epoch,
        status=WorkerState.BLOCKED.value,
        kind=dispute.kind,
        reason=dispute.reason,
        evidence=dispute.evidence,
        commit=dispute.commit,
        contact=question.contact,
        contract_version=version,
        asked_at=question.asked_at_ms,
    )


def amend(tx: Transaction, request: AmendHandoffRequest, now_ms: int) -> HandoffView:
    """Put a new version of the contract in force, and let a worker that disputed it continue. Base,
    branch and everything else that is not given stay as they are."""
    take_swarm(tx, request.swarm_id, now_ms)
    handoff = _handoff_in_force(tx, request.swarm_id, request.bead_id)
    if request.version not in (None, handoff.version):
        raise StaleContract(request.bead_id, request.version or 0, handoff.version)
    _check_amendable(tx, handoff)
    amended = _amended(handoff, request, now_ms)
    if request.success_criteria is not None:
        check_runs_held_out(tx.held_out_tests(handoff), request.success_criteria)
    put_in_force(tx, amended, now_ms)
    questions.answer_disputes(
        tx,
        request.swarm_id,
        request.bead_id,
        f"The contract has version {amended.version} now: {request.reason}{_changing(request)}",
        now_ms,
    )
    return show(tx, request.swarm_id, request.bead_id, None)


def _changing(request: AmendHandoffRequest) -> str:
    """Facts that the waiting worker could not know without asking again."""
    if not request.expectations_change:
        return ""
    return f" (tests may change what they expect in {', '.join(request.expectations_change)})"


def check_amendment(tx: Transaction, request: AmendHandoffRequest, policy: ActivePolicy) -> None:
    """The checks that need the policy. The use case itself makes the others."""
    handoff = tx.handoff(request.swarm_id, request.bead_id)
    if handoff is not None and handoff.repo_name is not None:
        amended = _amended(handoff, request, handoff.created_at_ms)
        body = WorkerHandoff.model_validate_json(amended.body)
        check_describable(body, handoff.repo_name, policy)


def _check_amendable(tx: Transaction, handoff: Handoff) -> None:
    task = tx.task(handoff.swarm_id, handoff.task_id)
    if task is not None and is_ended(task):
        raise TaskEnded(task.task_id, task.status, task.swarm_id)
    attempt = tx.assignment(handoff.swarm_id, handoff.task_id)
    if attempt is None:
        return
    if attempt.state is WorkerState.COMPLETE:
        raise TaskEnded(handoff.task_id, "complete")
    check_no_claim(attempt, "bead_id")


def _amended(handoff: Handoff, request: AmendHandoffRequest, now_ms: int) -> Handoff:
    body = WorkerHandoff.model_validate_json(handoff.body)
    changes: dict[str, list[str]] = {}
    if request.files is not None:
        changes["files_owned"] = normalised_paths(request.files, "files")
    if request.files_readonly is not None:
        changes["files_readonly"] = normalised_paths(request.files_readonly, "files_readonly")
    if request.success_criteria is not None:
        check_criteria(request.success_criteria)
        changes["success_criteria"] = request.success_criteria
    policy = VerificationPolicy.model_validate_json(handoff.policy)
    if request.expectations_change is not None:
        paths = normalised_paths(request.expectations_change, "expectations_change")
        policy = policy.model_copy(update={"expectations_change": paths})
    elif not changes:
        raise InvalidRequest(
            "files: give at least one part of the contract to change",
            field="files",
            hint="files, files_readonly, success_criteria or expectations_change",
        )
    amended = body.model_copy(update={"contract": body.contract.model_copy(update=changes)})
    return handoff._replace(
        version=handoff.version + 1,
        hash=handoff_hash(amended),
        body=canonical_json(amended).decode(),
        policy=canonical_json(policy).decode(),
        reason=f"amended by the operator: {request.reason}",
        created_at_ms=now_ms,
    )


def _handoff_in_force(tx: Transaction, swarm_id: str, task_id: str) -> Handoff:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is None:
        raise UnknownHandoff(task_id)
    return handoff
