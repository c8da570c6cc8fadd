"""Handing out tasks: the queue, the assignment, the end of an attempt.

Invariant at every commit: no task is ready while a worker is free and available. So the use case
that makes a task ready or frees a worker checks for the other, and no other use case has to.
"""

from __future__ import annotations

import json
from typing import Final

from shiftboss.coordinator.bus.deliveries import delivery
from shiftboss.coordinator.bus.withdrawals import withdraw_questions
from shiftboss.coordinator.handoffs.ownership import try_reserve
from shiftboss.coordinator.handoffs.refusals import note_refusal, reason_of
from shiftboss.errors import OwnershipOverlap, UnknownSwarm, UnknownTask, UnknownWorker
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.fields import INTEGER_MAX
from shiftboss.protocol.messages import AssignMessage
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.checkpoints import with_instructions
from shiftboss.rules.tasks.leases import OFFER_MS, heartbeat_lease_seconds
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.poll_acks import PollAck
from shiftboss.rules.tasks.swarms import Swarm
from shiftboss.rules.tasks.tasks import Salvage, Task, Worker, has_left_checkpoint, next_epoch
from shiftboss.store.monitoring.measures import Measure
from shiftboss.store.port import Transaction
from shiftboss.store.transaction_part import Prefetch

# How many free workers are looked at for one whose poll is parked.
FREE_WORKERS_MAX: Final = 50
# How many offers are looked at for one that a worker can take over. It has given away few tasks.
OFFERS_MAX: Final = 20


def take_swarm(tx: Transaction, swarm_id: str, now_ms: int) -> None:
    """Lock the swarm until the commit. The default swarm is created when it is first needed."""
    if tx.take_swarm(swarm_id) is not None:
        return
    if swarm_id != DEFAULT_SWARM:
        raise UnknownSwarm(swarm_id)
    tx.add_swarm(Swarm(swarm_id, "", "", False, True, None, now_ms, None))
    tx.take_swarm(swarm_id)


def take_worker(
    tx: Transaction, swarm_id: str, name: str, field: str = "name"
) -> tuple[Worker, Assignment | None]:
    """Lock the swarm; the worker and its assignment. Raises UnknownWorker."""
    return take_polling_worker(tx, swarm_id, name, field)[:2]


def take_polling_worker(
    tx: Transaction, swarm_id: str, name: str, field: str = "name"
) -> tuple[Worker, Assignment | None, bool]:
    """As `take_worker`, and whether the swarm may have an offer that no poll has received."""
    taken = tx.take_worker(swarm_id, name)
    if taken is None and swarm_id != DEFAULT_SWARM:
        raise UnknownSwarm(swarm_id)
    if taken is None or taken.worker is None:
        raise UnknownWorker(name, field)
    return taken.worker, taken.assignment, taken.may_have_offers


def take_task(
    tx: Transaction, swarm_id: str, task_id: str
) -> tuple[Task, Assignment | None, Worker | None]:
    """Lock the swarm; the task, its current assignment and the worker that holds it. Raises
    UnknownTask."""
    taken = tx.take_task(swarm_id, task_id)
    if taken is None and swarm_id != DEFAULT_SWARM:
        raise UnknownSwarm(swarm_id)
    if taken is None or taken.task is None:
        raise UnknownTask(task_id)
    return taken.task, taken.assignment, taken.worker


def enqueue(tx: Transaction, task: Task, now_ms: int) -> Task:
    """Queue the task behind the others of its priority, or where it was before its attempt."""
    number = task.queue_number
    if number is None:
        # Never queued before: it was handed out at once, so it goes ahead of all queued tasks.
        # Several such tasks are ordered by age.
        number = (
            task.created_at_ms - INTEGER_MAX
            if task.epoch
            else tx.next_queue_number(task.swarm_id, task.priority)
        )
    queued = task._replace(status="queued", queue_number=number, updated_at_ms=now_ms)
    tx.save_task(queued)
    if queued.waits_for == 0:
        tx.change_ready(task.swarm_id, task.priority, +1)
    tx.add_event(
        task.swarm_id,
        EventKind.TASK_QUEUED,
        now_ms,
        {"bead_id": task.task_id, "priority": task.priority, "waits_for": task.waits_for},
        task_id=task.task_id,
    )
    return queued


