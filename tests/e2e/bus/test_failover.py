"""Clients with the addresses of two servers on one PostgreSQL, of which one is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shiftboss import BusWorker
from shiftboss.client.servers import Servers
from shiftboss.client.swarm_events import SwarmEvents
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.verifier.service import run_verifier
from tests.acceptance.bus.bus import ask, status_of, submitted, task
from tests.acceptance.swarms.packets import SWARM, accepted, register_body
from tests.acceptance.worker.workers import worker_at
from tests.client import Client
from tests.commands import running, shiftboss
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-05")]

OPERATOR = "of-the-operator"


class Pair:
    """Clients use `first`, until it is killed."""

    def __init__(self, database: str, folder: Path) -> None:
        self.first, self.second = (
            RunningServer(database, state=str(folder / name), operator_token=OPERATOR)
            for name in ("first", "second")
        )

    @property
    def urls(self) -> str:
        return f"{self.first.url},{self.second.url}"


@pytest.fixture
def pair(postgres_url: str, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(postgres_url, tmp_path)
    with ExitStack() as stack:
        for server in (pair.first, pair.second):
            stack.callback(server.close)
            server.start()
        yield pair


@pytest.fixture
def second(pair: Pair) -> Iterator[Client]:
    client = Client(pair.second.url)
    yield client
    client.close()


async def test_a_worker_finishes_its_task_and_its_parked_poll_moves_on(
    pair: Pair, second: Client
) -> None:
    submitted(second, "a")
    async with BusWorker("w", server=pair.urls) as worker:
        tasks = worker.tasks()
        held = await anext(tasks)
        pair.first.kill()
        await held.done()
        assert task(second, "a")["status"] == "done"
        # The other direction: a poll that is parked at the second server, when that is killed.
        pair.first.start()
        polling = asyncio.create_task(anext(tasks))
        await eventually(lambda: status_of(second, "w") == "polling", "it polls")
        pair.second.kill()
        first = Client(pair.first.url)
        submitted(first, "b")
        assert (await polling).bead_id == "b"
        first.close()


async def test_a_silent_server_is_left_after_a_timeout(pair: Pair, second: Client) -> None:
    """Its kernel still accepts connections and requests, so that their outcome is unknown."""
    second.create_swarm(swarm_id="s")
    os.kill(pair.first.pid, signal.SIGSTOP)
    try:
        servers = Servers.at(pair.urls)
        async with asyncio.timeout(60), RunServerClient(servers, "s") as client:
            ask(second, "add_task", bead_id="a", title="A", swarm_id="s")
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("shiftboss.orchestrator.run.server_client.ANSWER_SECONDS", 0.3)
                assert (await client.call("show_task", bead_id="a"))["status"]
        assert servers.address == pair.second.url
    finally:
        os.kill(pair.first.pid, signal.SIGCONT)


async def test_an_event_stream_continues_with_its_last_id(pair: Pair, second: Client) -> None:
    second.create_swarm(swarm_id=SWARM)
    events = SwarmEvents(Servers.at(pair.urls), SWARM, 0).follow()
    seen = [(await anext(events))["id"]]
    pair.first.kill()
    accepted(second, "register", register_body())
    seen.append((await anext(events))["id"])
    await events.aclose()
    assert seen == [event.event_id for event in second.stored_events(SWARM)]


async def test_reports_of_packets_go_to_the_other_server(
    pair: Pair, second: Client, tmp_path: Path
) -> None:
    second.create_swarm(swarm_id=SWARM)
    async with worker_at(pair.urls, tmp_path / "tree") as worker:
        (tmp_path / "tree").mkdir()
        await worker.register()
        pair.first.kill()
        answer = await worker.report_progress("t", "Task", "completed")
    assert answer["acknowledged"] is True
    assert second.status(SWARM)["workers"][0]["tasks_completed"] == 1


async def test_a_verifier_goes_on_at_the_other_server(pair: Pair, tmp_path: Path) -> None:
    servers, outages = Servers.at(pair.urls), list[str]()
    verifying = asyncio.create_task(
        run_verifier(servers, OPERATOR, "v", tmp_path / "v", 1, lambda _: None, outages.append)
    )
    try:
        await asyncio.sleep(0)
        pair.first.kill()
        await eventually(lambda: servers.address == pair.second.url, "it uses the other", 30)
        assert not verifying.done()
    finally:
        verifying.cancel()
        await asyncio.gather(verifying, return_exceptions=True)


def test_commands_go_to_the_other_server(pair: Pair) -> None:
    pair.first.kill()
    created = shiftboss("swarm", "create", "--id", SWARM, "--json", "--server", pair.urls)
    assert json.loads(created.out)["swarm_id"] == SWARM
    listed = shiftboss("swarm", "list", "--json", url=pair.urls)
    assert [swarm["swarm_id"] for swarm in json.loads(listed.out)["swarms"]] == [SWARM]
    with running("events", SWARM, "--follow", "--json", url=pair.urls) as following:
        assert json.loads(following.line())["event"] == "swarm_created"
        pair.first.start()
        pair.second.kill()
        client = Client(pair.first.url)
        accepted(client, "register", register_body())
        client.close()
        assert json.loads(following.line())["event"] == "worker_registered"
    pair.first.kill()
    refused = shiftboss("swarm", "list", url=pair.urls)
    assert refused.code == 1
    assert pair.first.url in refused.err
    assert pair.second.url in refused.err
