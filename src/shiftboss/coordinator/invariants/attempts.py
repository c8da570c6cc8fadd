"""Invariants of tasks, attempts and workers: who holds what, and under which lease."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shiftboss.coordinator.invariants.facts import BrokenInvariant, SwarmFacts
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment, is_finished
from shiftboss.rules.tasks.tasks import Task

_LEASED = (WorkerState.ASSIGNED, WorkerState.EXECUTING, WorkerState.SELF_REVIEW)


def active_tasks_have_an_attempt(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """An active task has exactly its current attempt; without one, it would never be finished."""
    for task in facts.tasks.values():
        held = facts.assignments.get(task.task_id)
        if task.status != "active":
            continue
        command = facts.retry_command(task.task_id)
        if held is None:
            yield facts.broken(
                "active_attempt", f"task {task.task_id}", "is active without an attempt", command
            )
        elif (held.epoch, held.worker) != (task.epoch, task.worker):
            yield facts.broken(
                "active_attempt",
                f"task {task.task_id}",
                f"is at epoch {task.epoch} of {task.worker}, its attempt at epoch {held.epoch} of "
                f"{held.worker}",
                command,
            )


def attempts_have_a_task(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """Only an active task has an attempt, or a queued one whose holder waits with a full
    context."""
    for held in _bus_attempts(facts):
        task = facts.tasks.get(held.task_id)
        subject = f"attempt {held.epoch} at {held.task_id}"
        if task is None:
            yield facts.broken("attempt_task", subject, "has no task")
        elif not _may_have_attempt(task, held):
            yield facts.broken(
                "attempt_task",
                subject,
                f"is {held.state.value}, but the task is {task.status}",
                facts.retry_command(held.task_id),
            )
        elif held.epoch != task.epoch:
            yield facts.broken(
                "attempt_task", subject, f"is not the latest: the task is at epoch {task.epoch}"
            )


def _may_have_attempt(task: Task, held: Assignment) -> bool:
    if held.state is WorkerState.WAITING:
        return task.status == "queued"
    return task.status == "active" and not is_finished(held)


def workers_hold_their_attempt(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """A worker that has a task is the worker of its attempt, and a task has one such worker."""
    holders = Counter(worker.task_id for worker in facts.workers.values() if worker.task_id)
    for worker in facts.workers.values():
        if worker.task_id is None:
            continue
        held = facts.assignments.get(worker.task_id)
        reset = f"shiftboss worker reset {worker.name} --swarm {facts.swarm.swarm_id}"
        if held is None or held.worker != worker.name:
            owner = "nobody" if held is None else held.worker
            yield facts.broken(
                "holder",
                f"worker {worker.name}",
                f"has {worker.task_id}, which {owner} holds",
                reset,
            )
        if holders[worker.task_id] > 1:
            yield facts.broken(
                "holder", f"worker {worker.name}", f"shares {worker.task_id} with another", reset
            )


def attempts_have_their_worker(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """The worker of an attempt is busy with it. A claim on a task that was never handed out starts
    an attempt by itself, so this is about tasks without a contract."""
    for held in _bus_attempts(facts):
        worker = facts.workers.get(held.worker)
        if worker is None or held.contract_version is not None:
            continue
        if held.state is not WorkerState.WAITING and worker.task_id != held.task_id:
            yield facts.broken(
                "busy_worker",
                f"attempt {held.epoch} at {held.task_id}",
                f"is of {held.worker}, which has {worker.task_id or 'no task'}",
                facts.retry_command(held.task_id),
            )


def leases_run(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    """Every attempt ends by itself if its worker is silent, or the server holds it."""
    for held in _bus_attempts(facts):
        has_lease = held.lease_expires_at_ms is not None
        subject = f"attempt {held.epoch} at {held.task_id}"
        if held.state in _LEASED and not has_lease:
            yield facts.broken(
                "lease",
                subject,
                f"is {held.state.value} and has no lease: it never ends",
                facts.retry_command(held.task_id),
            )
        if held.state is WorkerState.WAITING and has_lease:
            yield facts.broken("lease", subject, "waits for another worker and has a lease")
        if held.claim_id is not None and has_lease:
            yield facts.broken("lease", subject, "is being verified and has a lease")


def _bus_attempts(facts: SwarmFacts) -> Iterator[Assignment]:
    return (held for held in facts.assignments.values() if held.packet_id is None)


def packets_count_their_retries(facts: SwarmFacts) -> Iterator[BrokenInvariant]:
    for held in facts.assignments.values():
        open_retries = facts.retries_open.get(held.task_id, 0)
        if held.packet_id is not None and held.retries_open != open_retries:
            yield facts.broken(
                "packet_retries",
                f"packet {held.packet_id}",
                f"counts {held.retries_open} open retries and has {open_retries}",
            )
