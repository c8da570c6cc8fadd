"""Use cases of packets: register, progress, complete."""

from __future__ import annotations

from typing import Any

from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.handoffs import ownership
from shiftboss.coordinator.idempotency import (
    PACKET_REPORT,
    content_digest,
    data_of_first,
    event_of_same_report,
    progress_data,
    report_digest,
    take,
)
from shiftboss.errors import CounterRegression, IllegalTransition, PacketFinished, UnknownSwarm
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.fields import wire_time
from shiftboss.protocol.packets import (
    CompleteAnswer,
    CompleteRequest,
    ProgressAnswer,
    ProgressRequest,
    RegisterAnswer,
    RegisterRequest,
)
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import Claim, check_no_claim
from shiftboss.rules.tasks.packets import (
    Assignment,
    after_progress,
    check_same_registration,
    packet_task_id,
    state_after_report,
)
from shiftboss.rules.tasks.swarms import WorkerCounts, remaining_workers
from shiftboss.store.port import Transaction


def register(
    tx: Transaction, swarm_id: str, request: RegisterRequest, key: str | None, now_ms: int
) -> RegisterAnswer:
    """A worker registers for its packet. A repeat during the attempt gets the same answer; after a
    failure a new attempt starts, with a higher epoch."""
    task_id = packet_task_id(request.packet_id)
    report_key = report_digest(PACKET_REPORT, key)
    if report_key is None:
        assignment, first = tx.take_assignment(swarm_id, task_id), None
    else:
        assignment, first = tx.take_reported(swarm_id, task_id, report_key)
    if first is not None:
        data_of_first(first, EventKind.WORKER_REGISTERED, request, ("packet_name", "tasks_total"))
        return _register_answer(swarm_id, request, first.at_ms)
    if assignment is not None:
        check_same_registration(assignment, request)
    if assignment is None or assignment.state is WorkerState.FAILED:
        assignment = _start_attempt(tx, swarm_id, task_id, request, assignment, report_key, now_ms)
    return _register_answer(swarm_id, request, assignment.registered_at_ms)


def _register_answer(swarm_id: str, request: RegisterRequest, at_ms: int) -> RegisterAnswer:
    return RegisterAnswer(
        registered=True,
        packet_id=request.packet_id,
        packet_name=request.packet_name,
        swarm_id=swarm_id,
        registered_at=wire_time(at_ms),
    )


def _start_attempt(
    tx: Transaction,
    swarm_id: str,
    task_id: str,
    request: RegisterRequest,
    former: Assignment | None,
    report_key: bytes | None,
    now_ms: int,
) -> Assignment:
    handoff = tx.handoff(swarm_id, task_id)
    assignment = Assignment(
        swarm_id=swarm_id,
        task_id=task_id,
        epoch=former.epoch + 1 if former else 1,
        state=WorkerState.ASSIGNED,
        packet_id=request.packet_id,
        worker=request.packet_name,
        worktree=request.worktree,
        steps_total=request.tasks_total,
        steps_completed=0,
        retries_open=0,
        registered_at_ms=now_ms,
        updated_at_ms=now_ms,
        contract_version=handoff.version if handoff else None,
    )
    tx.put_assignment(assignment)
    if former:
        tx.forget_retries(swarm_id, task_id)
        ownership.reserve_again(tx, swarm_id, task_id, now_ms)
    # A late worker reopens a swarm that the other workers completed.
    tx.set_swarm_completed(swarm_id, None)
    tx.add_event(
        swarm_id,
        EventKind.WORKER_REGISTERED,
        now_ms,
        {
            "packet_id": request.packet_id,
            "packet_name": request.packet_name,
            "tasks_total": request.tasks_total,
            "attempt": assignment.epoch,
        },
        task_id=task_id,
        report_key=report_key,
    )
    return assignment


def progress(
    tx: Transaction, swarm_id: str, request: ProgressRequest, key: str | None, now_ms: int
) -> ProgressAnswer:
    assignment, report_key, first = take(tx, swarm_id, "progress", request, key)
    if first is not None:
        return _repeat_progress_answer(first, request)
    try:
        check_no_claim(assignment, "packet_id")
        after = after_progress(assignment, request, now_ms)
    except (PacketFinished, CounterRegression, IllegalTransition):
        first = event_of_same_report(tx, assignment, request)
        if first is None:
            raise
        return _repeat_progress_answer(first, request)
    if assignment.retries_open and request.status != "failed":
        # The worker works on the step again.
        closed = tx.close_retries(swarm_id, assignment.task_id, request.task_id)
        after = after._replace(retries_open=assignment.retries_open - closed)
    tx.save_progress(after)
    tx.add_event(
        swarm_id,
        EventKind.PROGRESS_UPDATE,
        now_ms,
        progress_data(request, after.steps_completed),
        task_id=assignment.task_id,
        report_key=report_key,
    )
    return ProgressAnswer(
        acknowledged=True,
        packet_id=request.packet_id,
        task_id=request.task_id,
        tasks_completed=after.steps_completed,
        tasks_total=after.steps_total,
        timestamp=wire_time(now_ms),
    )


