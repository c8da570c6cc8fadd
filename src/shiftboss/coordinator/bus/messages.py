"""Use case of messages: a message of a worker moves its current assignment.

Transitions follow the state machine of the rules. A message without an edge from the current state
is refused, and the error names the legal ones.
"""

from __future__ import annotations

import json

from pydantic import ValidationError

from shiftboss.coordinator.bus import questions
from shiftboss.coordinator.bus.dispatch import assign, drain, enqueue, leave_queue, take_worker
from shiftboss.coordinator.bus.polls import answer_view
from shiftboss.coordinator.bus.task_endings import fail_task, finish_task, held_task
from shiftboss.coordinator.bus.workers import (
    is_held_by_server,
    renew_lease,
    wants_checkpoint,
)
from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.contract.halts import check_not_halted
from shiftboss.coordinator.contract.locks import check_has_lock
from shiftboss.coordinator.handoffs.disputes import dispute_of_holder
from shiftboss.coordinator.handoffs.ownership import reserve_if_released
from shiftboss.coordinator.idempotency import first_about, report_digest
from shiftboss.coordinator.runs.holds import check_not_held
from shiftboss.errors import (
    IllegalTransition,
    InvalidRequest,
    NotHeld,
    ShiftbossError,
    UnknownHandoff,
    UnknownTask,
)
from shiftboss.protocol.bus import HeartbeatRequest
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.messages import (
    AssignMessage,
    CompleteMessage,
    FailedMessage,
    HeartbeatMessage,
    Message,
    MessageType,
)
from shiftboss.protocol.problems import invalid_request
from shiftboss.protocol.questions import MessageAnswer
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.access.scope import check_task as check_task_scope
from shiftboss.rules.claims.claims import check_no_claim
from shiftboss.rules.tasks.leases import lease_end_ms
from shiftboss.rules.tasks.lifecycle import TRANSITIONS, can_move
from shiftboss.rules.tasks.message_payloads import (
    all_commits,
    check_task,
    payload_dispute,
    payload_epoch,
    payload_task_id,
    payload_text,
    reported_state,
    with_commit,
)
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.retry import RetryPolicy
from shiftboss.rules.tasks.tasks import check_can_submit, check_epoch
from shiftboss.store.port import Transaction

DEFAULT_CONTACT = "coordinator"
_WORKING_STATES = (WorkerState.EXECUTING, WorkerState.VERIFYING, WorkerState.SELF_REVIEW)
TIMEOUT_SECONDS_MAX = 7 * 86_400


def receive(
    tx: Transaction,
    message: Message,
    swarm_id: str,
    key: str | None,
    retry_policy: RetryPolicy,
    now_ms: int,
) -> MessageAnswer:
    if isinstance(message, AssignMessage):
        return _assign(tx, message, swarm_id, now_ms)
    worker, held = take_worker(tx, swarm_id, message.worker_id, "worker_id")
    report_key = report_digest(f"message {message.type.value}", key)
    task_id = payload_task_id(message) or (held.task_id if held else None)
    if task_id is not None:
        check_task_scope(tx.actor, task_id, "worker_id")
        first = first_about(tx, swarm_id, task_id, report_key, worker.name, payload_epoch(message))
        if first is not None:
            return _repeat_answer(first)
    if held is None:
        if message.type is MessageType.HEARTBEAT:
            return _answer(tx, message.worker_id, None)
        raise IllegalTransition(
            f"{message.worker_id} holds no task",
            field="type",
            hint="an idle worker can be assigned a task",
            facts={"state": WorkerState.IDLE.value, "legal": ["assigned"]},
        )
    check_task_scope(tx.actor, held.task_id, "worker_id")
    check_epoch(held, payload_epoch(message))
    check_task(held, message)
    if isinstance(message, FailedMessage):
        return _failed(tx, held, message, report_key, retry_policy, now_ms)
    return _HANDLERS[message.type](tx, held, message, report_key, now_ms)