def leave_queue(tx: Transaction, task: Task) -> None:
    """Call it for a queued task that is about to be saved with another status."""
    if task.waits_for == 0:
        tx.change_ready(task.swarm_id, task.priority, -1)


def drain(tx: Transaction, swarm_id: str, now_ms: int) -> None:
    """Hand out tasks as long as one is ready and a worker can take it."""
    # The task first: usually a worker has become free and no task is ready.
    while (task := tx.next_task(swarm_id)) and (worker := choose_worker(tx, swarm_id)):
        leave_queue(tx, task)
        in_the_way = try_reserve(tx, task, now_ms)
        if in_the_way is None:
            assign(tx, task, worker, now_ms)
        else:
            _withdraw(tx, task, in_the_way, now_ms)
        tx.prefetch(Prefetch.DRAIN, swarm_id)


def _withdraw(tx: Transaction, task: Task, overlap: OwnershipOverlap, now_ms: int) -> None:
    """The files of the task were released, and another task has them now. It is open again, until
    it is submitted."""
    tx.save_task(task._replace(status="open", updated_at_ms=now_ms))
    note_refusal(tx, task.swarm_id, task.task_id, overlap, now_ms)
    tx.add_event(
        task.swarm_id,
        EventKind.TASK_WITHDRAWN,
        now_ms,
        {"bead_id": task.task_id, "reason": reason_of(overlap)},
        task_id=task.task_id,
    )


def choose_worker(tx: Transaction, swarm_id: str) -> Worker | None:
    """The least recently used free worker. One whose poll is parked is preferred, because another
    one may be gone. Without a server there is none."""
    if tx.polls.is_offline:
        _retire_free_workers(tx, swarm_id)
        return None
    first = tx.next_worker(swarm_id)
    parked = tx.polls.parked_workers(swarm_id)
    if first is None or not parked or first.name in parked:
        return first
    free_workers = tx.free_workers(swarm_id, FREE_WORKERS_MAX)
    return next((worker for worker in free_workers if worker.name in parked), first)


def _retire_free_workers(tx: Transaction, swarm_id: str) -> None:
    """They get no tasks until their next request, which then looks into the queue."""
    while (worker := tx.next_worker(swarm_id)) is not None:
        tx.put_worker(worker._replace(available=False))


def assign(
    tx: Transaction, task: Task, worker: Worker, now_ms: int, order: AssignMessage | None = None
) -> Assignment:
    """Start a new attempt. The worker has to acknowledge it before the offer expires.

    `order` is the orchestrator's message, if the orchestrator chose the worker.
    """
    _measure_wait(tx, task, now_ms)
    former = tx.assignment(task.swarm_id, task.task_id) if task.epoch else None
    if former is not None:
        _take_over(tx, former, now_ms)
    task = _with_answers(tx, task)
    epoch = next_epoch(task, tx.epoch_floor)
    # The orchestrator tells its worker about the order by itself.
    received = order is not None or tx.polls.reserve_poll(task.swarm_id, worker.name)
    ack = _ack_of_poll(tx, task, worker) if order is None and received else None
    tx.save_task(
        task._replace(status="active", epoch=epoch, worker=worker.name, updated_at_ms=now_ms)
    )
    tx.put_worker(worker._replace(task_id=task.task_id))
    assignment = Assignment(
        swarm_id=task.swarm_id,
        task_id=task.task_id,
        epoch=epoch,
        state=WorkerState.ASSIGNED,
        packet_id=None,
        worker=worker.name,
        worktree=order.worktree_path if order else "",
        steps_total=0,
        steps_completed=0,
        retries_open=0,
        registered_at_ms=now_ms,
        updated_at_ms=now_ms,
        lease_expires_at_ms=now_ms + OFFER_MS,
        lease_seconds=order.timeout_seconds if order else None,
        spec_path=order.spec_path if order else None,
        contract_version=task.contract_version,
        received=received,
    )
    if ack is not None:
        assignment = _acknowledged(assignment, ack, now_ms)
    tx.put_assignment(assignment)
    # The event carries the whole answer of a poll, so that a parked poll needs no query. Unless
    # another worker can take the offer over: then the poll has to ask the store.
    tx.add_event(
        task.swarm_id,
        EventKind.TASK_ASSIGNED,
        now_ms,
        {
            "worker": worker.name,
            "received": assignment.received,
            **vars(delivery(tx, task, assignment)),
            **({"acknowledged": True} if ack is not None else {}),
        },
        task_id=task.task_id,
    )
    if ack is not None:
        add_started(tx, assignment, ack, now_ms)
    return assignment


