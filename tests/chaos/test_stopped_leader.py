"""Real servers on one PostgreSQL: the leader is stopped and comes back; the database hangs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from tests.client import ANSWER_SECONDS, Client
from tests.postgres import Postgres
from tests.running import RunningServer
from tests.waiting import wait_until

LEAD_SECONDS = 1.0


@contextmanager
def serving(url: str, **settings: object) -> Iterator[tuple[RunningServer, Client]]:
    server = RunningServer(url, verifies=False, db_lead_seconds=LEAD_SECONDS, **settings)
    try:
        server.start()
        client = Client(server.url)
        yield server, client
        client.close()
    finally:
        server.close()


@contextmanager
def stopped(server: RunningServer) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


def term(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT term FROM leadership").fetchone()
    assert row is not None
    return int(row[0])


def pause_for_a_moment(client: Client, swarm_id: str) -> None:
    """A duty of the leader ends the pause."""
    client.create_swarm(swarm_id=swarm_id)
    until_ms = round(time.time() * 1000) + 200
    body = {"swarm_id": swarm_id, "reason": "lunch", "until_ms": until_ms}
    answer = client.post("/bus/pause_swarm", body)
    assert answer.status_code == 200, answer.text


def kinds(client: Client, swarm_id: str) -> list[str]:
    return [event.kind for event in client.stored_events(swarm_id)]


def resumes(client: Client, swarm_id: str) -> None:
    wait_until(
        lambda: "dispatch_resumed" in kinds(client, swarm_id), "the duty was done", ANSWER_SECONDS
    )


def test_a_healthy_server_takes_over_from_a_stopped_leader_which_comes_back_harmless(
    postgres_url: str,
) -> None:
    with serving(postgres_url) as (leader, before):
        wait_until(lambda: term(postgres_url) == 1, "the first server leads", ANSWER_SECONDS)
        pause_for_a_moment(before, "s-1")
        resumes(before, "s-1")
        with serving(postgres_url) as (standby, client):
            with stopped(leader):
                pause_for_a_moment(client, "s-2")
                resumes(client, "s-2")
                assert term(postgres_url) == 2
            # It is back, and is not the leader any more: it hands out work, and runs no duty.
            pause_for_a_moment(before, "s-3")
            resumes(before, "s-3")
            assert term(postgres_url) == 2
            for name in ("s-1", "s-2", "s-3"):
                assert kinds(client, name).count("dispatch_resumed") == 1
            standby.stop()
        # A server that stops hands over at once.
        wait_until(lambda: term(postgres_url) == 3, "the first server leads again", ANSWER_SECONDS)
        pause_for_a_moment(before, "s-4")
        resumes(before, "s-4")


def test_a_frozen_database_is_503_in_bounded_time_and_the_server_recovers_by_itself(
    postgres_url: str, postgres: Postgres
) -> None:
    with serving(postgres_url, db_statement_seconds=0.5) as (_, client):
        client.create_swarm(swarm_id="s")
        register = {"swarm_id": "s", "name": "w"}
        with postgres.frozen():
            # Each answer must come before the client gives up.
            assert client.get("/health").status_code == 503
            assert client.get("/swarm/s/status").status_code == 503
            assert client.post("/bus/register_worker", register).status_code == 503
        wait_until(
            lambda: client.post("/bus/register_worker", register).status_code == 200,
            "it writes again",
            ANSWER_SECONDS,
        )
        wait_until(
            lambda: client.get("/health").status_code == 200, "it is well again", ANSWER_SECONDS
        )
        assert client.get("/swarm/s/status").status_code == 200
        pause_for_a_moment(client, "later")
        resumes(client, "later")