def _repeat_answer(first: Event) -> MessageAnswer:
    """Repeat the first answer, from the event that the message led to."""
    data = json.loads(first.data)
    return MessageAnswer(
        accepted=True,
        worker=data["worker"],
        state=data.get("state") or _STATE_AFTER[first.kind].value,
        bead_id=data["bead_id"],
        epoch=data["epoch"],
        question_id=data.get("question_id"),
        claim_id=data.get("claim_id"),
    )


_STATE_AFTER = {
    EventKind.CLAIM_MADE.value: WorkerState.VERIFYING,
    EventKind.TASK_DONE.value: WorkerState.COMPLETE,
    EventKind.TASK_FAILED.value: WorkerState.FAILED,
    EventKind.QUESTION_ASKED.value: WorkerState.BLOCKED,
    EventKind.CHECKPOINT_STORED.value: WorkerState.WAITING,
}


def _assign(tx: Transaction, message: AssignMessage, swarm_id: str, now_ms: int) -> MessageAnswer:
    """The orchestrator assigns a task to a worker of its choice, past the queue."""
    if not 1 <= message.timeout_seconds <= TIMEOUT_SECONDS_MAX:
        raise InvalidRequest(
            f"timeout_seconds: must be from 1 to {TIMEOUT_SECONDS_MAX}", field="timeout_seconds"
        )
    worker, held = take_worker(tx, swarm_id, message.worker_id, "worker_id")
    task = tx.task(swarm_id, message.task_id)
    if task is None:
        raise UnknownTask(message.task_id, "task_id")
    check_can_submit(task)
    if held is not None and held.task_id == task.task_id and held.spec_path == message.spec_path:
        return _answer(tx, worker.name, held)  # a repeat of the same order
    if held is not None:
        raise _illegal(held, WorkerState.ASSIGNED)
    if task.status == "active":
        raise NotHeld(task.task_id, task.worker)
    if task.waits_for:
        raise IllegalTransition(
            f"{task.task_id} waits for other tasks",
            field="task_id",
            hint=f"not done yet: {', '.join(tx.unfinished_dependencies(swarm_id, task.task_id))}",
        )
    check_not_halted(tx, task)
    check_not_held(tx, task)
    check_has_lock(tx, task)
    reserve_if_released(tx, task, now_ms)
    if task.status == "queued":
        leave_queue(tx, task)
    return _answer(tx, worker.name, assign(tx, task, worker, now_ms, message))


def _heartbeat(
    tx: Transaction, held: Assignment, message: Message, _key: bytes | None, now_ms: int
) -> MessageAnswer:
    assert isinstance(message, HeartbeatMessage)
    try:
        request = HeartbeatRequest(
            name=held.worker,
            context_usage=message.context_usage,
            current_step=message.current_step,
        )
    except ValidationError as error:
        raise invalid_request(error) from None
    held = renew_lease(tx, held, request, now_ms)
    requested = wants_checkpoint(held, message.context_usage)
    return _answer(tx, held.worker, held, checkpoint_requested=requested)


def _progress(
    tx: Transaction, held: Assignment, message: Message, report_key: bytes | None, now_ms: int
) -> MessageAnswer:
    """Renew the lease, record a commit, and move to `payload.state` if the message has one."""
    check_no_claim(held, "type")
    goal = reported_state(message.payload, held.state)
    if goal is not held.state and not can_move(held.state, goal):
        raise _illegal(held, goal)
    if goal not in _WORKING_STATES:
        raise _state_not_for_progress(held, goal)
    held = _move(tx, with_commit(held, message.payload.get("commit")), goal, now_ms)
    tx.mark_answers_delivered(held.swarm_id, held.task_id, held.epoch)
    tx.add_event(
        held.swarm_id,
        EventKind.TASK_PROGRESS,
        now_ms,
        {
            "bead_id": held.task_id,
            "worker": held.worker,
            "epoch": held.epoch,
            "state": held.state.value,
            "payload": message.payload,
        },
        task_id=held.task_id,
        report_key=report_key,
    )
    return _answer(tx, held.worker, held)


