"""Attacks with a token that should have ended: its swarm, its maker or its file is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from shiftboss.coordinator.deployment import tokens
from shiftboss.coordinator.deployment.shared_settings import SharedSettings
from shiftboss.coordinator.duties.cleaner import DAY_MS, Cleaner
from shiftboss.errors import InvalidPolicy
from tests.in_process import OPERATOR_TOKEN, InProcessReply, InProcessServer
from tests.waiting import eventually, wait_until

pytestmark = pytest.mark.requirement("OWN-06")

AS_OPERATOR = {"shiftboss-operator": OPERATOR_TOKEN}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InProcessServer]:
    with InProcessServer(tmp_path / "shiftboss.db") as it:
        yield it


def create_swarm_with_task(server: InProcessServer, swarm_id: str = "login") -> None:
    server.post("/swarm/create", {"swarm_id": swarm_id})
    assert server.bus("add_task", swarm_id=swarm_id, bead_id="T1", title="T1").status == 200


def task_token(server: InProcessServer, maker: str | None = None, seconds: int = 86_400) -> str:
    members = {"swarm_id": "login", "bead_id": "T1", "expires_in_seconds": seconds}
    reply = server.bus("create_task_token", maker, **members)
    assert reply.status == 200, reply
    return str(reply.answer["token"])


def read_task(server: InProcessServer, token: str) -> int:
    return server.bus("show_task", token, swarm_id="login", bead_id="T1").status


# -- a swarm that is gone


def test_tokens_of_a_deleted_swarm_do_not_open_the_next_one_of_its_name(
    store_address: str,
) -> None:
    with InProcessServer(store_address) as server:
        create_swarm_with_task(server)
        stale = [
            server.create_token("ci", "worker", swarm_id="login"),
            task_token(server),
        ]
        assert server.operator("delete_swarm", swarm_id="login", force=True).status == 200
        assert [read_task(server, token) for token in stale] == [401, 401]
        create_swarm_with_task(server)
        assert [read_task(server, token) for token in stale] == [401, 401]


@pytest.mark.postgres
def test_tokens_of_a_swarm_that_another_server_deleted_stop_here(postgres_url: str) -> None:
    with InProcessServer(postgres_url) as one, InProcessServer(postgres_url) as other:
        create_swarm_with_task(one)
        stale = one.create_token("ci", "worker", swarm_id="login")
        wait_until(lambda: read_task(other, stale) == 200, "the token is known")
        one.operator("delete_swarm", swarm_id="login", force=True)
        create_swarm_with_task(one)
        wait_until(lambda: read_task(other, stale) == 401, "the token is refused")


def test_tokens_of_a_swarm_that_retention_deletes_stop(server: InProcessServer) -> None:
    create_swarm_with_task(server)
    server.bus("cancel_task", swarm_id="login", bead_id="T1")
    stale = server.create_token("ci", "worker", swarm_id="login")
    coordinator = server.coordinator
    cleaner = Cleaner(coordinator.store, server.clock, 30, coordinator.settings.changed)
    server.clock.now_ms += 60 * DAY_MS
    assert server.run(cleaner.run_once()) == 1
    wait_until(lambda: read_task(server, stale) == 401, "the token is refused")


# -- a maker that is gone


def test_an_agents_token_does_not_outlive_the_token_that_made_it(server: InProcessServer) -> None:
    create_swarm_with_task(server)
    maker = server.create_token("boss", "orchestrator", swarm_id="login", expires_in_seconds=60)
    agent = task_token(server, maker, seconds=30 * 86_400)
    assert read_task(server, agent) == 200
    server.clock.now_ms += 60_000
    assert read_task(server, agent) == 401


def test_while_its_maker_is_rotated_an_agents_token_gets_its_full_time(
    server: InProcessServer,
) -> None:
    create_swarm_with_task(server)
    old = server.create_token("boss", "orchestrator", swarm_id="login")
    server.operator("rotate_token", name="boss", overlap_seconds=60)
    agent = task_token(server, old)
    server.clock.now_ms += 120_000
    assert read_task(server, agent) == 200


def test_agents_tokens_are_revoked_with_the_last_token_of_their_maker(
    server: InProcessServer,
) -> None:
    create_swarm_with_task(server)
    maker = server.create_token("boss", "orchestrator")
    other = server.create_token("else", "orchestrator")
    agents = [task_token(server, maker), task_token(server, other), task_token(server)]
    rotated = server.operator("rotate_token", name="boss").answer
    server.operator("revoke_token", token=rotated["replaced"][0]["token_id"])
    assert [read_task(server, agent) for agent in agents] == [200, 200, 200]
    revoked = server.operator("revoke_token", token="boss").answer["revoked"]
    assert [row["name"] for row in revoked] == ["boss", "agent:T1"]
    assert [read_task(server, agent) for agent in agents] == [401, 200, 200]


def test_whoever_fills_the_store_with_agents_tokens_leaves_room_for_the_operators(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "TOKENS_MAX", 5)
    monkeypatch.setattr(tokens, "TOKENS_KEPT_FREE", 2)
    create_swarm_with_task(server)
    for _ in range(3):
        task_token(server, seconds=60)
    members = {"swarm_id": "login", "bead_id": "T1", "expires_in_seconds": 60}
    refused = server.bus("create_task_token", **members)
    assert (refused.status, refused.code) == (409, "conflict")
    server.create_token("alice", "operator")
    server.clock.now_ms += 60_000  # those that have expired do not count
    task_token(server)


# -- a change that is not heard


@pytest.mark.parametrize("error", [InvalidPolicy("of a newer version"), OSError("disk full")])
def test_a_setting_that_cannot_be_read_does_not_keep_a_revoked_token_alive(
    error: Exception,
) -> None:
    """Such as the policy of a newer server, on one that had none before, or a new signing key."""
    settings, loaded = SharedSettings(), []

    async def unreadable_policy() -> None:
        raise error

    async def tokens_of_store() -> None:
        loaded.append("tokens")

    settings.add(unreadable_policy)
    settings.add(tokens_of_store)

    async def read() -> None:
        with pytest.raises(type(error)):
            await settings.read()

    asyncio.run(read())
    assert loaded == ["tokens"]


# -- requests that last


def test_an_event_stream_ends_with_a_token_that_its_file_no_longer_has(tmp_path: Path) -> None:
    received: list[bytes] = []
    with InProcessServer(tmp_path / "s.db", token="old-shared") as server:

        async def read() -> None:
            task = {"bead_id": "T1", "title": "T1"}
            await server.send("POST", "/bus/add_task", task, "old-shared")
            reading = asyncio.create_task(
                server.send(
                    "GET", "/swarm/default/events", None, "old-shared", on_body=received.append
                )
            )
            await eventually(lambda: b"T1" in b"".join(received), "the first event")
            server.app.guard.tokens.replace_given(["new-shared"], [OPERATOR_TOKEN])
            task = {"bead_id": "T2", "title": "T2"}
            await server.send("POST", "/bus/add_task", task, "new-shared")
            async with asyncio.timeout(30):
                await reading

        server.run(read())
    assert b"T2" not in b"".join(received)


def mcp_call(tool: str, arguments: dict[str, object]) -> dict[str, object]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize("path", ["/bus/poll_task", "/mcp"])
def test_a_parked_poll_gets_no_task_once_its_token_is_revoked(
    server: InProcessServer, path: str
) -> None:
    token = server.create_token("w", "worker")
    server.bus("register_worker", token, name="w1")
    server.bus("add_task", bead_id="T1", title="of-another-day")
    poll: dict[str, object] = {"name": "w1", "timeout_ms": 20_000}
    body = poll if path != "/mcp" else mcp_call("poll_task", poll)
    headers = {"accept": "application/json, text/event-stream"}

    async def poll_and_revoke() -> bytes:
        polling = asyncio.create_task(server.send("POST", path, body, token, headers))
        hub = server.coordinator.hub
        await eventually(lambda: "w1" in hub.parked_workers("default"), "the poll is parked")
        await server.send("POST", "/operator/revoke_token", {"token": "w"}, None, AS_OPERATOR)
        await server.send("POST", "/bus/submit_task", {"bead_id": "T1"})
        async with asyncio.timeout(30):
            return (await polling).body

    answer = server.run(poll_and_revoke())
    assert b"unauthorized" in answer
    assert b"T1" not in answer


def test_a_parked_verifier_gets_no_claim_once_its_token_is_revoked(
    server: InProcessServer,
) -> None:
    token = server.create_token("v", "verifier")
    claims = server.coordinator.claims

    async def take_and_revoke() -> InProcessReply:
        body = {"verifier": "v", "wait_ms": 20_000}
        taking = asyncio.create_task(server.send("POST", "/operator/take_claim", body, token))
        await eventually(lambda: bool(claims._takers), "the verifier waits")
        await server.send("POST", "/operator/revoke_token", {"token": "v"}, None, AS_OPERATOR)
        claims._wake_takers()  # as the next claim does
        async with asyncio.timeout(30):
            return await taking

    reply = server.run(take_and_revoke())
    assert (reply.status, reply.code) == (401, "unauthorized")


# -- another person's key


def test_the_idempotency_key_of_another_person_shows_no_answer_of_theirs(
    server: InProcessServer,
) -> None:
    alice, bob = (server.create_token(name, "orchestrator") for name in ("alice", "bob"))
    pause = {"reason": "lunch"}
    first = server.post("/bus/pause_swarm", pause, alice, idempotency_key="k1")
    assert first.status == 200, first
    again = server.post("/bus/pause_swarm", pause, alice, idempotency_key="k1")
    assert again.answer == first.answer
    spied = server.post("/bus/pause_swarm", pause, bob, idempotency_key="k1")
    assert (spied.status, spied.code) == (409, "idempotency_key_reused")
