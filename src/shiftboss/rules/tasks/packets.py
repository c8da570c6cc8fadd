"""Assignments, and which reports of a packet are allowed. The task of a packet has one worker."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.errors import CounterRegression, PacketConflict, PacketFinished
from shiftboss.protocol.packets import ProgressRequest, RegisterRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.lifecycle import follow, packet_status


class Assignment(NamedTuple):
    """The current attempt at a task. A tuple, because every request creates one."""

    swarm_id: str
    task_id: str
    epoch: int
    state: WorkerState
    packet_id: int | None
    worker: str
    worktree: str
    steps_total: int
    steps_completed: int
    retries_open: int
    registered_at_ms: int
    updated_at_ms: int
    finished_at_ms: int | None = None
    final_commit: str | None = None
    tests_passed: bool | None = None
    review_passed: bool | None = None
    last_error: str | None = None
    # For tasks on the bus; a packet has no lease.
    lease_expires_at_ms: int | None = None
    lease_seconds: int | None = None
    context_usage: float | None = None
    current_step: str | None = None
    commits: str | None = None  # a JSON list
    spec_path: str | None = None
    # For tasks with a handoff: its version, refused claims in a row, the claim being verified.
    contract_version: int | None = None
    refusals: int = 0
    claim_id: int | None = None
    # Whether a poll has received the offer, or the worker acknowledged it without one.
    received: bool = True


def packet_task_id(packet_id: int) -> str:
    """The id of the task of a packet."""
    return f"packet-{packet_id}"


def is_finished(assignment: Assignment) -> bool:
    return assignment.state in (WorkerState.COMPLETE, WorkerState.FAILED)


def check_same_registration(assignment: Assignment, request: RegisterRequest) -> None:
    """A worker that registers again must have the same name and work tree, or two workers collide.

    After a failure the work may continue in another work tree. The total may have changed.
    """
    fields = [("packet_name", assignment.worker, request.packet_name)]
    if assignment.state is not WorkerState.FAILED:
        fields.append(("worktree", assignment.worktree, request.worktree))
    for field, recorded, requested in fields:
        if recorded != requested:
            raise PacketConflict(
                f"packet {request.packet_id} is registered with {field} {recorded!r}, "
                f"not {requested!r}",
                field=field,
                hint="give this worker another packet_id, or register with the same values",
                facts={"recorded": recorded},
            )


def after_progress(assignment: Assignment, request: ProgressRequest, now_ms: int) -> Assignment:
    """The assignment after a progress report.

    Only `completed` moves the counter, and never down. It may move by several steps, because a
    client without an outbox may have lost the reports in between.
    """
    if request.tasks_completed < assignment.steps_completed:
        raise CounterRegression(
            f"tasks_completed is already {assignment.steps_completed} and cannot go down to "
            f"{request.tasks_completed}; nothing was changed",
            field="tasks_completed",
            hint="after a restart, continue from the checkpoint, as SwarmWorker.resume() does",
            facts={"recorded": assignment.steps_completed},
        )
    completed = assignment.steps_completed
    if request.status == "completed":
        completed = request.tasks_completed
    return assignment._replace(
        state=state_after_report(assignment, WorkerState.EXECUTING),
        steps_completed=completed,
        steps_total=request.tasks_total,
        updated_at_ms=now_ms,
    )


def state_after_report(assignment: Assignment, goal: WorkerState) -> WorkerState:
    """The state after a report that leads to `goal`. A finished packet accepts no more reports."""
    if assignment.state is goal and goal is WorkerState.EXECUTING:
        return goal
    state = None if is_finished(assignment) else follow(assignment.state, goal)
    if state is None:
        status = packet_status(assignment.state)
        hint = (
            "register again to start a new attempt"
            if status == "failed"
            else "the packet is done; report new work under another packet_id"
        )
        raise PacketFinished(
            f"packet {assignment.packet_id} is {status}; nothing was changed",
            field="packet_id",
            hint=hint,
            facts={"packet_status": status},
        )
    return state
