"""The bus over HTTP: every documented call and answer, on both stores."""

from __future__ import annotations

import time

import pytest

from tests.acceptance.bus.bus import ask, status_of, submitted, task
from tests.acceptance.bus.bus_calls import polling, refused
from tests.client import Client
from tests.running import RunningServer


def started(client: Client, name: str = "z.ai1", bead_id: str = "task-123") -> int:
    """A worker that executes a task; the epoch."""
    ask(client, "register_worker", name=name)
    submitted(client, bead_id)
    epoch: int = ask(client, "ack_task", name=name, bead_id=bead_id)["epoch"]
    return epoch


@pytest.mark.requirement("BUS-02")
def test_a_worker_registers_once_and_is_known_from_then_on(shared_any_client: Client) -> None:
    answer = {"success": True, "worker": "z.ai1", "message": "Registered"}
    assert ask(shared_any_client, "register_worker", name="z.ai1") == answer
    answer["message"] = "Already registered"
    assert ask(shared_any_client, "register_worker", name="z.ai1") == answer
    (worker,) = ask(shared_any_client, "get_status")["workers"]
    assert worker == {"name": "z.ai1", "status": "idle", "current_task": None, "idle_seconds": 0}


@pytest.mark.requirement("BUS-02")
def test_a_poll_by_an_unregistered_worker_is_told_to_register(shared_any_client: Client) -> None:
    problem = refused(
        shared_any_client,
        "/bus/poll_task",
        {"name": "z.ai1", "timeout_ms": 1},
        404,
        "unknown_worker",
    )
    assert problem["detail"] == "Unknown worker: z.ai1 - call register_worker first"
    assert problem["field"] == "name"
    assert ask(shared_any_client, "get_status")["workers"] == []


@pytest.mark.requirement("BUS-03")
def test_a_poll_without_a_task_times_out_with_the_documented_answer(
    shared_any_client: Client,
) -> None:
    ask(shared_any_client, "register_worker", name="z.ai1")
    began = time.monotonic()
    answer = ask(shared_any_client, "poll_task", name="z.ai1", timeout_ms=300)
    assert answer == {"task": None, "timeout": True}
    assert time.monotonic() - began >= 0.3
    assert status_of(shared_any_client, "z.ai1") == "idle"


@pytest.mark.requirement("BUS-03", "BUS-04")
def test_submitting_a_task_answers_a_parked_poll(
    shared_any_server: RunningServer, shared_any_client: Client
) -> None:
    ask(shared_any_client, "register_worker", name="z.ai1")
    ask(shared_any_client, "add_task", bead_id="task-123", title="Implement login")
    with polling(shared_any_client, shared_any_server.url) as polls:
        poll = polls.park("z.ai1")
        before = time.time() * 1000
        answer = ask(shared_any_client, "submit_task", bead_id="task-123")
        assert answer == {
            "dispatched": True,
            "worker": "z.ai1",
            "bead_id": "task-123",
            "epoch": 1,
        }
        delivered = poll.answer()["task"]
    assert status_of(shared_any_client, "z.ai1") == "pending"
    assert delivered["bead_id"] == "task-123"
    assert delivered["title"] == "Implement login"
    assert before - 1 <= delivered["assigned_at"] <= time.time() * 1000
    assert delivered["lease_expires_at"] > delivered["assigned_at"]


@pytest.mark.requirement("BUS-03")
def test_a_task_is_delivered_on_every_poll_until_it_is_acknowledged(
    shared_any_client: Client,
) -> None:
    ask(shared_any_client, "register_worker", name="z.ai1")
    submitted(shared_any_client, "task-123")
    for _ in range(3):
        answer = ask(shared_any_client, "poll_task", name="z.ai1", timeout_ms=10)
        assert answer["task"]["bead_id"] == "task-123"
        assert "timeout" not in answer
    ask(shared_any_client, "ack_task", name="z.ai1", bead_id="task-123")
    assert ask(shared_any_client, "poll_task", name="z.ai1", timeout_ms=10) == {
        "task": None,
        "timeout": True,
    }


