"""Use cases of swarms: create, show, list."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from shiftboss.coordinator.runs import holds
from shiftboss.coordinator.swarms import overview
from shiftboss.errors import InvalidRequest, SwarmExists, UnknownSwarm, UnknownTask
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.fields import optional_wire_time, wire_time
from shiftboss.protocol.swarms import (
    CreateSwarmRequest,
    RetryView,
    SwarmList,
    SwarmStatus,
    SwarmSummary,
    WorkerView,
)
from shiftboss.rules.tasks.lifecycle import packet_status
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.swarms import Swarm, WorkerCounts, remaining_workers, swarm_status
from shiftboss.rules.tasks.tasks import is_reserved
from shiftboss.store.port import Retry, SwarmRow, Transaction

PAGE_SIZE_MAX = 200

# The workers of a swarm that wait for a task.
Polling = Callable[[str], frozenset[str] | None]


def create(tx: Transaction, swarm_id: str, request: CreateSwarmRequest, now_ms: int) -> Swarm:
    """Create a swarm with this id. A repeated request returns the same swarm."""
    swarm = Swarm(
        swarm_id=swarm_id,
        feature=request.feature,
        manifest_path=request.manifest_path,
        auto_merge=request.auto_merge,
        notify_on_complete=request.notify_on_complete,
        workers_expected=request.workers_expected,
        created_at_ms=now_ms,
        completed_at_ms=None,
    )
    existing_swarm = tx.take_swarm(swarm_id)
    if existing_swarm is None and not tx.add_swarm(swarm):
        existing_swarm = tx.take_swarm(swarm_id)
    if existing_swarm is None:
        tx.add_event(
            swarm_id,
            EventKind.SWARM_CREATED,
            now_ms,
            {"swarm_id": swarm_id, "feature": swarm.feature},
        )
        return swarm
    if existing_swarm._replace(created_at_ms=now_ms, completed_at_ms=None) != swarm:
        raise SwarmExists(
            f"swarm {swarm_id} already exists with other settings",
            field="swarm_id",
            hint="choose another swarm_id, or leave it out to get a new one",
        )
    return existing_swarm


def check_exists(tx: Transaction, swarm_id: str) -> None:
    """Raises UnknownSwarm. The default swarm counts as existing before it is created."""
    if swarm_id != DEFAULT_SWARM:
        existing(tx, swarm_id)


def existing(tx: Transaction, swarm_id: str) -> Swarm:
    swarm = tx.swarm(swarm_id)
    if swarm is None:
        raise UnknownSwarm(swarm_id)
    return swarm


def status(tx: Transaction, swarm_id: str, polling: frozenset[str] | None) -> SwarmStatus:
    """The current state of a swarm. The cost grows with its workers and tasks, not with its events.

    `polling` are its workers that wait for a task; None without a server.
    """
    swarm = existing(tx, swarm_id)
    tasks = overview.task_counts(tx, swarm_id)
    live_workers = overview.live_workers(tx, swarm_id, polling)
    run = tx.plan_run(swarm_id)
    work = overview.work_of(tx, swarm_id, tasks, live_workers)
    assignments = tx.assignments(swarm_id)
    counts = WorkerCounts.from_states(tx.state_counts(swarm_id))
    last_event = tx.last_event(swarm_id)
    retries: dict[str, list[Retry]] = defaultdict(list)
    for retry in tx.open_retries(swarm_id):
        retries[retry.task_id].append(retry)
    status_word = swarm_status(swarm, counts, tasks, overview.attention(work, run is not None))
    return SwarmStatus(
        swarm_id=swarm_id,
        feature=swarm.feature,
        status=status_word,
        workers_registered=counts.registered,
        workers_running=counts.registered - counts.complete - counts.failed,
        workers_complete=counts.complete,
        workers_failed=counts.failed,
        workers_expected=swarm.workers_expected,
        remaining_workers=remaining_workers(swarm.workers_expected, counts),
        tasks_completed=sum(assignment.steps_completed for assignment in assignments),
        tasks_total=sum(assignment.steps_total for assignment in assignments),
        ready_for_merge=swarm.completed_at_ms is not None
        and bool(assignments)
        and all(assignment.tests_passed and assignment.review_passed for assignment in assignments)
        and not tx.has_unfinished_tasks(swarm_id),
        auto_merge=swarm.auto_merge,
        created_at=wire_time(swarm.created_at_ms),
        completed_at=optional_wire_time(_completed_at_ms(swarm, status_word)),
        last_update=wire_time(last_event.at_ms if last_event else swarm.created_at_ms),
        last_event_id=last_event.event_id if last_event else 0,
        workers=[
            _worker_view(assignment, retries[assignment.task_id]) for assignment in assignments
        ],
        holds=holds.views_of_swarm(tx, swarm_id),
        bus=work,
        waiting=overview.waiting_in(tx, swarm_id, run, live_workers),
        plan_file=run.plan_file if run else None,
        run_command=run.command if run else None,
    )


def _completed_at_ms(swarm: Swarm, status_word: str) -> int | None:
    """A swarm that got new work a moment ago is marked as open a little later."""
    return swarm.completed_at_ms if status_word in ("complete", "failed") else None


def _worker_view(assignment: Assignment, retries: list[Retry]) -> WorkerView:
    return WorkerView(
        packet_id=assignment.packet_id,
        packet_name=assignment.worker,
        status=packet_status(assignment.state),
        attempt=assignment.epoch,
        tasks_completed=assignment.steps_completed,
        tasks_total=assignment.steps_total,
        worktree=assignment.worktree,
        registered_at=wire_time(assignment.registered_at_ms),
        last_update=wire_time(assignment.updated_at_ms),
        completed_at=optional_wire_time(assignment.finished_at_ms)
        if assignment.final_commit
        else None,
        final_commit=assignment.final_commit,
        tests_passed=assignment.tests_passed,
        review_passed=assignment.review_passed,
        last_error=assignment.last_error,
        retries=[
            RetryView(
                task_id=retry.step_id,
                attempt=retry.retries_made,
                state=retry.state,
                due_at=wire_time(retry.due_at_ms),
            )
            for retry in retries
        ],
    )


def listing(tx: Transaction, before: str | None, limit: int, polling: Polling) -> SwarmList:
    """A page of swarms, newest first. `before` is the `next_before` of the previous page."""
    rows = tx.swarms_before(_parse_page_mark(before), min(limit, PAGE_SIZE_MAX))
    last = rows[-1].swarm if len(rows) == limit else None
    return SwarmList(
        swarms=[_summary(tx, row, polling(row.swarm.swarm_id)) for row in rows],
        next_before=f"{last.created_at_ms}:{last.swarm_id}" if last else None,
    )


def listing_of(tx: Transaction, swarm_id: str, polling: Polling) -> SwarmList:
    """The list for a reader that may see one swarm."""
    swarm = tx.swarm(swarm_id)
    rows = [] if swarm is None else [SwarmRow(swarm, tx.state_counts(swarm_id))]
    return SwarmList(
        swarms=[_summary(tx, row, polling(swarm_id)) for row in rows], next_before=None
    )


def _parse_page_mark(mark: str | None) -> tuple[int, str] | None:
    if mark is None:
        return None
    at_ms, colon, swarm_id = mark.partition(":")
    # Bounded, because a store cannot hold larger numbers.
    is_number = at_ms.isascii() and at_ms.isdecimal() and len(at_ms) <= 15
    if not (colon and is_number) or "\0" in swarm_id:
        raise InvalidRequest("before: must be the next_before of another page", field="before")
    return int(at_ms), swarm_id


def _summary(tx: Transaction, row: SwarmRow, polling: frozenset[str] | None) -> SwarmSummary:
    swarm_id, counts = row.swarm.swarm_id, WorkerCounts.from_states(row.states)
    tasks = overview.task_counts(tx, swarm_id)
    live_workers = overview.live_workers(tx, swarm_id, polling)
    work = overview.work_of(tx, swarm_id, tasks, live_workers)
    has_plan = tx.plan_run(swarm_id) is not None
    last_event = tx.last_event(swarm_id)
    status_word = swarm_status(row.swarm, counts, tasks, overview.attention(work, has_plan))
    return SwarmSummary(
        swarm_id=swarm_id,
        feature=row.swarm.feature,
        status=status_word,
        workers_registered=counts.registered,
        workers_complete=counts.complete,
        workers_failed=counts.failed,
        created_at=wire_time(row.swarm.created_at_ms),
        completed_at=optional_wire_time(_completed_at_ms(row.swarm, status_word)),
        last_update=wire_time(last_event.at_ms if last_event else row.swarm.created_at_ms),
        bus=work,
    )


def events_after(tx: Transaction, swarm_id: str, event_id: int, limit: int) -> list[Event]:
    existing(tx, swarm_id)
    return tx.events_after(swarm_id, event_id, limit)


def existing_event_id(tx: Transaction, swarm_id: str, event_id: int) -> int:
    """Where a reader continues who has seen `event_id`. If a backup was restored, or the swarm was
    deleted and created again, that event does not exist: the next ones have lower ids."""
    existing(tx, swarm_id)
    last = tx.last_event(swarm_id)
    return min(event_id, last.event_id if last else 0)


def check_task_exists(tx: Transaction, swarm_id: str, task_id: str) -> None:
    """Raises UnknownSwarm or UnknownTask."""
    check_exists(tx, swarm_id)
    known = tx.task(swarm_id, task_id) or tx.assignment(swarm_id, task_id)
    if known is None and not is_reserved(task_id):
        raise UnknownTask(task_id)
