"""Use cases of questions: a blocked worker asks, its contact answers, the worker continues."""

from __future__ import annotations

import json

from shiftboss.coordinator.bus.dispatch import take_swarm
from shiftboss.coordinator.contract.attempts import amend_checkpoint, restart_clock
from shiftboss.coordinator.runs.holds import lift_answer_hold
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import AlreadyAnswered, Forbidden, UnknownQuestion
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.questions import AnswerQuestionRequest, Dispute, QuestionList, QuestionView
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.checkpoints import answered
from shiftboss.rules.handoffs.escalations import asks_about_refusals
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Question
from shiftboss.store.port import Transaction

QUESTIONS_LISTED_MAX = 200


def ask(
    tx: Transaction,
    assignment: Assignment,
    contact: str,
    question: str,
    now_ms: int,
    report_key: bytes | None = None,
    dispute: Dispute | None = None,
) -> int:
    """Ask a question that blocks the worker until it is answered, with a long lease. `dispute`: the
    worker disputes its contract."""
    tx.save_assignment(
        assignment._replace(
            state=WorkerState.BLOCKED,
            updated_at_ms=now_ms,
            lease_expires_at_ms=lease_end_ms(assignment, WorkerState.BLOCKED, now_ms),
        )
    )
    restart_clock(tx, assignment, now_ms)
    return note(tx, assignment, contact, question, now_ms, report_key, dispute, blocks=True)


def note(
    tx: Transaction,
    assignment: Assignment,
    contact: str,
    question: str,
    now_ms: int,
    report_key: bytes | None = None,
    dispute: Dispute | None = None,
    *,
    blocks: bool = False,
) -> int:
    """Ask a question that blocks nobody: the worker continues, or its attempt has ended. `blocks`:
    the caller has blocked the attempt."""
    asked = Question(
        swarm_id=assignment.swarm_id,
        question_id=0,
        task_id=assignment.task_id,
        epoch=assignment.epoch,
        worker=assignment.worker,
        contact=contact,
        question=question,
        asked_at_ms=now_ms,
        dispute=None if dispute is None else dispute.model_dump_json(),
    )
    return put(tx, asked, report_key, blocks=blocks)


def put(
    tx: Transaction, question: Question, report_key: bytes | None = None, *, blocks: bool = False
) -> int:
    """Store the question; its id."""
    question_id = tx.add_question(question)
    tx.add_event(
        question.swarm_id,
        EventKind.QUESTION_ASKED,
        question.asked_at_ms,
        {
            "question_id": question_id,
            "bead_id": question.task_id,
            "worker": question.worker,
            "epoch": question.epoch,
            "contact": question.contact,
            "question": question.question,
            "blocks": blocks,
            "dispute": question.dispute and json.loads(question.dispute)["kind"],
        },
        task_id=question.task_id,
        report_key=report_key,
    )
    return question_id


def answer(tx: Transaction, request: AnswerQuestionRequest, now_ms: int) -> QuestionView:
    """Everybody may answer, except where the operator has to decide: otherwise a worker could grant
    itself more files."""
    take_swarm(tx, request.swarm_id, now_ms)
    scope_request = tx.scope_request_of_question(request.swarm_id, request.question_id)
    if scope_request is not None:
        decided = f"{scope_request.request_id} --swarm {request.swarm_id}"
        raise Forbidden(
            f"question {request.question_id} asks for more files, which only the operator may "
            "grant; nothing was changed",
            field="question_id",
            hint=f"`shiftboss scope grant {decided}` or "
            f"`shiftboss scope refuse {decided}` (operator)",
        )
    return put_answer(tx, request, now_ms)


