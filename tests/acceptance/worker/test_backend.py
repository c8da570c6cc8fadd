"""The backend for direct calls, and its view of a swarm's events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from shiftboss.client.errors import ServerUnreachable
from shiftboss.errors import (
    CounterRegression,
    InvalidRequest,
    SwarmExists,
    Unauthorized,
    UnknownSwarm,
)
from spellbook.coordination.backends import get_backend
from spellbook.coordination.backends.base import CoordinationBackend
from tests.acceptance.swarms.packets import (
    SWARM,
    accepted,
    complete_body,
    error_body,
    progress_body,
    register_body,
)
from tests.acceptance.worker.fake_server import Reply, running_fake_server
from tests.client import Client
from tests.running import RunningServer

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("SW-03")]


def backend_of(server: RunningServer, **config: object) -> CoordinationBackend:
    port = urlsplit(server.url).port
    return get_backend("mcp-streamable-http", {"host": "127.0.0.1", "port": port, **config})


async def take(events: AsyncIterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(30):
        return [await anext(events) for _ in range(count)]


async def test_the_backend_takes_a_packet_through_its_life(server: RunningServer) -> None:
    backend = backend_of(server)
    swarm_id = await backend.create_swarm("sign-in", swarm_id=SWARM, workers_expected=1)
    assert swarm_id == SWARM
    registered = await backend.register_worker(SWARM, **register_body())
    assert registered["registered"] is True
    progressed = await backend.report_progress(SWARM, **progress_body())
    assert progressed["tasks_completed"] == 1
    failed = await backend.report_error(SWARM, **error_body(error_type="rate_limit"))
    assert failed["retry_scheduled"] is True
    completed = await backend.report_complete(SWARM, **complete_body())
    assert completed["swarm_complete"] is True
    status = await backend.get_status(SWARM)
    assert (status["status"], status["feature"]) == ("complete", "sign-in")


async def test_a_swarm_without_a_name_gets_one(server: RunningServer) -> None:
    backend = backend_of(server)
    swarm_id = await backend.create_swarm("sign-in", manifest_path="plan.json", auto_merge=True)
    assert (await backend.get_status(swarm_id))["auto_merge"] is True
    bare = await backend.get_status(await backend.create_swarm())
    assert (bare["feature"], bare["auto_merge"]) == ("", False)


async def test_problem_replies_are_raised_as_matching_errors(
    server: RunningServer, client: Client
) -> None:
    backend = backend_of(server)
    with pytest.raises(UnknownSwarm) as unknown:
        await backend.get_status("swarm-none")
    assert (unknown.value.field, unknown.value.detail) == ("swarm_id", "Unknown swarm: swarm-none")
    client.create_swarm(swarm_id=SWARM, feature="one")
    with pytest.raises(SwarmExists):
        await backend.create_swarm("another", swarm_id=SWARM)
    accepted(client, "register", register_body())
    accepted(client, "progress", progress_body(tasks_completed=5))
    with pytest.raises(CounterRegression) as regressed:
        await backend.report_progress(SWARM, **progress_body(tasks_completed=4))
    assert regressed.value.facts == {"recorded": 5}
    with pytest.raises(InvalidRequest) as invalid:
        await backend.report_complete(SWARM, **complete_body(final_commit="main"))
    assert invalid.value.field == "final_commit"


async def test_a_missing_server_raises_its_own_error(server: RunningServer) -> None:
    backend = backend_of(server)
    server.kill()
    with pytest.raises(ServerUnreachable, match=server.url):
        await backend.get_status(SWARM)
    with pytest.raises(ServerUnreachable, match=server.url):
        await anext(backend.subscribe_events(SWARM))


@pytest.mark.parametrize(
    "body", [{}, b"<html>", b"[" * 100_000, {"workers": []}], ids=lambda body: str(body)[:12]
)
async def test_replies_of_another_program_count_as_an_unreachable_server(body: object) -> None:
    with running_fake_server(lambda _: Reply(200, body)) as fake_server:
        backend = get_backend("mcp-streamable-http", {"port": fake_server.server_address[1]})
        with pytest.raises(ServerUnreachable):
            await backend.create_swarm("sign-in")
        with pytest.raises(ServerUnreachable):
            await backend.register_worker(SWARM, **register_body())
        with pytest.raises(ServerUnreachable):
            await backend.report_progress(SWARM, **progress_body())
        with pytest.raises(ServerUnreachable):
            await backend.get_status(SWARM)


def test_an_unknown_backend_is_refused_with_the_names_of_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'carrier-pigeon'.*mcp-streamable-http"):
        get_backend("carrier-pigeon", {})


async def test_the_configured_token_is_sent(
    sqlite_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = RunningServer(sqlite_path, token="secret").start()
    try:
        with pytest.raises(Unauthorized):
            await backend_of(running).create_swarm("sign-in")
        assert await backend_of(running, token="secret").create_swarm("sign-in")
        monkeypatch.setenv("SHIFTBOSS_TOKEN", "secret\n")
        assert await backend_of(running).create_swarm("sign-in")
    finally:
        running.close()


async def test_events_are_followed_across_restarts_without_gaps_or_repeats(
    server: RunningServer, client: Client
) -> None:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body())
    events = backend_of(server).subscribe_events(SWARM)
    seen = await take(events, 2)
    for restart in (server.kill, server.stop):
        restart()
        server.start()
        name = f"after-{restart.__name__}"
        accepted(client, "progress", progress_body(task_id=f"{name}-1", tasks_completed=0))
        accepted(client, "progress", progress_body(task_id=f"{name}-2", tasks_completed=0))
        seen += await take(events, 2)
    assert [event["id"] for event in seen] == [1, 2, 3, 4, 5, 6]
    assert [event["event"] for event in seen[:3]] == [
        "swarm_created",
        "worker_registered",
        "progress_update",
    ]
    assert [event["data"]["task_id"] for event in seen[2:]] == [
        "after-kill-1",
        "after-kill-2",
        "after-stop-1",
        "after-stop-2",
    ]


async def test_events_start_after_the_given_id(server: RunningServer, client: Client) -> None:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body())
    (event,) = await take(backend_of(server).subscribe_events(SWARM, since_event_id=1), 1)
    assert (event["id"], event["event"]) == (2, "worker_registered")


async def test_the_events_of_an_unknown_swarm_are_an_error(server: RunningServer) -> None:
    with pytest.raises(UnknownSwarm):
        await anext(backend_of(server).subscribe_events("swarm-none"))


async def test_events_end_when_the_swarm_is_gone_after_a_restart(
    server: RunningServer, client: Client
) -> None:
    client.create_swarm(swarm_id=SWARM)
    events = backend_of(server).subscribe_events(SWARM)
    await take(events, 1)
    server.kill()
    for file in Path(server.database).parent.glob("shiftboss.db*"):
        file.unlink()
    server.start()
    with pytest.raises(UnknownSwarm):
        await take(events, 1)