def _repeat_progress_answer(first: Event, request: ProgressRequest) -> ProgressAnswer:
    fields = ["task_id", "task_name", "status", "tasks_total", "commit"]
    if request.status == "completed":
        fields.append("tasks_completed")
    data = data_of_first(first, EventKind.PROGRESS_UPDATE, request, fields)
    return ProgressAnswer(
        acknowledged=True,
        packet_id=request.packet_id,
        task_id=request.task_id,
        tasks_completed=data["tasks_completed"],
        tasks_total=data["tasks_total"],
        timestamp=wire_time(first.at_ms),
    )


def complete(
    tx: Transaction, swarm_id: str, request: CompleteRequest, now_ms: int
) -> CompleteAnswer | Claim:
    """Complete the packet; the last packet completes the swarm. For a packet with a contract: the
    claim that has to be verified first.

    Always identified by its content: an attempt completes its packet once, whatever the key.
    """
    assignment, report_key, first = take(tx, swarm_id, "complete", request, None)
    if first is not None:
        data = data_of_first(
            first,
            EventKind.WORKER_COMPLETE,
            request,
            ("final_commit", "tests_passed", "review_passed"),
        )
        return _complete_answer(
            request, first.at_ms, data["remaining_workers"], data["swarm_complete"]
        )
    if assignment.claim_id is None:
        state_after_report(assignment, WorkerState.COMPLETE)  # raises if it cannot be completed
    if assignment.contract_version is not None:
        return _claim(tx, assignment, request, now_ms)
    return _finish(tx, assignment, request, report_key, now_ms)


def _claim(tx: Transaction, assignment: Assignment, request: CompleteRequest, now_ms: int) -> Claim:
    content = {
        "commit": request.final_commit,
        "files_touched": [],
        "summary": "",
        "packet": request.model_dump(mode="json"),
    }
    return claims.make_claim(tx, assignment, content, None, now_ms)


def finish_claimed(
    tx: Transaction, assignment: Assignment, report: dict[str, Any], now_ms: int
) -> None:
    """Complete a packet whose claim was accepted."""
    request = CompleteRequest.model_validate(report)
    report_key = content_digest("complete", assignment, request)
    _finish(tx, assignment, request, report_key, now_ms)


def _finish(
    tx: Transaction,
    assignment: Assignment,
    request: CompleteRequest,
    report_key: bytes | None,
    now_ms: int,
) -> CompleteAnswer:
    swarm_id = assignment.swarm_id
    tx.save_assignment(
        assignment._replace(
            state=WorkerState.COMPLETE,
            retries_open=0,
            updated_at_ms=now_ms,
            finished_at_ms=now_ms,
            final_commit=request.final_commit,
            tests_passed=request.tests_passed,
            review_passed=request.review_passed,
            last_error=None,
        )
    )
    if assignment.retries_open:
        tx.close_retries(swarm_id, assignment.task_id)
    remaining = _remaining_workers(tx, swarm_id)
    tx.add_event(
        swarm_id,
        EventKind.WORKER_COMPLETE,
        now_ms,
        {
            "packet_id": request.packet_id,
            "final_commit": request.final_commit,
            "tests_passed": request.tests_passed,
            "review_passed": request.review_passed,
            "tasks_completed": assignment.steps_completed,
            "tasks_total": assignment.steps_total,
            "remaining_workers": remaining,
            "swarm_complete": remaining == 0,
        },
        task_id=assignment.task_id,
        report_key=report_key,
    )
    if remaining == 0:
        tx.set_swarm_completed(swarm_id, now_ms)
        tx.add_event(swarm_id, EventKind.SWARM_COMPLETE, now_ms, {"swarm_id": swarm_id})
    return _complete_answer(request, now_ms, remaining, remaining == 0)


def _remaining_workers(tx: Transaction, swarm_id: str) -> int:
    swarm = tx.swarm(swarm_id)
    if swarm is None:
        raise UnknownSwarm(swarm_id)
    counts = WorkerCounts.from_states(tx.state_counts(swarm_id))
    return remaining_workers(swarm.workers_expected, counts)


def _complete_answer(
    request: CompleteRequest, at_ms: int, remaining: int, swarm_complete: bool
) -> CompleteAnswer:
    return CompleteAnswer(
        acknowledged=True,
        packet_id=request.packet_id,
        final_commit=request.final_commit,
        completed_at=wire_time(at_ms),
        swarm_complete=swarm_complete,
        remaining_workers=remaining,
    )
