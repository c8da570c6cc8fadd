"""Every row of the protocol's table of errors, with real workers and the real server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.acceptance.bus.bus import ask, status_of, submitted, task
from tests.client import Client
from tests.e2e.bus.bus_processes import obedient, worker_process
from tests.relay import Once, Said, relaying
from tests.running import RunningServer
from tests.waiting import wait_until

# A little longer than the shortest lease of a launcher.
LEASE_END_SECONDS = 20.0


def is_polling(client: Client, name: str) -> bool:
    return status_of(client, name) == "polling"


@pytest.mark.requirement("BUS-08")
def test_a_worker_whose_poll_is_refused_registers_again(
    server: RunningServer, client: Client
) -> None:
    with worker_process(obedient("z.ai1"), server.url) as worker:
        wait_until(lambda: is_polling(client, "z.ai1"), "the worker polls")
        server.stop()
        for file in Path(server.database).parent.glob("shiftboss.db*"):
            file.unlink()
        server.start()
        wait_until(lambda: is_polling(client, "z.ai1"), "the worker is known again", 20)
        submitted(client, "task-123")
        assert worker.next_line() == "task-123 1"
        worker.tell("done")
        assert worker.next_line() == "done"
    assert task(client, "task-123")["status"] == "done"


@pytest.mark.requirement("BUS-08", "BUS-03")
def test_a_refused_ack_is_logged_and_polling_continues(
    server: RunningServer, client: Client
) -> None:
    def take_back(call: Said) -> None:
        if call.operation == "ack_task" and task(client, "task-1")["status"] == "active":
            ask(client, "cancel_task", bead_id="task-1")
            submitted(client, "task-2")

    submitted(client, "task-1")
    with relaying(server.url) as relay:
        # A server without combined calls; with them, no ack of its own could be refused.
        relay.is_older = True
        relay.before = take_back
        with worker_process(obedient("z.ai1"), relay.url) as worker:
            assert worker.next_line() == "log: cannot take task-1: Task mismatch; polling again"
            assert worker.next_line() == "task-2 1"
            worker.tell("done")
            assert worker.next_line() == "done"
        assert [name for name in relay.operations() if name != "register_worker"][:5] == [
            *("poll_task", "poll_task", "ack_task", "poll_task", "ack_task")
        ]
    assert task(client, "task-1")["status"] == "cancelled"
    assert task(client, "task-2")["status"] == "done"


@pytest.mark.requirement("BUS-08", "BUS-07")
def test_the_task_of_a_crashed_worker_stays_held_until_it_is_retried(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "task-1")
    with worker_process(obedient("z.ai1"), server.url) as crashed:
        assert crashed.next_line() == "task-1 1"
        crashed.kill()
    with worker_process(obedient("z.ai2"), server.url) as worker:
        wait_until(lambda: is_polling(client, "z.ai2"), "the other worker polls")
        held = task(client, "task-1")
        assert (held["status"], held["worker"]) == ("active", "z.ai1")
        assert status_of(client, "z.ai1") == "executing"
        ask(client, "retry_task", bead_id="task-1")
        assert worker.next_line() == "task-1 2"
        worker.tell("done")
        assert worker.next_line() == "done"
    found = task(client, "task-1")
    assert (found["status"], found["worker"]) == ("done", "z.ai2")


@pytest.mark.requirement("BUS-08", "BUS-09")
def test_a_crashed_worker_loses_its_task_when_the_lease_expires(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "task-1")
    with worker_process(obedient("z.ai1", heartbeat_seconds=1), server.url) as crashed:
        assert crashed.next_line() == "task-1 1"
        wait_until(lambda: _lease_seconds(client) < 6, "a heartbeat has made the lease short")
        with worker_process(obedient("z.ai2"), server.url) as worker:
            wait_until(lambda: is_polling(client, "z.ai2"), "the other worker polls")
            crashed.kill()
            wait_until(
                lambda: task(client, "task-1")["worker"] == "z.ai2",
                "the other worker has the task",
                LEASE_END_SECONDS,
            )
            assert worker.next_line() == "task-1 2"
            worker.tell("done")
            assert worker.next_line() == "done"
    ends = [e.data for e in client.stored_events("default") if e.kind == "attempt_ended"]
    assert [(end["worker"], end["epoch"], end["reason"]) for end in ends] == [
        ("z.ai1", 1, "lease_expired")
    ]
    assert task(client, "task-1")["status"] == "done"


@pytest.mark.requirement("BUS-08", "BUS-03")
def test_a_poll_is_repeated_when_its_connection_is_lost(
    server: RunningServer, client: Client
) -> None:
    with relaying(server.url) as relay:
        relay.before = once = Once("poll_task")
        with worker_process(obedient("z.ai1"), relay.url) as worker:
            assert once.cut.wait(20)
            wait_until(lambda: is_polling(client, "z.ai1"), "the worker polls again")
            submitted(client, "task-1")
            assert worker.next_line() == "task-1 1"


@pytest.mark.requirement("BUS-08", "BUS-03")
def test_a_task_whose_delivery_was_lost_is_delivered_again(
    server: RunningServer, client: Client
) -> None:
    submitted(client, "task-1")
    with relaying(server.url) as relay:
        relay.after = Once("poll_task")
        with worker_process(obedient("z.ai1"), relay.url) as worker:
            assert worker.next_line() == "task-1 1"
            worker.tell("done")
            assert worker.next_line() == "done"
        assert relay.operations()[:4] == [
            *("register_worker", "poll_task", "poll_task", "worker_done")
        ]


@pytest.mark.requirement("BUS-08", "BUS-03", "BUS-04")
def test_a_server_restart_forgets_nothing(any_server: RunningServer, any_client: Client) -> None:
    submitted(any_client, "held")
    with worker_process(obedient("z.ai1"), any_server.url) as busy:
        assert busy.next_line() == "held 1"
        with worker_process(obedient("z.ai2"), any_server.url) as idle:
            wait_until(lambda: is_polling(any_client, "z.ai2"), "the other worker polls")
            before = _all_but_times(any_client)
            any_server.kill()
            any_server.start()
            assert _all_but_times(any_client) == before
            wait_until(lambda: is_polling(any_client, "z.ai2"), "it polls again", 20)
            submitted(any_client, "next")
            assert idle.next_line() == "next 1"
        busy.tell("done")
        assert busy.next_line() == "done"
    found = task(any_client, "held")
    assert (found["status"], found["worker"], found["epoch"]) == ("done", "z.ai1", 1)


@pytest.mark.requirement("BUS-08")
def test_a_result_that_missed_the_dead_server_is_reported_to_its_successor(
    any_server: RunningServer, any_client: Client
) -> None:
    submitted(any_client, "task-1")
    with worker_process(obedient("z.ai1"), any_server.url) as worker:
        assert worker.next_line() == "task-1 1"
        any_server.kill()
        worker.tell("done")
        any_server.start()
        assert worker.next_line() == "done"
    assert task(any_client, "task-1")["status"] == "done"


@pytest.mark.requirement("BUS-08", "BUS-04")
def test_the_queue_keeps_its_order_across_a_restart(
    any_server: RunningServer, any_client: Client
) -> None:
    for bead_id, priority in (("low", 0), ("first", 5), ("second", 5)):
        ask(any_client, "add_task", bead_id=bead_id, title="T", priority=priority)
        ask(any_client, "submit_task", bead_id=bead_id)
    any_server.kill()
    any_server.start()
    with worker_process(obedient("z.ai1"), any_server.url) as worker:
        for bead_id in ("first", "second", "low"):
            assert worker.next_line() == f"{bead_id} 1"
            worker.tell("done")
            assert worker.next_line() == "done"


def _lease_seconds(client: Client) -> float:
    expires_at_ms: int = task(client, "task-1")["lease_expires_at"]
    return expires_at_ms / 1000 - time.time()


def _all_but_times(client: Client) -> tuple[object, ...]:
    status = ask(client, "get_status")
    workers = [(worker["name"], worker["current_task"]) for worker in status["workers"]]
    tasks = ask(client, "list_tasks")["tasks"]
    held = [(one["bead_id"], one["status"], one["worker"], one["epoch"]) for one in tasks]
    return status["queued"], workers, held