@pytest.mark.requirement("BUS-04")
def test_a_task_without_a_free_worker_is_queued_with_its_position(
    shared_any_client: Client,
) -> None:
    for name in ("one", "two"):
        ask(shared_any_client, "add_task", bead_id=name, title=name)
    assert ask(shared_any_client, "submit_task", bead_id="one") == {
        "dispatched": False,
        "worker": None,
        "bead_id": "one",
        "queued": True,
        "position": 1,
    }
    assert ask(shared_any_client, "submit_task", bead_id="two")["position"] == 2
    assert ask(shared_any_client, "get_status")["queued"] == 2
    ask(shared_any_client, "register_worker", name="z.ai1")
    assert ask(shared_any_client, "get_status")["queued"] == 1
    assert ask(shared_any_client, "poll_task", name="z.ai1")["task"]["bead_id"] == "one"


@pytest.mark.requirement("BUS-05")
def test_an_acknowledgement_starts_the_work(shared_any_client: Client) -> None:
    ask(shared_any_client, "register_worker", name="z.ai1")
    submitted(shared_any_client, "task-123")
    answer = ask(shared_any_client, "ack_task", name="z.ai1", bead_id="task-123")
    assert answer | {"success": True, "worker": "z.ai1", "bead_id": "task-123"} == answer
    (worker,) = ask(shared_any_client, "get_status")["workers"]
    assert (worker["status"], worker["current_task"]) == ("executing", "task-123")


@pytest.mark.requirement("BUS-05")
def test_acknowledging_a_different_task_is_a_mismatch(shared_any_client: Client) -> None:
    ask(shared_any_client, "register_worker", name="z.ai1")
    submitted(shared_any_client, "task-123", "task-124")
    body = {"name": "z.ai1", "bead_id": "task-124"}
    problem = refused(shared_any_client, "/bus/ack_task", body, 409, "task_mismatch")
    assert problem["detail"] == "Task mismatch"
    assert status_of(shared_any_client, "z.ai1") == "pending"


@pytest.mark.requirement("BUS-06")
def test_a_worker_that_is_done_is_idle_again(shared_any_client: Client) -> None:
    started(shared_any_client)
    answer = ask(shared_any_client, "worker_done", bead_id="task-123")
    assert answer == {"success": True, "bead_id": "task-123"}
    (worker,) = ask(shared_any_client, "get_status")["workers"]
    assert worker == {"name": "z.ai1", "status": "idle", "current_task": None, "idle_seconds": 0}
    assert task(shared_any_client, "task-123")["status"] == "done"


@pytest.mark.requirement("BUS-06")
def test_reporting_a_failed_task_returns_its_status(shared_any_client: Client) -> None:
    started(shared_any_client)
    answer = ask(shared_any_client, "task_failed", bead_id="task-123", reason="Build failed")
    assert answer == {"success": True, "bead_id": "task-123", "status": "failed"}
    shown = task(shared_any_client, "task-123")
    assert (shown["status"], shown["last_error"]) == ("failed", "Build failed")
    assert status_of(shared_any_client, "z.ai1") == "idle"


@pytest.mark.requirement("BUS-07")
def test_resetting_a_stuck_worker_requeues_its_task(shared_any_client: Client) -> None:
    started(shared_any_client)
    answer = ask(shared_any_client, "reset_worker", worker_name="z.ai1")
    assert answer == {"success": True, "worker": "z.ai1", "released": "task-123"}
    delivered = ask(shared_any_client, "poll_task", name="z.ai1")["task"]
    assert (delivered["bead_id"], delivered["epoch"]) == ("task-123", 2)


@pytest.mark.requirement("BUS-07", "BUS-08")
def test_a_retry_requeues_a_stuck_task(shared_any_client: Client) -> None:
    old = started(shared_any_client)
    # Of two workers last heard from in the same millisecond, the first by name is chosen.
    ask(shared_any_client, "register_worker", name="z.ai0")
    answer = ask(shared_any_client, "retry_task", bead_id="task-123")
    assert answer == {"success": True, "bead_id": "task-123", "status": "active"}
    delivered = ask(shared_any_client, "poll_task", name="z.ai0")["task"]
    assert (delivered["bead_id"], delivered["epoch"]) == ("task-123", old + 1)