def _complete(
    tx: Transaction, held: Assignment, message: Message, report_key: bytes | None, now_ms: int
) -> MessageAnswer:
    assert isinstance(message, CompleteMessage)
    if not message.verification_passed:
        raise InvalidRequest(
            "verification_passed: a task whose verification failed is not complete",
            field="verification_passed",
            hint="continue the work, or send a failed message",
        )
    if held.state not in _WORKING_STATES:
        raise _illegal(held, WorkerState.COMPLETE)
    if held.contract_version is not None:
        return _claim(tx, held, message, report_key, now_ms)
    finish_task(tx, held_task(tx, held), held, now_ms, report_key)
    return _ended(held, WorkerState.COMPLETE)


def _claim(
    tx: Transaction,
    held: Assignment,
    message: CompleteMessage,
    report_key: bytes | None,
    now_ms: int,
) -> MessageAnswer:
    """The server verifies; the verdict comes with the next poll or the events. A worker that sends
    the same message again knows the refusal and asks for another verification."""
    refused = claims.undelivered_refusal(tx, held)
    if refused is not None:
        tx.mark_verdict_delivered(refused, now_ms)
    content: dict[str, object] = {
        "commit": None,
        "files_touched": [*message.files_created, *message.files_modified],
        "summary": "",
        "name": held.worker,
    }
    claim = claims.make_claim(tx, held, content, report_key, now_ms)
    after = held._replace(state=WorkerState.VERIFYING, lease_expires_at_ms=None)
    return _answer(tx, held.worker, after, claim_id=claim.claim_id)


def _failed(
    tx: Transaction,
    held: Assignment,
    message: FailedMessage,
    report_key: bytes | None,
    retry_policy: RetryPolicy,
    now_ms: int,
) -> MessageAnswer:
    if not can_move(held.state, WorkerState.FAILED):
        raise _illegal(held, WorkerState.FAILED)
    again = message.recoverable and held_task(tx, held).failures < retry_policy.max_retries
    fail_task(
        tx,
        held,
        message.error,
        now_ms,
        again=again,
        checkpoint_path=message.checkpoint_path,
        report_key=report_key,
    )
    return _ended(held, WorkerState.FAILED)


def _blocked(
    tx: Transaction, held: Assignment, message: Message, report_key: bytes | None, now_ms: int
) -> MessageAnswer:
    check_no_claim(held, "type")
    if "dispute" in message.payload:
        return _disputed(tx, held, message, report_key, now_ms)
    if not can_move(held.state, WorkerState.BLOCKED):
        raise _illegal(held, WorkerState.BLOCKED)
    question = payload_text(message.payload, "question", "")
    contact = payload_text(message.payload, "contact", DEFAULT_CONTACT)
    if not question:
        raise InvalidRequest("payload.question: must say what you need", field="payload.question")
    # A worker that asks again has used the earlier answers.
    tx.mark_answers_delivered(held.swarm_id, held.task_id, held.epoch)
    question_id = questions.ask(tx, held, contact, question, now_ms, report_key)
    after = tx.assignment(held.swarm_id, held.task_id)
    return _answer(tx, held.worker, after, question_id=question_id)


def _disputed(
    tx: Transaction, held: Assignment, message: Message, report_key: bytes | None, now_ms: int
) -> MessageAnswer:
    """A blocked message whose payload has a `dispute`: the same as dispute_contract."""
    dispute = payload_dispute(message.payload)
    handoff = tx.handoff(held.swarm_id, held.task_id)
    if handoff is None:
        raise UnknownHandoff(held.task_id)
    question = dispute_of_holder(tx, held, handoff, dispute, now_ms, report_key)
    after = tx.assignment(held.swarm_id, held.task_id)
    return _answer(tx, held.worker, after, question_id=question.question_id)


