"""Use cases of tasks: submit, retry, cancel, show, list."""

from __future__ import annotations

from shiftboss.coordinator.bus.dispatch import (
    assign,
    choose_worker,
    drain,
    end_attempt,
    enqueue,
    free_worker,
    leave_queue,
    take_task,
)
from shiftboss.coordinator.bus.withdrawals import withdraw_questions
from shiftboss.coordinator.contract.halts import is_halted
from shiftboss.coordinator.contract.locks import check_has_lock, release_unstarted
from shiftboss.coordinator.handoffs.ownership import reserve_if_released
from shiftboss.coordinator.runs.holds import drop_answer_hold, is_held
from shiftboss.coordinator.runs.reviews import view
from shiftboss.coordinator.swarms.swarms import check_exists
from shiftboss.errors import Forbidden, TaskEnded, UnknownTask
from shiftboss.protocol.bus import (
    CancelTaskRequest,
    ReviewView,
    SubmitAnswer,
    SwarmOfTask,
    SwarmsOfTask,
    TaskEndAnswer,
    TaskList,
    TaskRequest,
    TaskView,
)
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.handoffs.escalations import asks_about_refusals
from shiftboss.rules.runs.records import LandingRecord
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import (
    Task,
    Worker,
    attempt_number,
    bus_status,
    check_can_submit,
    is_ended,
    was_submitted,
)
from shiftboss.store.port import Transaction
from shiftboss.store.transaction_part import Prefetch

# More swarms with a task of the same id are not listed.
SWARMS_OF_TASK_MAX = 50
QUESTIONS_READ_MAX = 200


def submit(tx: Transaction, request: TaskRequest, now_ms: int) -> SubmitAnswer:
    """Hand the task to the least recently used free worker, or queue it.

    A task that was submitted before stays where it is; the answer says where.
    """
    tx.prefetch(Prefetch.SUBMIT, request.swarm_id, request.bead_id)
    task, held, _ = take_task(tx, request.swarm_id, request.bead_id)
    check_can_submit(task)
    if task.status == "active" and held is not None:
        return _held_already(held)
    if task.status == "queued":
        return _waiting(tx, task, tx.queue_position(task))
    return _submit_open(tx, task, now_ms)


def submit_added(tx: Transaction, task: Task, now_ms: int) -> SubmitAnswer:
    """Submit a task that was just added. If it was there before, the request is a repeat, and the
    task may even have ended since."""
    if task.status == "open":
        return _submit_open(tx, task, now_ms)
    held = tx.assignment(task.swarm_id, task.task_id)
    if task.status == "active" and held is not None:
        return _held_already(held)
    if task.status == "queued":
        return _waiting(tx, task, tx.queue_position(task))
    return SubmitAnswer(
        dispatched=False, worker=task.worker, bead_id=task.task_id, status=task.status
    )


def _submit_open(tx: Transaction, task: Task, now_ms: int) -> SubmitAnswer:
    check_has_lock(tx, task)
    reserve_if_released(tx, task, now_ms)
    if task.contract_version is not None:
        tx.drop_spawn_refusal(task.swarm_id, task.task_id)
    ready = task.waits_for == 0 and not is_halted(tx, task) and not is_held(tx, task)
    worker = choose_worker(tx, task.swarm_id) if ready else None
    if worker is not None:
        assignment = assign(tx, task, worker, now_ms)
        return SubmitAnswer(
            dispatched=True, worker=worker.name, bead_id=task.task_id, epoch=assignment.epoch
        )
    return _queue(tx, task, now_ms)


def _queue(tx: Transaction, task: Task, now_ms: int) -> SubmitAnswer:
    """A task that is queued for the first time is the last of its priority: no need to count."""
    if task.queue_number is not None or task.epoch:
        queued = enqueue(tx, task, now_ms)
        return _waiting(tx, queued, tx.queue_position(queued))
    tx.prefetch(Prefetch.QUEUE, task.swarm_id, priority=task.priority)
    ahead = tx.ready_at_or_above(task.swarm_id, task.priority)
    return _waiting(tx, enqueue(tx, task, now_ms), ahead + 1)


def _held_already(held: Assignment) -> SubmitAnswer:
    return SubmitAnswer(
        dispatched=False,
        worker=held.worker,
        bead_id=held.task_id,
        epoch=held.epoch,
        status=bus_status(held.state, is_polling=False),
    )