@pytest.mark.requirement("BUS-07")
def test_the_status_distinguishes_the_four_worker_states(
    shared_any_server: RunningServer, shared_any_client: Client
) -> None:
    started(shared_any_client, "busy", "t1")
    ask(shared_any_client, "register_worker", name="offered")
    submitted(shared_any_client, "t2")
    ask(shared_any_client, "poll_task", name="offered")
    ask(shared_any_client, "register_worker", name="bored")
    ask(shared_any_client, "register_worker", name="keen")
    with polling(shared_any_client, shared_any_server.url) as polls:
        poll = polls.park("keen", timeout_ms=700)
        shown = {
            worker["name"]: (worker["status"], worker["current_task"])
            for worker in ask(shared_any_client, "get_status")["workers"]
        }
        poll.answer()
    assert shown == {
        "busy": ("executing", "t1"),
        "offered": ("pending", None),
        "bored": ("idle", None),
        "keen": ("polling", None),
    }


@pytest.mark.requirement("BUS-03", "BUS-04", "BUS-05", "BUS-06")
def test_the_documented_worker_loop_works_through_many_tasks(shared_any_client: Client) -> None:
    ask(shared_any_client, "register_worker", name="z.ai1")
    submitted(shared_any_client, *(f"task-{number}" for number in range(20)))
    done = []
    while found := ask(shared_any_client, "poll_task", name="z.ai1", timeout_ms=0).get("task"):
        ask(shared_any_client, "ack_task", name="z.ai1", bead_id=found["bead_id"])
        ask(shared_any_client, "worker_done", bead_id=found["bead_id"])
        done.append(found["bead_id"])
    assert done == [f"task-{number}" for number in range(20)]
    events = shared_any_client.stored_events("default")
    assert [e.data["bead_id"] for e in events if e.kind == "task_done"] == done
    assert [e.event_id for e in events] == list(range(1, len(events) + 1))


@pytest.mark.requirement("BUS-04")
def test_each_swarm_has_its_own_bus(shared_any_client: Client) -> None:
    swarm_id = shared_any_client.create_swarm()
    ask(shared_any_client, "register_worker", name="w")
    ask(shared_any_client, "register_worker", name="w", swarm_id=swarm_id)
    submitted(shared_any_client, "t")
    assert (
        ask(shared_any_client, "poll_task", name="w", swarm_id=swarm_id, timeout_ms=0)["task"]
        is None
    )
    assert ask(shared_any_client, "list_tasks", swarm_id=swarm_id)["tasks"] == []
    assert ask(shared_any_client, "poll_task", name="w")["task"]["bead_id"] == "t"


@pytest.mark.requirement("OWN-19", "BUS-04")
def test_a_task_does_not_wait_for_a_worker_that_is_gone_while_another_polls(
    shared_any_server: RunningServer, shared_any_client: Client
) -> None:
    ask(shared_any_client, "register_worker", name="gone")
    submitted(shared_any_client, "task-123")
    assert status_of(shared_any_client, "gone") == "pending"
    names = [f"z.ai{number}" for number in range(6)]
    for name in names:
        ask(shared_any_client, "register_worker", name=name)
    with polling(shared_any_client, shared_any_server.url) as polls:
        answers = [poll.answer()["task"] for poll in [polls.start(name, 200) for name in names]]
    (delivered,) = [task for task in answers if task is not None]
    assert (delivered["bead_id"], delivered["epoch"]) == ("task-123", 2)
    (holder,) = [name for name in names if status_of(shared_any_client, name) == "pending"]
    assert status_of(shared_any_client, "gone") == "idle"
    late = {"name": "gone", "bead_id": "task-123", "epoch": 1}
    refused(shared_any_client, "/bus/ack_task", late, 409, "task_mismatch")
    ask(shared_any_client, "ack_task", name=holder, bead_id="task-123", epoch=2)
    ask(shared_any_client, "worker_done", bead_id="task-123", name=holder, epoch=2)


@pytest.mark.requirement("OWN-19", "BUS-04")
def test_a_parked_poll_gets_the_task_before_an_idle_worker(
    shared_any_server: RunningServer, shared_any_client: Client
) -> None:
    for name in ("gone", "here"):
        ask(shared_any_client, "register_worker", name=name)
    ask(shared_any_client, "add_task", bead_id="task-123", title="T")
    with polling(shared_any_client, shared_any_server.url) as polls:
        poll = polls.park("here")
        answer = ask(shared_any_client, "submit_task", bead_id="task-123")
        assert (answer["dispatched"], answer["worker"], answer["epoch"]) == (True, "here", 1)
        assert poll.answer()["task"]["epoch"] == 1
