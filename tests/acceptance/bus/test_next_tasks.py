"""The task that a report brings along: who takes it, and when it is asked for again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shiftboss import BusWorker
from shiftboss.worker import combined_calls
from tests.acceptance.bus.bus import ask, submitted, task
from tests.client import Client
from tests.relay import Relay, relaying
from tests.running import RunningServer

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-03", "BUS-06")]

NAME = "z.ai1"


@pytest.fixture
def client(shared_client: Client) -> Client:
    return shared_client


@pytest.fixture
def relay(shared_server: RunningServer) -> Iterator[Relay]:
    with relaying(shared_server.url) as relay:
        yield relay


@pytest.fixture
def takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for the next task has done something else for a while before."""
    monkeypatch.setattr(combined_calls, "FRESH_SECONDS", 0.0)


async def test_a_second_loop_of_a_worker_gets_what_the_first_has_left(
    relay: Relay, client: Client
) -> None:
    submitted(client, "a", "b")
    async with BusWorker(NAME, server=relay.url) as worker:
        for name in ("a", "b"):
            async for taken in worker.tasks():
                assert (taken.bead_id, taken.epoch) == (name, 1)
                await taken.done()
                break
    assert relay.operations().count("poll_task") == 1


@pytest.mark.usefixtures("takes_its_time")
async def test_a_task_that_has_waited_for_its_worker_is_polled_again(
    relay: Relay, client: Client
) -> None:
    submitted(client, "a", "b")
    async with BusWorker(NAME, server=relay.url) as worker:
        tasks = worker.tasks()
        await (await anext(tasks)).done()
        before = task(client, "b")["lease_expires_at"]
        taken = await anext(tasks)
        assert (taken.bead_id, taken.epoch) == ("b", 1)
        assert task(client, "b")["lease_expires_at"] > before
        await taken.done()
    assert relay.operations()[-3:] == ["worker_done", "poll_task", "worker_done"]


@pytest.mark.usefixtures("takes_its_time")
async def test_a_task_that_was_lost_while_it_waited_is_not_begun(
    relay: Relay, client: Client
) -> None:
    submitted(client, "a", "b")
    async with BusWorker(NAME, server=relay.url) as worker:
        tasks = worker.tasks()
        await (await anext(tasks)).done()
        ask(client, "cancel_task", bead_id="b")
        submitted(client, "c")
        taken = await anext(tasks)
        assert taken.bead_id == "c"
        await taken.done()


async def test_an_error_with_the_name_of_an_odd_file_is_reported(
    relay: Relay, client: Client
) -> None:
    async def work() -> None:
        async with BusWorker(NAME, server=relay.url) as worker:
            async for _ in worker.tasks():
                raise FileNotFoundError("caf\udce9.txt")

    submitted(client, "a")
    with pytest.raises(FileNotFoundError):
        await work()
    assert task(client, "a")["last_error"] == "FileNotFoundError: caf\\udce9.txt"
