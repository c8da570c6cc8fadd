"""What may be done with a task and by whom."""

from __future__ import annotations

import pytest

from shiftboss.errors import NotHeld, ShiftbossError, StaleEpoch, TaskEnded, TaskMismatch
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import (
    Task,
    Worker,
    bus_status,
    check_can_ack,
    check_can_submit,
    check_epoch,
    check_holds,
    is_reserved,
)
from tests.conformance.store.rows import assignment

HELD = [
    WorkerState.EXECUTING,
    WorkerState.VERIFYING,
    WorkerState.SELF_REVIEW,
    WorkerState.BLOCKED,
]
ATTEMPT = assignment()._replace(task_id="task-1", packet_id=None, worker="w1", epoch=3)


def task(status: str) -> Task:
    return Task("s", "task-1", "T", "", 0, status, 0, 1, 3, "w1", None, None, 0, 0)


def worker(task_id: str | None) -> Worker:
    return Worker("s", "w1", task_id, True, 0, 0)


@pytest.mark.parametrize("name", ["packet-1", "packet-007", "packet-12345678901234567890"])
def test_the_ids_of_packets_are_reserved(name: str) -> None:
    assert is_reserved(name)


@pytest.mark.parametrize("name", ["packet", "packet-", "packet-1a", "xpacket-1", "Packet-1"])
def test_ids_that_only_resemble_packet_ids_are_allowed(name: str) -> None:
    assert not is_reserved(name)


@pytest.mark.parametrize("status", ["done", "cancelled"])
def test_an_ended_task_cannot_be_submitted(status: str) -> None:
    with pytest.raises(TaskEnded) as refused:
        check_can_submit(task(status))
    assert refused.value.facts == {"task_status": status}


@pytest.mark.parametrize("status", ["open", "queued", "active", "failed"])
def test_any_other_task_can_be_submitted(status: str) -> None:
    check_can_submit(task(status))


def test_a_given_epoch_must_be_the_current_one() -> None:
    check_epoch(ATTEMPT, None)
    check_epoch(ATTEMPT, 3)
    for other in (2, 4):
        with pytest.raises(StaleEpoch) as refused:
            check_epoch(ATTEMPT, other)
        assert refused.value.facts == {"current_epoch": 3}


def test_an_offer_is_acknowledged_by_the_worker_that_received_it() -> None:
    assert check_can_ack(worker("task-1"), ATTEMPT, "task-1") == ATTEMPT


@pytest.mark.parametrize("given", [None, "task-2"])
def test_a_worker_cannot_acknowledge_an_offer_it_did_not_receive(given: str | None) -> None:
    held = None if given is None else ATTEMPT._replace(task_id=given)
    with pytest.raises(TaskMismatch) as refused:
        check_can_ack(worker(given), held, "task-1")
    assert (refused.value.detail, refused.value.facts) == ("Task mismatch", {"given": given})


@pytest.mark.parametrize(
    "state", [state for state in WorkerState if state is not WorkerState.ASSIGNED]
)
def test_only_an_offer_can_be_acknowledged(state: WorkerState) -> None:
    with pytest.raises(TaskMismatch):
        check_can_ack(worker("task-1"), ATTEMPT._replace(state=state), "task-1")


@pytest.mark.parametrize("state", HELD)
@pytest.mark.parametrize("name", [None, "w1"])
@pytest.mark.parametrize("epoch", [None, 3])
def test_the_holder_can_end_its_attempt(
    state: WorkerState, name: str | None, epoch: int | None
) -> None:
    held = ATTEMPT._replace(state=state)
    assert check_holds(held, "task-1", name, epoch) == held


@pytest.mark.parametrize("state", [WorkerState.ASSIGNED, WorkerState.WAITING])
def test_an_offer_and_a_parked_attempt_cannot_be_ended_by_a_report(state: WorkerState) -> None:
    with pytest.raises(NotHeld):
        check_holds(ATTEMPT._replace(state=state), "task-1", "w1", 3)


@pytest.mark.parametrize(
    ("held", "name", "epoch", "error"),
    [
        (None, None, None, NotHeld),
        (None, "w1", 3, NotHeld),
        (ATTEMPT._replace(state=WorkerState.EXECUTING), "w2", None, NotHeld),
        (ATTEMPT._replace(state=WorkerState.EXECUTING), "w1", 2, StaleEpoch),
        (ATTEMPT._replace(state=WorkerState.ASSIGNED), "w1", 2, StaleEpoch),
        (ATTEMPT._replace(state=WorkerState.EXECUTING), "w2", 2, StaleEpoch),
    ],
)
def test_nobody_but_the_holder_can_end_an_attempt(
    held: Assignment | None, name: str | None, epoch: int | None, error: type[ShiftbossError]
) -> None:
    with pytest.raises(error):
        check_holds(held, "task-1", name, epoch)


@pytest.mark.parametrize("is_polling", [False, True])
def test_every_state_has_a_bus_status(is_polling: bool) -> None:
    assert bus_status(None, is_polling=is_polling) == ("polling" if is_polling else "idle")
    assert bus_status(WorkerState.ASSIGNED, is_polling=is_polling) == "pending"
    for state in (*HELD, WorkerState.WAITING):
        assert bus_status(state, is_polling=is_polling) == "executing"
