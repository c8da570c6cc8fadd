"""Edge cases of the bus: each has a defined answer and does no damage."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.acceptance.bus.bus import ask, status_of, submitted, task
from tests.acceptance.bus.bus_calls import (
    InSwarm,
    Polls,
    half_said,
    polling,
    refused,
    say,
    snapshot,
)
from tests.client import Client
from tests.running import RunningServer
from tests.waiting import wait_until

POLL = "/bus/poll_task"
ACK = "/bus/ack_task"
DONE = "/bus/worker_done"
FAILED = "/bus/task_failed"
SUBMIT = "/bus/submit_task"


@pytest.fixture
def polls(bus: InSwarm) -> Iterator[Polls]:
    with polling(bus, bus.url) as it:
        yield it


@pytest.fixture
def idle(bus: InSwarm) -> InSwarm:
    """A bus with an idle worker `w`."""
    ask(bus, "register_worker", name="w")
    return bus


@pytest.fixture
def executing(idle: InSwarm) -> InSwarm:
    """A bus whose worker `w` is executing `t`."""
    submitted(idle, "t")
    ask(idle, "ack_task", name="w", bead_id="t")
    return idle


@pytest.mark.requirement("BUS-03")
def test_two_polls_under_one_name_both_receive_the_task(idle: InSwarm, polls: Polls) -> None:
    first, second = polls.park("w"), polls.start("w")
    submitted(idle, "t")  # the second is already parked, or gets the task at once
    delivered = [poll.answer()["task"] for poll in (first, second)]
    assert [(one["bead_id"], one["epoch"]) for one in delivered] == [("t", 1), ("t", 1)]
    ask(idle, "ack_task", name="w", bead_id="t")
    refused(idle, ACK, {"name": "w", "bead_id": "t"}, 409, "task_mismatch")
    ask(idle, "worker_done", bead_id="t")


@pytest.mark.requirement("BUS-03")
def test_when_one_of_two_polls_hangs_up_the_task_is_not_lost(idle: InSwarm, polls: Polls) -> None:
    with half_said(idle, "poll_task", '{"name": "w", "timeout_ms": 14000}'):
        wait_until(lambda: status_of(idle, "w") == "polling", "the first poll is parked")
        second = polls.start("w")
    submitted(idle, "t")
    assert second.answer()["task"]["bead_id"] == "t"


@pytest.mark.requirement("BUS-03")
def test_a_poll_while_executing_times_out_without_a_task(executing: InSwarm) -> None:
    submitted(executing, "other")
    answer = ask(executing, "poll_task", name="w", timeout_ms=50)
    assert answer == {"task": None, "timeout": True}
    assert status_of(executing, "w") == "executing"
    assert task(executing, "other")["status"] == "queued"


@pytest.mark.requirement("BUS-03", "BUS-06")
def test_a_poll_parked_while_executing_receives_the_next_task(
    executing: InSwarm, polls: Polls
) -> None:
    submitted(executing, "next")
    poll = polls.start("w")
    ask(executing, "worker_done", bead_id="t")
    assert poll.answer()["task"]["bead_id"] == "next"


@pytest.mark.requirement("BUS-02", "BUS-08")
def test_a_registration_while_executing_changes_nothing(executing: InSwarm) -> None:
    before = snapshot(executing)
    assert ask(executing, "register_worker", name="w")["message"] == "Already registered"
    assert snapshot(executing) == before
    ask(executing, "worker_done", bead_id="t")


@pytest.mark.requirement("BUS-06")
@pytest.mark.parametrize("path", [DONE, FAILED])
def test_a_report_for_a_task_that_nobody_holds_is_refused(bus: InSwarm, path: str) -> None:
    ask(bus, "add_task", bead_id="open", title="O")
    submitted(bus, "queued")
    ask(bus, "register_worker", name="w")  # gets `queued` assigned, but does not acknowledge it
    submitted(bus, "waits")
    before = snapshot(bus)
    for bead_id in ("open", "queued", "waits"):
        problem = refused(bus, path, {"bead_id": bead_id}, 409, "not_held")
        assert problem["field"] == "bead_id"
        assert "nothing was changed" in problem["detail"]
    refused(bus, path, {"bead_id": "none"}, 404, "unknown_task")
    assert snapshot(bus) == before


@pytest.mark.requirement("BUS-06")
def test_reporting_done_twice_counts_once(executing: InSwarm) -> None:
    ask(executing, "worker_done", bead_id="t")
    before = snapshot(executing)
    refused(executing, DONE, {"bead_id": "t"}, 409, "not_held")
    refused(executing, FAILED, {"bead_id": "t"}, 409, "not_held")
    assert snapshot(executing) == before
    assert executing.kinds().count("task_done") == 1


@pytest.mark.requirement("BUS-06")
def test_a_worker_cannot_end_another_workers_task(executing: InSwarm) -> None:
    ask(executing, "register_worker", name="v")
    before = snapshot(executing)
    problem = refused(executing, DONE, {"bead_id": "t", "name": "v"}, 409, "not_held")
    assert problem["holder"] == "w"
    assert snapshot(executing) == before


@pytest.mark.requirement("BUS-05")
def test_a_second_acknowledgement_is_refused_and_changes_nothing(executing: InSwarm) -> None:
    before = snapshot(executing)
    problem = refused(executing, ACK, {"name": "w", "bead_id": "t"}, 409, "task_mismatch")
    assert problem["hint"] == "w has already acknowledged t"
    assert snapshot(executing) == before


@pytest.mark.requirement("BUS-05")
def test_acknowledging_a_task_assigned_to_another_worker_is_refused(idle: InSwarm) -> None:
    submitted(idle, "t")
    ask(idle, "register_worker", name="v")
    before = snapshot(idle)
    for body in ({"name": "v", "bead_id": "t"}, {"name": "w", "bead_id": "none"}):
        problem = refused(idle, ACK, body, 409, "task_mismatch")
        assert problem["detail"] == "Task mismatch"
    refused(idle, ACK, {"name": "nobody", "bead_id": "t"}, 404, "unknown_worker")
    assert snapshot(idle) == before


@pytest.mark.requirement("BUS-07")
def test_a_reset_answers_the_parked_poll(idle: InSwarm, polls: Polls) -> None:
    poll = polls.park("w")
    assert ask(idle, "reset_worker", worker_name="w") == {
        "success": True,
        "worker": "w",
        "released": None,
    }
    assert poll.answer() == {"task": None, "timeout": True, "reset": True}
    wait_until(lambda: status_of(idle, "w") == "idle", "w is idle")


@pytest.mark.requirement("BUS-07")
def test_resetting_a_worker_that_polls_while_executing_loses_no_task(
    executing: InSwarm, polls: Polls
) -> None:
    poll = polls.start("w")
    assert ask(executing, "reset_worker", worker_name="w")["released"] == "t"
    answer = poll.answer()  # it was already parked, or came later and got the task
    assert answer.get("reset") or answer["task"]["bead_id"] == "t"
    delivered = ask(executing, "poll_task", name="w", timeout_ms=0)["task"]
    assert (delivered["bead_id"], delivered["epoch"]) == ("t", 2)
    problem = refused(
        executing, "/bus/reset_worker", {"worker_name": "nobody"}, 404, "unknown_worker"
    )
    assert problem["field"] == "worker_name"


@pytest.mark.requirement("BUS-03")
@pytest.mark.parametrize("timeout_ms", [0, 1])
def test_a_poll_with_a_short_timeout_is_answered_at_once(idle: InSwarm, timeout_ms: int) -> None:
    began = time.monotonic()
    answer = ask(idle, "poll_task", name="w", timeout_ms=timeout_ms)
    assert answer == {"task": None, "timeout": True}
    assert time.monotonic() - began < 20
    submitted(idle, "t")
    answer = ask(idle, "poll_task", name="w", timeout_ms=timeout_ms)
    assert answer["task"]["bead_id"] == "t"


@pytest.mark.requirement("BUS-03")
@pytest.mark.parametrize("timeout_ms", ["30000", "3000000000", "3e9", "3E+9", None])
def test_a_poll_with_a_long_timeout_waits_and_is_woken(
    idle: InSwarm, timeout_ms: str | None
) -> None:
    patience = "" if timeout_ms is None else f', "timeout_ms": {timeout_ms}'
    with half_said(idle, "poll_task", f'{{"name": "w"{patience}}}') as line:
        wait_until(lambda: status_of(idle, "w") == "polling", "the poll is parked")
        submitted(idle, "t")
        answer = line.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b'"bead_id":"t"' in answer


@pytest.mark.requirement("BUS-04")
def test_submitting_an_unknown_or_ended_task_is_refused(executing: InSwarm) -> None:
    ask(executing, "worker_done", bead_id="t")
    submitted(executing, "c")
    ask(executing, "cancel_task", bead_id="c")
    before = snapshot(executing)
    problem = refused(executing, SUBMIT, {"bead_id": "none"}, 404, "unknown_task")
    assert problem["detail"] == "Unknown task: none"
    assert problem["dispatched"] is False
    for bead_id, status in (("t", "done"), ("c", "cancelled")):
        problem = refused(executing, SUBMIT, {"bead_id": bead_id}, 409, "task_ended")
        assert (problem["task_status"], problem["dispatched"]) == (status, False)
    back = f"`shiftboss task retry c --swarm {executing.swarm_id}` brings it back"
    assert problem["hint"] == back
    refused(executing, "/bus/retry_task", {"bead_id": "t"}, 409, "task_ended")
    assert snapshot(executing) == before


@pytest.mark.requirement("OWN-12")
def test_a_cancelled_task_is_brought_back_by_a_retry(executing: InSwarm) -> None:
    """It waits in the queue again if it was submitted before, and is open if it never was."""
    submitted(executing, "c")
    ask(executing, "add_task", bead_id="o", title="Never submitted")
    for bead_id in ("t", "c", "o"):
        ask(executing, "cancel_task", bead_id=bead_id, reason="not needed")
        assert ask(executing, "show_task", bead_id=bead_id)["last_error"] == "not needed"
    ask(executing, "register_worker", name="v")
    assert ask(executing, "retry_task", bead_id="o")["status"] == "open"
    assert ask(executing, "retry_task", bead_id="t")["status"] == "active"
    assert ask(executing, "retry_task", bead_id="c")["status"] in ("active", "queued")


@pytest.mark.requirement("BUS-04")
def test_a_resubmitted_task_keeps_its_place(executing: InSwarm) -> None:
    submitted(executing, "q1", "q2")
    before = snapshot(executing)
    assert ask(executing, "submit_task", bead_id="t") == {
        "dispatched": False,
        "worker": "w",
        "bead_id": "t",
        "epoch": 1,
        "status": "executing",
    }
    assert ask(executing, "submit_task", bead_id="q2")["position"] == 2
    assert ask(executing, "submit_task", bead_id="q1")["position"] == 1
    assert snapshot(executing) == before


@pytest.mark.requirement("BUS-09")
def test_reports_from_an_old_epoch_are_refused_as_stale(executing: InSwarm) -> None:
    ask(executing, "register_worker", name="v")
    ask(executing, "retry_task", bead_id="t")
    ask(executing, "ack_task", name="v", bead_id="t", epoch=2)
    before = snapshot(executing)
    late = {"bead_id": "t", "name": "w", "epoch": 1}
    for path in (DONE, FAILED):
        problem = refused(executing, path, late, 409, "stale_epoch")
        assert (problem["field"], problem["current_epoch"]) == ("epoch", 2)
    refused(executing, ACK, late, 409, "task_mismatch")
    stale = {"name": "v", "epoch": 1}
    refused(executing, "/bus/heartbeat", stale, 409, "stale_epoch")
    # It has no task at all any more.
    lost = refused(executing, "/bus/heartbeat", {"name": "w", "epoch": 1}, 409, "stale_epoch")
    assert (lost["field"], lost["success"]) == ("epoch", False)
    assert ask(executing, "heartbeat", name="w")["success"] is True
    assert snapshot(executing) == before
    ask(executing, "worker_done", bead_id="t", name="v", epoch=2)
    ended = {"name": "v", "epoch": 2}
    refused(executing, "/bus/heartbeat", ended, 409, "stale_epoch")


@pytest.mark.requirement("BUS-05", "BUS-06")
def test_a_report_repeated_with_its_key_gets_the_first_answer(idle: InSwarm) -> None:
    submitted(idle, "t", "u")
    for path, body in (
        (ACK, {"name": "w", "bead_id": "t"}),
        (DONE, {"bead_id": "t"}),
        (ACK, {"name": "w", "bead_id": "u"}),
        (FAILED, {"bead_id": "u", "reason": "Build failed"}),
    ):
        first = idle.post(path, body, "one-key")
        assert first.status_code == 200, first.text
        before = snapshot(idle)
        for _ in range(2):
            again = idle.post(path, body, "one-key")
            assert (again.status_code, again.json()) == (200, first.json())
        assert snapshot(idle) == before
    kinds = idle.kinds()
    assert (kinds.count("task_started"), kinds.count("task_done"), kinds.count("task_failed")) == (
        2,
        1,
        1,
    )


@pytest.mark.requirement("BUS-05")
def test_an_acknowledgement_repeated_after_the_task_ended_gets_the_first_answer(
    idle: InSwarm,
) -> None:
    submitted(idle, "t", "u")
    body = {"name": "w", "bead_id": "t"}
    first = idle.post(ACK, body, "k").json()
    ask(idle, "worker_done", bead_id="t")  # the worker is given `u`
    assert idle.post(ACK, body, "k").json() == first
    assert task(idle, "u")["state"] == "assigned"


@pytest.mark.requirement("BUS-05", "BUS-06", "BUS-09")
def test_reusing_the_key_of_another_worker_or_attempt_is_refused(idle: InSwarm) -> None:
    submitted(idle, "t")
    assert idle.post(ACK, {"name": "w", "bead_id": "t"}, "k").status_code == 200
    assert idle.post(FAILED, {"bead_id": "t"}, "k").status_code == 200
    ask(idle, "retry_task", bead_id="t")
    mine = {"name": "w", "bead_id": "t"}
    refused(idle, ACK, mine, 409, "idempotency_key_reused", "k")
    refused(idle, ACK, mine | {"epoch": 2}, 409, "idempotency_key_reused", "k")
    ask(idle, "ack_task", **mine)
    refused(idle, FAILED, mine, 409, "idempotency_key_reused", "k")
    assert task(idle, "t")["state"] == "executing"
    ask(idle, "register_worker", name="v")
    ask(idle, "retry_task", bead_id="t")
    ask(idle, "poll_task", name="v")
    refused(idle, ACK, {"name": "v", "bead_id": "t"}, 409, "idempotency_key_reused", "k")
    assert idle.post(FAILED, mine | {"epoch": 1}, "k").status_code == 200  # a repeat of the first
    assert task(idle, "t")["state"] == "assigned"


@pytest.mark.requirement("BUS-08")
def test_a_client_that_hangs_up_is_no_longer_polling(idle: InSwarm) -> None:
    with half_said(idle, "poll_task", '{"name": "w", "timeout_ms": 600000}'):
        wait_until(lambda: status_of(idle, "w") == "polling", "the poll is parked")
    wait_until(lambda: status_of(idle, "w") == "idle", "the poll is given up")
    submitted(idle, "t")
    assert ask(idle, "poll_task", name="w")["task"]["bead_id"] == "t"


@pytest.mark.requirement("BUS-08")
def test_a_server_that_stops_answers_parked_polls_at_once(
    server: RunningServer, client: Client
) -> None:
    names = [f"w{number}" for number in range(5)]
    for name in names:
        ask(client, "register_worker", name=name)
    with polling(client, server.url) as polls:
        parked = [polls.park(name) for name in names]
        began = time.monotonic()
        server.stop()  # and must end with 0
        assert time.monotonic() - began < 20
        assert [poll.answer() for poll in parked] == [{"task": None, "timeout": True}] * 5


@pytest.mark.requirement("BUS-08", "BUS-03")
def test_a_killed_server_forgets_nothing(any_server: RunningServer, any_client: Client) -> None:
    for name in ("busy", "offered"):
        ask(any_client, "register_worker", name=name)
    submitted(any_client, "t1", "t2", "t3", "t4")
    ask(any_client, "ack_task", name="busy", bead_id="t1")
    asked = say(any_client, "blocked", "busy", payload={"question": "which?"})
    before = snapshot(any_client)
    any_server.kill()
    any_server.start()
    assert snapshot(any_client) == before
    assert ask(any_client, "poll_task", name="offered")["task"]["bead_id"] == "t2"
    ask(any_client, "answer_question", question_id=asked["question_id"], answer="this")
    ask(any_client, "worker_done", bead_id="t1", name="busy", epoch=1)
    with polling(any_client, any_server.url) as polls:  # a client that reconnects is served
        assert polls.start("busy").answer()["task"]["bead_id"] == "t3"
    events = any_client.stored_events("default")
    assert [e.event_id for e in events] == list(range(1, len(events) + 1))


@pytest.mark.requirement("BUS-07", "BUS-09")
@pytest.mark.parametrize("operation", ["retry_task", "submit_task"])
def test_a_repeat_with_the_same_key_does_not_affect_a_later_attempt(
    bus: InSwarm, operation: str
) -> None:
    ask(bus, "register_worker", name="w")
    ask(bus, "add_task", bead_id="t", title="T")
    if operation == "retry_task":
        ask(bus, "submit_task", bead_id="t")
    body = {"bead_id": "t"}
    first = bus.post(f"/bus/{operation}", body, "k")
    assert first.status_code == 200
    ask(bus, "ack_task", name="w", bead_id="t")
    if operation == "submit_task":
        ask(bus, "task_failed", bead_id="t", reason="no")
    before = task(bus, "t")
    assert bus.post(f"/bus/{operation}", body, "k").json() == first.json()
    assert task(bus, "t") == before
    refused(bus, f"/bus/{operation}", {"bead_id": "u"}, 409, "idempotency_key_reused", "k")


@pytest.mark.requirement("BUS-01", "BUS-02")
def test_a_registration_repeated_with_its_key_gets_the_same_message(
    bus: InSwarm,
) -> None:
    answers = [bus.post("/bus/register_worker", {"name": "w"}, "k").json() for _ in range(2)]
    assert [answer["message"] for answer in answers] == ["Registered", "Registered"]
    assert ask(bus, "register_worker", name="w")["message"] == "Already registered"


@pytest.mark.requirement("BUS-02")
def test_refusals_contain_the_documented_fields_as_well_as_ours(bus: InSwarm) -> None:
    unknown = bus.post("/bus/poll_task", {"name": "z.ai1"}).json()
    assert unknown["error"] == "Unknown worker: z.ai1 - call register_worker first"
    ask(bus, "register_worker", name="w")
    mismatch = bus.post("/bus/ack_task", {"name": "w", "bead_id": "t"}).json()
    assert (mismatch["success"], mismatch["error"]) == (False, "Task mismatch")
