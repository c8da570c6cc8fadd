"""Two real servers on one PostgreSQL: a reader of one sees what is reported to the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from shiftboss.store.postgres.connections import CONNECTION_WAIT_SECONDS
from tests.client import Client
from tests.postgres import Postgres
from tests.running import RunningServer
from tests.waiting import wait_until

SWARM = "swarm-abc123"


@pytest.fixture
def servers(postgres_url: str) -> Iterator[tuple[RunningServer, RunningServer]]:
    with ExitStack() as running:
        one, other = RunningServer(postgres_url), RunningServer(postgres_url)
        for server in (one, other):
            running.callback(server.close)
            server.start()
        yield one, other


@pytest.fixture
def clients(servers: tuple[RunningServer, RunningServer]) -> Iterator[tuple[Client, Client]]:
    one, other = (Client(server.url) for server in servers)
    one.create_swarm(swarm_id=SWARM)
    yield one, other
    one.close()
    other.close()


def register(client: Client, packet_id: int) -> None:
    body = {"packet_id": packet_id, "packet_name": "p", "tasks_total": 3, "worktree": "/w"}
    answer = client.post(f"/swarm/{SWARM}/register", body)
    assert answer.status_code == 200, answer.text


@pytest.mark.requirement("SW-09")
@pytest.mark.requirement("OWN-05")
def test_a_stream_shows_reports_to_either_server_in_order(
    clients: tuple[Client, Client],
) -> None:
    one, other = clients
    with one.events(SWARM) as reader:
        assert reader.next().kind == "swarm_created"
        for packet_id in range(1, 41):
            register((one, other)[packet_id % 2], packet_id)
        seen = reader.take(40)
    assert [event.event_id for event in seen] == list(range(2, 42))
    assert [event.data["packet_id"] for event in seen] == list(range(1, 41))
    assert one.status(SWARM) == other.status(SWARM)


@pytest.mark.requirement("SW-09")
def test_a_stream_misses_nothing_across_a_postgres_restart(
    clients: tuple[Client, Client], postgres: Postgres
) -> None:
    one, other = clients
    with one.events(SWARM) as reader:
        register(other, 1)
        assert [event.event_id for event in reader.take(2)] == [1, 2]
        postgres.restart()
        for packet_id in (2, 3, 4):
            register(other, packet_id)
        assert [event.event_id for event in reader.take(3)] == [3, 4, 5]
        register(other, 5)
        assert reader.next().data["packet_id"] == 5


@pytest.mark.requirement("SW-01", "SW-09")
def test_one_server_keeps_working_when_the_other_dies(
    servers: tuple[RunningServer, RunningServer], clients: tuple[Client, Client]
) -> None:
    one, other = clients
    register(one, 1)
    servers[0].kill()
    with other.events(SWARM) as reader:
        register(other, 2)
        assert [event.event_id for event in reader.take(3)] == [1, 2, 3]
    assert other.status(SWARM)["workers_registered"] == 2
    servers[1].stop()


@pytest.mark.requirement("BUS-03")
def test_polls_parked_on_one_server_miss_nothing_across_a_postgres_restart(
    clients: tuple[Client, Client], postgres: Postgres
) -> None:
    """The tasks are assigned on the other server while the first may not be listening yet."""
    one, other = clients
    names = [f"w-{number}" for number in range(4)]
    for name in names:
        one.post("/bus/register_worker", {"name": name})
        other.post("/bus/add_task", {"bead_id": f"t-{name}", "title": "T"})

    refused: list[str] = []

    def poll(name: str) -> object:
        answer = one.post("/bus/poll_task", {"name": name, "timeout_ms": 60_000})
        if answer.status_code == 503:
            refused.append(answer.json()["detail"])
            return poll(name)
        task: object = answer.json()["task"]
        return task

    with ThreadPoolExecutor(len(names)) as threads:
        polls = [threads.submit(poll, name) for name in names]
        wait_until(lambda: statuses(one) == ["polling"] * len(names), "all are parked")
        began = time.monotonic()
        postgres.restart()
        away = time.monotonic() - began
        for name in names:
            assert other.post("/bus/submit_task", {"bead_id": f"t-{name}"}).status_code == 200
        found = [poll.result(timeout=30) for poll in polls]
    assert None not in found
    # A server cannot repeat a commit that may have been done; only the caller can.
    refused = [detail for detail in refused if "may or may not have been done" not in detail]
    assert not refused or away > CONNECTION_WAIT_SECONDS, "a short absence is waited out"


@pytest.mark.requirement("BUS-03")
def test_a_poll_returns_a_task_assigned_earlier_on_the_other_server(
    clients: tuple[Client, Client],
) -> None:
    one, other = clients
    one.post("/bus/register_worker", {"name": "w"})
    for number in range(20):
        task = {"bead_id": f"t-{number}"}
        other.post("/bus/add_task", {**task, "title": "T"})
        other.post("/bus/submit_task", task)
        answer = one.post("/bus/poll_task", {"name": "w", "timeout_ms": 0}).json()
        assert answer["task"]["bead_id"] == f"t-{number}"
        assert one.post("/bus/ack_task", {"name": "w", **task}).status_code == 200
        assert one.post("/bus/worker_done", {"name": "w", **task}).status_code == 200


def statuses(client: Client) -> list[str]:
    workers = client.post("/bus/get_status", {}).json()["workers"]
    return [worker["status"] for worker in workers]