def _waiting(tx: Transaction, task: Task, position: int) -> SubmitAnswer:
    if task.waits_for:
        waits_for = tx.unfinished_dependencies(task.swarm_id, task.task_id)
        return SubmitAnswer(
            dispatched=False, worker=None, bead_id=task.task_id, queued=True, waits_for=waits_for
        )
    return SubmitAnswer(
        dispatched=False, worker=None, bead_id=task.task_id, queued=True, position=position
    )


def retry(tx: Transaction, request: TaskRequest, now_ms: int) -> TaskEndAnswer:
    """Queue a stuck or failed task again, or bring a cancelled one back. A running attempt ends."""
    task, held, holder = take_task(tx, request.swarm_id, request.bead_id)
    if task.status == "done":
        raise TaskEnded(task.task_id, task.status)
    to_queue = task.status != "queued"
    if task.status == "cancelled":
        task = _reopen(tx, task, now_ms)
        to_queue = was_submitted(task)
    if to_queue:
        check_has_lock(tx, task)
        reserve_if_released(tx, task, now_ms)
        _withdraw_refusal_question(tx, task, now_ms)
        _take_back(tx, held, holder, "retried", now_ms)
        enqueue(tx, task, now_ms)
        drain(tx, request.swarm_id, now_ms)
    after = _existing_task(tx, request.swarm_id, request.bead_id)
    return TaskEndAnswer(success=True, bead_id=task.task_id, status=after.status)


def retry_unless_cancelled(tx: Transaction, request: TaskRequest, now_ms: int) -> TaskEndAnswer:
    """For a server where only the operator may bring a cancelled task back: its agent must not."""
    task, _, _ = take_task(tx, request.swarm_id, request.bead_id)
    if task.status == "cancelled":
        command = f"shiftboss task retry {task.task_id} --swarm {task.swarm_id}"
        raise Forbidden(
            f"{task.task_id} is cancelled, and only the operator may bring it back here; nothing "
            "was changed",
            field="bead_id",
            hint=f"`{command}` (operator)",
        )
    return retry(tx, request, now_ms)


def _withdraw_refusal_question(tx: Transaction, task: Task, now_ms: int) -> None:
    """The attempt that was refused has ended, and another one starts over: nobody waits for help
    with the refusals any more. The answer to any other question goes to the next attempt."""
    if task.status != "failed":
        return
    asked = [
        question.question
        for question in tx.questions(task.swarm_id, QUESTIONS_READ_MAX, only_open=True)
        if (question.task_id, question.epoch) == (task.task_id, task.epoch)
    ]
    if asked and all(asks_about_refusals(question) for question in asked):
        withdraw_questions(tx, task.swarm_id, task.task_id, task.epoch, now_ms)


def _reopen(tx: Transaction, task: Task, now_ms: int) -> Task:
    """A cancelled task is open again, with its files. The caller queues it if it was submitted
    before; otherwise it waits to be submitted, as it did when it was cancelled."""
    check_has_lock(tx, task)
    reserve_if_released(tx, task, now_ms)
    reopened = task._replace(status="open", last_error=None, updated_at_ms=now_ms)
    tx.save_task(reopened)
    tx.add_event(
        task.swarm_id,
        EventKind.TASK_REOPENED,
        now_ms,
        {"bead_id": task.task_id},
        task_id=task.task_id,
    )
    return reopened


def cancel(tx: Transaction, request: CancelTaskRequest, now_ms: int) -> TaskEndAnswer:
    """Cancel the task, end its attempt and withdraw its questions. Tasks that depend on it stay
    blocked."""
    task, held, holder = take_task(tx, request.swarm_id, request.bead_id)
    if task.status == "done":
        raise TaskEnded(task.task_id, task.status)
    if not is_ended(task):
        if task.status == "queued":
            leave_queue(tx, task)
        _take_back(tx, held, holder, "cancelled", now_ms)
        withdraw_questions(tx, task.swarm_id, task.task_id, task.epoch, now_ms)
        drop_answer_hold(tx, task.swarm_id, task.task_id)
        tx.drop_spawn_refusal(task.swarm_id, task.task_id)
        tx.save_task(
            task._replace(
                status="cancelled", last_error=request.reason or None, updated_at_ms=now_ms
            )
        )
        if task.contract_version is not None:
            _release_contract(tx, task, held, now_ms)
        tx.add_event(
            task.swarm_id,
            EventKind.TASK_CANCELLED,
            now_ms,
            {"bead_id": task.task_id, "reason": request.reason},
            task_id=task.task_id,
        )
        drain(tx, request.swarm_id, now_ms)
    return TaskEndAnswer(success=True, bead_id=task.task_id, status="cancelled")


