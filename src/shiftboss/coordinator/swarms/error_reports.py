"""Use cases of error reports: a failed step of a packet, and the retry that follows."""

from __future__ import annotations

from shiftboss.coordinator.handoffs.strategy_records import record_failure
from shiftboss.coordinator.idempotency import data_of_first, take
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.packets import ErrorAnswer, ErrorRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import check_no_claim
from shiftboss.rules.tasks.packets import Assignment, is_finished, state_after_report
from shiftboss.rules.tasks.retry import RetryPolicy, is_recoverable
from shiftboss.store.port import Retry, Transaction


def error(
    tx: Transaction,
    swarm_id: str,
    request: ErrorRequest,
    key: str | None,
    policy: RetryPolicy,
    now_ms: int,
) -> ErrorAnswer:
    """A step of the packet failed: it is retried later, or the packet has failed.

    Each report counts as a failure, unless its key was used before: a second failure of the same
    step looks the same.
    """
    assignment, report_key, first = take(tx, swarm_id, "error", request, key, by_content=False)
    if first is not None:
        data = data_of_first(
            first,
            EventKind.WORKER_ERROR,
            request,
            ("task_id", "error_type", "message", "recoverable"),
        )
        return _error_answer(request, data["retry_in_seconds"])
    delay_seconds = None
    check_no_claim(assignment, "packet_id")
    if not is_finished(assignment):
        delay_seconds = _plan_retry(tx, assignment, request, policy, now_ms)
    tx.add_event(
        swarm_id,
        EventKind.WORKER_ERROR,
        now_ms,
        {
            "packet_id": request.packet_id,
            "task_id": request.task_id,
            "error_type": request.error_type,
            "message": request.message,
            "recoverable": request.recoverable,
            "retry_scheduled": delay_seconds is not None,
            "retry_in_seconds": delay_seconds,
        },
        task_id=assignment.task_id,
        report_key=report_key,
    )
    return _error_answer(request, delay_seconds)


def _plan_retry(
    tx: Transaction,
    assignment: Assignment,
    request: ErrorRequest,
    policy: RetryPolicy,
    now_ms: int,
) -> int | None:
    """Schedule the next attempt at the step, or fail the packet; the delay in seconds."""
    previous = tx.retry(assignment.swarm_id, assignment.task_id, request.task_id)
    retries_made = previous.retries_made if previous else 0
    delay_seconds = (
        policy.delay_seconds(retries_made)
        if is_recoverable(request.error_type, request.recoverable)
        else None
    )
    after = assignment._replace(
        updated_at_ms=now_ms, last_error=f"{request.error_type}: {request.message}"
    )
    if delay_seconds is None:
        if assignment.retries_open:
            tx.close_retries(assignment.swarm_id, assignment.task_id)
        tx.save_assignment(
            after._replace(
                state=state_after_report(assignment, WorkerState.FAILED),
                retries_open=0,
                finished_at_ms=now_ms,
            )
        )
        if assignment.contract_version is not None:
            record_failure(tx, assignment, request.message, assignment.epoch, now_ms)
            tx.release(assignment.swarm_id, assignment.task_id)
        return None
    was_open = previous is not None and previous.state != "closed"
    tx.put_retry(
        Retry(
            assignment.swarm_id,
            assignment.task_id,
            request.task_id,
            retries_made + 1,
            "scheduled",
            now_ms + delay_seconds * 1000,
        )
    )
    tx.save_assignment(
        after._replace(
            state=state_after_report(assignment, WorkerState.EXECUTING),
            retries_open=assignment.retries_open + (not was_open),
        )
    )
    return delay_seconds


def _error_answer(request: ErrorRequest, delay_seconds: int | None) -> ErrorAnswer:
    return ErrorAnswer(
        acknowledged=True,
        packet_id=request.packet_id,
        error_logged=True,
        retry_scheduled=delay_seconds is not None,
        retry_in_seconds=delay_seconds,
    )


def fire_retry(tx: Transaction, planned: Retry, now_ms: int) -> bool:
    """Announce that a retry is due. False if it was closed or moved in the meantime."""
    assignment = tx.take_assignment(planned.swarm_id, planned.task_id)
    if assignment is None:
        return False
    retry = tx.retry(planned.swarm_id, planned.task_id, planned.step_id)
    if retry is None or retry.state != "scheduled" or retry.due_at_ms > now_ms:
        return False
    tx.put_retry(retry._replace(state="due"))
    tx.add_event(
        retry.swarm_id,
        EventKind.RETRY_DUE,
        now_ms,
        {
            "packet_id": assignment.packet_id,
            "task_id": retry.step_id,
            "attempt": retry.retries_made,
        },
        task_id=retry.task_id,
    )
    return True