def _context_threshold(
    tx: Transaction, held: Assignment, message: Message, report_key: bytes | None, now_ms: int
) -> MessageAnswer:
    """Store the checkpoint with the task, for the next worker that takes it.

    The task is queued again; its holder waits until another worker has taken it over.
    """
    check_no_claim(held, "type")
    if not can_move(held.state, WorkerState.WAITING):
        raise _illegal(held, WorkerState.WAITING)
    task = held_task(tx, held)
    tx.save_assignment(
        held._replace(
            state=WorkerState.WAITING,
            updated_at_ms=now_ms,
            lease_expires_at_ms=None,
        )
    )
    checkpoint = message.payload | {
        "worker": held.worker,
        "epoch": held.epoch,
        "commits": all_commits(held, message.payload),
    }
    tx.add_event(
        held.swarm_id,
        EventKind.CHECKPOINT_STORED,
        now_ms,
        {"bead_id": held.task_id, "worker": held.worker, "epoch": held.epoch},
        task_id=held.task_id,
        report_key=report_key,
    )
    enqueue(tx, task._replace(checkpoint=json.dumps(checkpoint)), now_ms)
    drain(tx, held.swarm_id, now_ms)
    return _answer(
        tx, held.worker, held._replace(state=WorkerState.WAITING, lease_expires_at_ms=None)
    )


_HANDLERS = {
    MessageType.HEARTBEAT: _heartbeat,
    MessageType.PROGRESS: _progress,
    MessageType.COMPLETE: _complete,
    MessageType.BLOCKED: _blocked,
    MessageType.CONTEXT_THRESHOLD: _context_threshold,
}


def _move(tx: Transaction, held: Assignment, goal: WorkerState, now_ms: int) -> Assignment:
    is_renewed = goal is not held.state or not is_held_by_server(held)
    held = held._replace(
        state=goal,
        updated_at_ms=now_ms,
        lease_expires_at_ms=lease_end_ms(held, goal, now_ms) if is_renewed else None,
    )
    tx.save_assignment(held)
    return held


def _state_not_for_progress(held: Assignment, goal: WorkerState) -> ShiftbossError:
    if held.state is WorkerState.WAITING:
        return _illegal(held, WorkerState.EXECUTING)
    return InvalidRequest(
        f"payload.state: {goal.value} has its own message type", field="payload.state"
    )


def _illegal(held: Assignment, goal: WorkerState) -> IllegalTransition:
    legal = [state.value for state in TRANSITIONS[held.state]]
    return IllegalTransition(
        f"{held.task_id} is {held.state.value} and cannot become {goal.value}; nothing was changed",
        field="type",
        hint=f"legal from {held.state.value}: {', '.join(legal)}",
        facts={"state": held.state.value, "legal": legal},
    )


def _answer(
    tx: Transaction,
    worker: str,
    held: Assignment | None,
    *,
    checkpoint_requested: bool = False,
    question_id: int | None = None,
    claim_id: int | None = None,
) -> MessageAnswer:
    if held is None:
        return MessageAnswer(
            accepted=True, worker=worker, state=WorkerState.IDLE.value, bead_id=None, epoch=None
        )
    answers = tx.undelivered_answers(held.swarm_id, held.task_id, held.epoch)
    return MessageAnswer(
        accepted=True,
        worker=worker,
        state=held.state.value,
        bead_id=held.task_id,
        epoch=held.epoch,
        lease_expires_at=held.lease_expires_at_ms,
        checkpoint_requested=checkpoint_requested,
        question_id=question_id,
        claim_id=claim_id,
        answers=[answer_view(question) for question in answers],
    )


def _ended(held: Assignment, state: WorkerState) -> MessageAnswer:
    return MessageAnswer(
        accepted=True,
        worker=held.worker,
        state=state.value,
        bead_id=held.task_id,
        epoch=held.epoch,
    )
