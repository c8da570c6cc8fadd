"""What a packet's report may change. A packet is a task; its worker's attempt is an assignment."""

from __future__ import annotations

from typing import NamedTuple

from shiftboss.errors import CounterRegression, PacketConflict, PacketFinished
from shiftboss.protocol.packets import ProgressRequest, RegisterRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.lifecycle import follow, packet_status


class Assignment(NamedTuple):
    """The current attempt at a task. A tuple: one is made for every request."""

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
    # Of tasks on the bus; a packet has no lease.
    lease_expires_at_ms: int | None = None
    lease_seconds: int | None = None
    context_usage: float | None = None
    current_step: str | None = None
    commits: str | None = None  # a JSON list
    spec_path: str | None = None
    # Of tasks with a handoff: its version, refused claims in a row, the claim under verification.
    contract_version: int | None = None
    refusals: int = 0
    claim_id: int | None = None


def packet_task_id(packet_id: int) -> str:
    """The id of the task that a packet is."""
    return f"packet-{packet_id}"


def is_finished(assignment: Assignment) -> bool:
    return assignment.state in (WorkerState.COMPLETE, WorkerState.FAILED)


def check_same_registration(assignment: Assignment, request: RegisterRequest) -> None:
    """A worker that comes back has the name and the worktree it had; another one is a collision.

    After a failure the work may go on in another worktree. The total may have changed since.
    """
    fields = [("packet_name", assignment.worker, request.packet_name)]
    if assignment.state is not WorkerState.FAILED:
        fields.append(("worktree", assignment.worktree, request.worktree))
    for field, known, said in fields:
        if known != said:
            raise PacketConflict(
                f"packet {request.packet_id} is registered with {field} {known!r}, not {said!r}",
                field=field,
                hint="give this worker a packet_id of its own, or register as before",
                facts={"recorded": known},
            )


def progressed(assignment: Assignment, request: ProgressRequest, now_ms: int) -> Assignment:
    """The assignment after a progress report.

    The counter moves on `completed` alone and never down. Several steps at once are fine: reports
    in between may have been lost by a client without an outbox.
    """
    if request.tasks_completed < assignment.steps_completed:
        raise CounterRegression(
            f"tasks_completed is {assignment.steps_completed} already, "
            f"{request.tasks_completed} would count down; nothing was changed",
            field="tasks_completed",
            hint="after a restart go on from the checkpoint: SwarmWorker.resume() does it",
            facts={"recorded": assignment.steps_completed},
        )
    completed = assignment.steps_completed
    if request.status == "completed":
        completed = request.tasks_completed
    return assignment._replace(
        state=moved(assignment, WorkerState.EXECUTING),
        steps_completed=completed,
        steps_total=request.tasks_total,
        updated_at_ms=now_ms,
    )


def moved(assignment: Assignment, goal: WorkerState) -> WorkerState:
    """The state after a report that leads to `goal`; a finished packet takes no more reports."""
    if assignment.state is goal and goal is WorkerState.EXECUTING:
        return goal
    state = None if is_finished(assignment) else follow(assignment.state, goal)
    if state is None:
        status = packet_status(assignment.state)
        hint = (
            "register again to start a new attempt"
            if status == "failed"
            else "its work is done; report new work under another packet_id"
        )
        raise PacketFinished(
            f"packet {assignment.packet_id} is {status}; nothing was changed",
            field="packet_id",
            hint=hint,
            facts={"packet_status": status},
        )
    return state