def _release_contract(tx: Transaction, task: Task, held: Assignment | None, now_ms: int) -> None:
    """Release the files of a cancelled task and stop following its CI. Its repo stays locked if an
    attempt had started: pushed work may be incomplete, and the operator has to check it."""
    offered = held is not None and held.state is WorkerState.ASSIGNED
    # The offer of a task that no worker has started may have been taken over, so its epoch tells
    # nothing.
    has_started = tx.contract_attempt(task.swarm_id, task.task_id) is not None
    tx.release(task.swarm_id, task.task_id)
    tx.drop_tracking(task.swarm_id, task.task_id)
    tx.drop_contract_attempt(task.swarm_id, task.task_id)
    if task.epoch == 0 or (offered and not has_started):
        release_unstarted(tx, task.swarm_id, task.task_id, now_ms)


def _take_back(
    tx: Transaction, held: Assignment | None, holder: Worker | None, reason: str, now_ms: int
) -> None:
    if held is not None:
        end_attempt(tx, held, reason, now_ms)
        free_worker(tx, held, now_ms, holder=holder)


def show(tx: Transaction, swarm_id: str, task_id: str) -> TaskView:
    check_exists(tx, swarm_id)
    return task_view(tx, _existing_task(tx, swarm_id, task_id))


def find(tx: Transaction, task_id: str) -> SwarmsOfTask:
    """The swarms that have a task of this id; of a task that is deleted, those of its receipts."""
    places = [
        SwarmOfTask(swarm_id=swarm_id, status=status)
        for swarm_id, status in tx.swarms_of_task(task_id, SWARMS_OF_TASK_MAX)
    ]
    if not places:
        swarm_ids = tx.swarms_with_receipt(task_id, SWARMS_OF_TASK_MAX)
        places = [SwarmOfTask(swarm_id=swarm_id, status=None) for swarm_id in swarm_ids]
    return SwarmsOfTask(bead_id=task_id, swarms=places)


def listing(tx: Transaction, swarm_id: str, after: str, limit: int) -> TaskList:
    """A page of tasks in the order of their ids."""
    check_exists(tx, swarm_id)
    tasks = tx.tasks_after(swarm_id, after, limit)
    return TaskList(
        tasks=[task_view(tx, task) for task in tasks],
        next_after=tasks[-1].task_id if len(tasks) == limit else None,
    )


def _existing_task(tx: Transaction, swarm_id: str, task_id: str) -> Task:
    task = tx.task(swarm_id, task_id)
    if task is None:
        raise UnknownTask(task_id)
    return task


def task_view(tx: Transaction, task: Task) -> TaskView:
    assignment = tx.assignment(task.swarm_id, task.task_id) if task.epoch else None
    landing = _landing(tx, task)
    return TaskView(
        bead_id=task.task_id,
        title=task.title,
        description=task.description,
        priority=task.priority,
        status=task.status,
        depends_on=tx.dependencies(task.swarm_id, task.task_id),
        waits_for=task.waits_for,
        epoch=task.epoch,
        worker=task.worker,
        state=assignment.state.value if assignment else None,
        lease_expires_at=assignment.lease_expires_at_ms if assignment else None,
        last_error=task.last_error,
        failures=task.failures,
        created_at=task.created_at_ms,
        updated_at=task.updated_at_ms,
        landed_commit=landing.landed_commit if landing else None,
        receipt_id=landing.receipt_id if landing else None,
        swarm_id=task.swarm_id,
        attempt=attempt_number(task),
        review=_review(tx, task),
        hold=_hold(tx, task),
    )


def _hold(tx: Transaction, task: Task) -> str | None:
    """An open question explains more than the other holds."""
    if task.status not in ("open", "queued"):
        return None
    kinds = [hold.kind for hold in tx.holds_of_task(task.swarm_id, task.task_id)]
    return "answer" if "answer" in kinds else next(iter(kinds), None)


def _review(tx: Transaction, task: Task) -> ReviewView | None:
    if task.contract_version is None or task.epoch == 0:
        return None
    return view(tx.review(task.swarm_id, task.task_id))


def _landing(tx: Transaction, task: Task) -> LandingRecord | None:
    if task.status != "done" or task.contract_version is None:
        return None
    return tx.landing(task.swarm_id, task.task_id)