def put_answer(tx: Transaction, request: AnswerQuestionRequest, now_ms: int) -> QuestionView:
    """For a caller that has locked the swarm. A repeated answer changes nothing; a different one is
    refused."""
    question = tx.question(request.swarm_id, request.question_id)
    if question is None:
        raise UnknownQuestion(f"Unknown question: {request.question_id}", field="question_id")
    if question.answer is None:
        tx.answer_question(request.swarm_id, request.question_id, request.answer, now_ms)
        question = question._replace(answer=request.answer, answered_at_ms=now_ms)
        _continue_attempt(tx, question, now_ms)
        decision = answered(question.question, request.answer)
        amend_checkpoint(tx, request.swarm_id, question.task_id, decisions=[decision])
    elif question.answer != request.answer:
        raise AlreadyAnswered(
            f"question {request.question_id} already has another answer; nothing was changed",
            field="question_id",
            facts={"answer": question.answer},
        )
    return view(question)


def answer_disputes(tx: Transaction, swarm_id: str, task_id: str, text: str, now_ms: int) -> None:
    """The operator has changed what the task is checked against: a worker that disputed it
    continues."""
    for question in tx.open_questions_of_task(swarm_id, task_id, QUESTIONS_LISTED_MAX):
        if question.dispute is not None:
            _answer_by_change(tx, question, text, now_ms)


def answer_about_refusals(
    tx: Transaction, swarm_id: str, task_id: str, text: str, now_ms: int
) -> None:
    """The operator has waived what the last claim was refused for."""
    for question in tx.open_questions_of_task(swarm_id, task_id, QUESTIONS_LISTED_MAX):
        if question.dispute is None and asks_about_refusals(question.question):
            _answer_by_change(tx, question, text, now_ms)


def _answer_by_change(tx: Transaction, question: Question, text: str, now_ms: int) -> None:
    request = AnswerQuestionRequest(
        swarm_id=question.swarm_id, question_id=question.question_id, answer=text
    )
    put_answer(tx, request, now_ms)


def _continue_attempt(tx: Transaction, question: Question, now_ms: int) -> None:
    """Let the blocked attempt execute again, if it is still the one that asked."""
    assignment = tx.assignment(question.swarm_id, question.task_id)
    continues = (
        assignment is not None
        and assignment.epoch == question.epoch
        and assignment.state is WorkerState.BLOCKED
    )
    if assignment is not None and continues:
        tx.save_assignment(
            assignment._replace(
                state=WorkerState.EXECUTING,
                updated_at_ms=now_ms,
                lease_expires_at_ms=lease_end_ms(assignment, WorkerState.EXECUTING, now_ms),
            )
        )
        restart_clock(tx, assignment, now_ms, helped=True)
    else:
        question = _readdress(tx, question, assignment)
    tx.add_event(
        question.swarm_id,
        EventKind.QUESTION_ANSWERED,
        now_ms,
        {
            "question_id": question.question_id,
            "bead_id": question.task_id,
            "worker": question.worker,
            "epoch": question.epoch,
            "question": question.question,
            "answer": question.answer,
            "continues": continues,
        },
        task_id=question.task_id,
    )
    if not tx.open_questions_of_task(question.swarm_id, question.task_id, 1):
        lift_answer_hold(tx, question.swarm_id, question.task_id, now_ms)


def _readdress(tx: Transaction, question: Question, assignment: Assignment | None) -> Question:
    """The attempt that asked has ended. If another one has started, it gets the answer; if not, the
    next one does (`dispatch.assign`)."""
    task = tx.task(question.swarm_id, question.task_id)
    if task is None or task.epoch <= question.epoch:
        return question
    tx.readdress_question(question.swarm_id, question.question_id, task.epoch)
    worker = question.worker if assignment is None else assignment.worker
    return question._replace(epoch=task.epoch, worker=worker)


def listing(tx: Transaction, swarm_id: str, *, only_open: bool) -> QuestionList:
    check_exists(tx, swarm_id)
    questions = tx.questions(swarm_id, QUESTIONS_LISTED_MAX, only_open=only_open)
    return QuestionList(questions=[view(question) for question in questions])


def view(question: Question) -> QuestionView:
    return QuestionView(
        question_id=question.question_id,
        bead_id=question.task_id,
        worker=question.worker,
        epoch=question.epoch,
        contact=question.contact,
        question=question.question,
        asked_at=question.asked_at_ms,
        answer=question.answer,
        answered_at=question.answered_at_ms,
        dispute=Dispute.model_validate_json(question.dispute) if question.dispute else None,
    )
