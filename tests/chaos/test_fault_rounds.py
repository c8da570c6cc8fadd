"""A few rounds of `make faults`: processes are killed, stopped and starved under load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.acceptance.bus.bus import ask
from tests.client import Client
from tests.faults.ledger import History, Ledger
from tests.faults.postgres_world import PostgresWorld
from tests.faults.rounds import World
from tests.faults.sqlite_world import SqliteWorld

SEED = 16
# The others are in test_kill_server.py.
SERVER_FAULTS = (
    "stop and continue the server",
    "kill the workers",
    "no file descriptors",
    "no memory",
)
POSTGRES_FAULTS = (
    "kill a server",
    "stop and continue a server",
    "kill PostgreSQL",
    "kill a process of PostgreSQL",
    "freeze the network to PostgreSQL",
)


@contextmanager
def playing(world: World) -> Iterator[World]:
    try:
        yield world
    finally:
        world.close()


@pytest.mark.requirement("SW-01", "SW-07", "SW-09")
def test_nothing_is_lost_or_doubled_whatever_happens_to_a_server_and_its_workers(
    tmp_path: Path,
) -> None:
    with playing(SqliteWorld(tmp_path, Random(SEED))) as world:
        for kind in SERVER_FAULTS:
            world.round(kind)


@pytest.mark.postgres
@pytest.mark.requirement("SW-01", "SW-07", "SW-09")
def test_nothing_is_lost_or_doubled_whatever_happens_to_postgresql_and_its_servers(
    tmp_path: Path,
) -> None:
    with playing(PostgresWorld(tmp_path, Random(SEED))) as world:
        for kind in POSTGRES_FAULTS:
            world.round(kind)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("progress 1000 2", "acknowledged reports are lost"),
        ("done t-1", "lost: "),
        ("submitted t-1", "t-1"),
        ("failed /bus/poll_task 500", "500"),
        ("bad /bus/poll_task 422", "422"),
    ],
)
def test_the_comparison_notices_what_the_server_does_not_have(
    client: Client, tmp_path: Path, line: str, what: str
) -> None:
    client.create_swarm(swarm_id="faults")
    ask(client, "register_worker", name="w1")
    packet = {"packet_id": 1000, "tasks_total": 9}
    client.post("/swarm/faults/register", packet | {"packet_name": "p", "worktree": "/w"})
    work = {"task_id": "t1", "task_name": "work", "status": "completed", "tasks_completed": 1}
    assert client.post("/swarm/faults/progress", packet | work).status_code == 200
    file = tmp_path / "ledger"
    file.write_text("progress 1000 1\nprogress 10")
    history = History()
    history.check(client, Ledger(file))
    file.write_text(f"progress 1000 1\n{line}\n")
    with pytest.raises(AssertionError, match=what):
        history.check(client, Ledger(file))
