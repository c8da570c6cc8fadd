"""Use cases that add tasks: one, or a whole plan; and submit them in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from shiftboss.coordinator.bus.dispatch import take_swarm
from shiftboss.coordinator.bus.tasks import submit_added, task_view
from shiftboss.coordinator.runs.reviews import is_in_review
from shiftboss.errors import InvalidRequest, ShiftbossError, TaskExists, UnknownTask
from shiftboss.protocol.bus import (
    AddTaskAnswer,
    AddTaskRequest,
    AddTasksAnswer,
    AddTasksRequest,
    NewTask,
)
from shiftboss.protocol.events import EventKind
from shiftboss.rules.tasks.tasks import Task, is_reserved
from shiftboss.store.port import Transaction
from shiftboss.store.transaction_part import Prefetch


def add(tx: Transaction, request: AddTaskRequest, now_ms: int) -> AddTaskAnswer:
    """Add a task, which is handed out once it is submitted. A repeat changes nothing."""
    swarm_id = request.swarm_id
    tx.prefetch(Prefetch.ADD, swarm_id, request.bead_id)
    if request.submit:
        tx.prefetch(Prefetch.SUBMIT, swarm_id, request.bead_id)
        if not tx.polls.parked_workers(swarm_id):
            tx.prefetch(Prefetch.QUEUE, swarm_id, priority=request.priority)
    take_swarm(tx, swarm_id, now_ms)
    task, _ = _put(tx, swarm_id, request, now_ms)
    if not request.submit:
        return AddTaskAnswer.model_construct(**vars(task_view(tx, task)))
    submitted = submit_added(tx, task, now_ms)
    after = tx.task(swarm_id, task.task_id)
    assert after is not None, "it was just added"
    return AddTaskAnswer.model_construct(**vars(task_view(tx, after)), submitted=submitted)


def add_all(tx: Transaction, request: AddTasksRequest, now_ms: int) -> AddTasksAnswer:
    """Add a plan. If one task is refused, nothing is changed, and the error names its place."""
    take_swarm(tx, request.swarm_id, now_ms)
    added = 0
    for number in _dependencies_first(request.tasks):
        try:
            _, is_new = _put(tx, request.swarm_id, request.tasks[number], now_ms)
        except ShiftbossError as error:
            raise _at(error, number) from None
        added += is_new
    if not request.submit:
        return AddTasksAnswer(added=added)
    submitted = []
    for number, new in enumerate(request.tasks):
        task = tx.task(request.swarm_id, new.bead_id)
        assert task is not None, "it was just added"
        try:
            submitted.append(submit_added(tx, task, now_ms))
        except ShiftbossError as error:
            raise _at(error, number) from None
    return AddTasksAnswer(added=added, submitted=submitted)


def _dependencies_first(tasks: Sequence[NewTask]) -> list[int]:
    """The places of the tasks, so that each comes after those it depends on."""
    places: dict[str, int] = {}
    for number, task in enumerate(tasks):
        if task.bead_id in places:
            first = places[task.bead_id]
            raise _at(
                InvalidRequest(f"bead_id: {task.bead_id} is also tasks.{first}", field="bead_id"),
                number,
            )
        places[task.bead_id] = number
    sorter = TopologicalSorter(
        {
            number: [places[other] for other in task.depends_on if other in places]
            for number, task in enumerate(tasks)
        }
    )
    try:
        return list(sorter.static_order())
    except CycleError as error:
        cycle: list[int] = error.args[1]
        names = " -> ".join(tasks[number].bead_id for number in reversed(cycle))
        raise _at(
            InvalidRequest(f"depends_on: a cycle: {names}", field="depends_on"), min(cycle)
        ) from None


def _at(error: ShiftbossError, number: int) -> ShiftbossError:
    """The error of one task, for the request of all."""
    place = f"tasks.{number}"
    names_field = error.field is not None and error.detail.startswith(f"{error.field}:")
    error.detail = f"{place}{'.' if names_field else ': '}{error.detail}"
    error.field = f"{place}.{error.field or 'bead_id'}"
    return error


def _put(tx: Transaction, swarm_id: str, request: NewTask, now_ms: int) -> tuple[Task, bool]:
    """The task, and whether it is new."""
    depends_on = sorted(set(request.depends_on))
    _check_new(tx, swarm_id, request, depends_on)
    existing_task = tx.task(swarm_id, request.bead_id)
    if existing_task is not None:
        _check_same(tx, existing_task, request, depends_on)
        return existing_task, False
    unfinished = [
        dependency
        for dependency in depends_on
        if (task := tx.task(swarm_id, dependency))
        and (task.status != "done" or is_in_review(tx, task))
    ]
    task = Task(
        swarm_id=swarm_id,
        task_id=request.bead_id,
        title=request.title,
        description=request.description,
        priority=request.priority,
        status="open",
        waits_for=len(unfinished),
        queue_number=None,
        epoch=0,
        worker=None,
        checkpoint=None,
        last_error=None,
        created_at_ms=now_ms,
        updated_at_ms=now_ms,
    )
    tx.add_task(task, depends_on)
    tx.add_event(
        swarm_id,
        EventKind.TASK_ADDED,
        now_ms,
        {
            "bead_id": task.task_id,
            "title": task.title,
            "depends_on": depends_on,
            "priority": task.priority,
        },
        task_id=task.task_id,
    )
    return task, True


def _check_new(tx: Transaction, swarm_id: str, request: NewTask, depends_on: list[str]) -> None:
    if is_reserved(request.bead_id):
        raise InvalidRequest(
            "bead_id: packet-N is reserved for packets; choose another id", field="bead_id"
        )
    if request.bead_id in depends_on:
        raise InvalidRequest("depends_on: a task cannot depend on itself", field="depends_on")
    # Dependencies must exist already, so there can be no cycle.
    for dependency in depends_on:
        task = tx.task(swarm_id, dependency)
        if task is None:
            raise UnknownTask(dependency, field="depends_on")
        if task.status == "cancelled":
            raise InvalidRequest(
                f"depends_on: {dependency} is cancelled",
                field="depends_on",
                hint="leave it out, or depend on another task",
            )


def _check_same(tx: Transaction, task: Task, request: NewTask, depends_on: list[str]) -> None:
    requested = (request.title, request.description, request.priority, depends_on)
    stored_dependencies = tx.dependencies(task.swarm_id, task.task_id)
    stored = (task.title, task.description, task.priority, stored_dependencies)
    if stored != requested:
        raise TaskExists(
            f"task {task.task_id} exists with other settings",
            field="bead_id",
            hint="choose another id",
        )