def _ack_of_poll(tx: Transaction, task: Task, worker: Worker) -> PollAck | None:
    """A task with a contract is started by the poll itself, when it has been woken: that takes more
    than its event."""
    if task.contract_version is not None:
        return None
    return tx.polls.reserved_ack(task.swarm_id, worker.name)


def _acknowledged(assignment: Assignment, ack: PollAck, now_ms: int) -> Assignment:
    started = assignment._replace(
        state=WorkerState.EXECUTING, lease_seconds=ack.lease_seconds or assignment.lease_seconds
    )
    end_ms = now_ms + heartbeat_lease_seconds(started) * 1000
    return started._replace(lease_expires_at_ms=end_ms)


def add_started(
    tx: Transaction,
    held: Assignment,
    ack: PollAck,
    now_ms: int,
    further: dict[str, object] | None = None,
) -> None:
    """The actor of the start is the one that polled, not the one whose request handed the task
    out."""
    caller, tx.actor = tx.actor, ack.actor
    tx.add_event(
        held.swarm_id,
        EventKind.TASK_STARTED,
        now_ms,
        {
            "bead_id": held.task_id,
            "worker": held.worker,
            "epoch": held.epoch,
            "lease_expires_at": held.lease_expires_at_ms,
            **(further or {}),
        },
        task_id=held.task_id,
        report_key=ack.report_key(held.epoch),
    )
    tx.actor = caller


def _measure_wait(tx: Transaction, task: Task, now_ms: int) -> None:
    """A task that was never queued found a free worker at once. One whose offer is taken over was
    measured with the offer."""
    if task.status == "queued":
        tx.measure(Measure.DISPATCH_WAIT, (now_ms - task.updated_at_ms) / 1000)
    elif task.status == "open":
        tx.measure(Measure.DISPATCH_WAIT, 0.0)


def _with_answers(tx: Transaction, task: Task) -> Task:
    """The task with the answers that its last attempt did not use, as instructions for the next:
    they came when that attempt was ending, or had ended."""
    answers = tx.undelivered_answers(task.swarm_id, task.task_id, task.epoch) if task.epoch else []
    if not answers:
        return task
    tx.mark_answers_delivered(task.swarm_id, task.task_id, task.epoch)
    checkpoint = json.loads(task.checkpoint) if task.checkpoint else {}
    texts = [question.answer or "" for question in answers]
    return task._replace(checkpoint=json.dumps(with_instructions(checkpoint, texts)))


def take_over_offer(tx: Transaction, worker: Worker, now_ms: int) -> Assignment | None:
    """Give the worker, which polls and is free, the oldest offer that no poll has received. Its
    former worker may be gone, and gets no more tasks until its next request."""
    found = _offer_for(tx, worker)
    if found is None:
        return None
    offer, task = found
    # A question of an earlier attempt stays open: its answer goes to the next worker.
    close_assignment(tx, offer, now_ms, keep_questions=True)
    _add_attempt_ended(tx, offer, "offer_taken_over", now_ms)
    free_worker(tx, offer, now_ms, available=False)
    return assign(tx, task, worker._replace(available=True), now_ms)


def _offer_for(tx: Transaction, worker: Worker) -> tuple[Assignment, Task] | None:
    """The oldest offer that the worker can take over, with its task. A worker whose context was
    full does not get the task back that it gave away."""
    for skip in range(OFFERS_MAX):
        offer = tx.next_offer(worker.swarm_id, skip)
        if offer is None:
            return None
        task = tx.task(offer.swarm_id, offer.task_id)
        assert task is not None, "an offer has a task"
        if not has_left_checkpoint(task, worker.name):
            return offer, task
    return None


def _take_over(tx: Transaction, former: Assignment, now_ms: int) -> None:
    """Free the worker that waited with a full context: its task has a new holder."""
    holder = tx.worker(former.swarm_id, former.worker)
    if holder is not None and holder.task_id == former.task_id:
        tx.put_worker(holder._replace(task_id=None, available=False))
    _add_attempt_ended(tx, former, "taken_over", now_ms)


def end_attempt(
    tx: Transaction,
    assignment: Assignment,
    reason: str,
    now_ms: int,
    *,
    keep_questions: bool = False,
) -> None:
    """End an attempt on behalf of the coordinator, and keep what it reported for the next attempt.

    The caller decides what happens to the task and to the worker.
    """
    close_assignment(tx, assignment, now_ms, keep_questions=keep_questions)
    if assignment.state is not WorkerState.ASSIGNED:
        keep_salvage(tx, assignment, reason, now_ms)
    _add_attempt_ended(tx, assignment, reason, now_ms)


def _add_attempt_ended(tx: Transaction, assignment: Assignment, reason: str, now_ms: int) -> None:
    tx.measure(Measure.ATTEMPTS_ENDED, 1, reason)
    tx.add_event(
        assignment.swarm_id,
        EventKind.ATTEMPT_ENDED,
        now_ms,
        {
            "bead_id": assignment.task_id,
            "worker": assignment.worker,
            "epoch": assignment.epoch,
            "reason": reason,
        },
        task_id=assignment.task_id,
    )


def keep_salvage(tx: Transaction, assignment: Assignment, reason: str, now_ms: int) -> None:
    """Keep what an unsuccessful attempt reported, for the next one."""
    commits: list[str] = json.loads(assignment.commits or "[]")
    salvage = Salvage(assignment.epoch, assignment.worker, reason, commits)
    tx.add_salvage(assignment.swarm_id, assignment.task_id, salvage, now_ms)


def close_assignment(
    tx: Transaction, assignment: Assignment, now_ms: int, *, keep_questions: bool = False
) -> None:
    """Delete the assignment, void its claim and withdraw its questions. `keep_questions`: they stay
    open, and the worker of the next attempt gets the answers."""
    tx.end_assignment(assignment.swarm_id, assignment.task_id, assignment.epoch)
    if assignment.claim_id is not None:
        void_claim(tx, assignment, now_ms)
    # Under a contract, a question can be open while its worker continues.
    has_asked = assignment.state is WorkerState.BLOCKED or assignment.contract_version is not None
    if has_asked and not keep_questions:
        withdraw_questions(tx, assignment.swarm_id, assignment.task_id, assignment.epoch, now_ms)


def void_claim(tx: Transaction, assignment: Assignment, now_ms: int) -> None:
    """Void the claim of an attempt that has ended: its verdict is no longer needed."""
    assert assignment.claim_id is not None
    claim = tx.claim(assignment.swarm_id, assignment.task_id, assignment.claim_id)
    if claim is not None:
        tx.put_claim(claim._replace(state="void", taken_until_ms=None, ended_at_ms=now_ms))


def free_worker(
    tx: Transaction,
    assignment: Assignment,
    now_ms: int,
    *,
    available: bool = True,
    holder: Worker | None = None,
) -> None:
    """Let the holder of an ended assignment take another task. `holder` saves a read."""
    worker = holder or tx.worker(assignment.swarm_id, assignment.worker)
    if worker is not None and worker.task_id == assignment.task_id:
        tx.put_worker(
            worker._replace(task_id=None, available=available, last_activity_at_ms=now_ms)
        )
