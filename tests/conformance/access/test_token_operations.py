"""Named tokens: made, used, rotated, revoked, expired, and never shown twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.coordinator.duties.cleaner import DAY_MS, Cleaner
from shiftboss.server.http.guard import Guard
from tests.in_process import OPERATOR_TOKEN, InProcessReply, InProcessServer
from tests.waiting import eventually, wait_until

pytestmark = pytest.mark.requirement("OWN-06")

HOUR_MS = 3_600_000


@pytest.fixture
def server(store_address: str) -> Iterator[InProcessServer]:
    with InProcessServer(store_address) as it:
        yield it


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[InProcessServer]:
    with InProcessServer(tmp_path / "shiftboss.db") as it:
        yield it


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[InProcessServer]:
    """A server that admits nobody without a token."""
    with InProcessServer(tmp_path / "shiftboss.db", needs_token=True) as it:
        yield it


def status_of(server: InProcessServer, token: str | None) -> InProcessReply:
    return server.bus("get_status", token)


def actors(server: InProcessServer, swarm_id: str = "default") -> list[str]:
    stream = server.get(f"/swarm/{swarm_id}/events?follow=false").body.decode()
    return [
        line.removeprefix("actor: ") for line in stream.splitlines() if line.startswith("actor: ")
    ]


# -- the life of a token


def test_a_token_is_shown_once_and_names_its_actor(server: InProcessServer) -> None:
    reply = server.operator("create_token", name="alice", role="orchestrator")
    created = reply.answer["created"]
    assert reply.answer["token"].startswith("sbt_")
    assert (created["name"], created["status"], created["created_by"]) == (
        "alice",
        "valid",
        "operator",
    )
    listed = server.operator("list_tokens")
    assert listed.answer["tokens"] == [created]
    assert b"sbt_" not in listed.body
    token = reply.answer["token"]
    assert server.bus("add_task", token, bead_id="T1", title="T1").status == 200
    assert server.bus("add_task", bead_id="T2", title="T2").status == 200
    assert actors(server) == ["alice", "local"]


def test_a_revoked_token_stops_at_once(server: InProcessServer) -> None:
    token = server.create_token("alice", "operator")
    assert server.operator("list_tokens", token).status == 200
    revoked = server.operator("revoke_token", token="alice").answer["revoked"]
    assert [(row["status"], row["revoked_by"]) for row in revoked] == [("revoked", "operator")]
    for reply in (status_of(server, token), server.operator("list_tokens", token)):
        assert (reply.status, reply.code) == (401, "unauthorized")
    again = server.operator("revoke_token", token="alice")
    assert (again.status, again.code) == (404, "unknown_token")


def test_one_token_of_a_name_is_revoked_by_its_id(on_sqlite: InProcessServer) -> None:
    server = on_sqlite
    first = server.create_token("ci", "worker")
    second = server.operator("rotate_token", name="ci").answer
    old = second["replaced"][0]["token_id"]
    assert server.operator("revoke_token", token=old).status == 200
    assert (status_of(server, first).status, status_of(server, second["token"]).status) == (
        401,
        200,
    )


def test_a_token_expires(server: InProcessServer) -> None:
    token = server.create_token("ci", "worker", expires_in_seconds=3600)
    server.clock.now_ms += HOUR_MS - 1
    assert status_of(server, token).status == 200
    server.clock.now_ms += 1
    assert status_of(server, token).status == 401
    assert server.operator("list_tokens").answer["tokens"] == []
    ended = server.operator("list_tokens", ended=True).answer["tokens"]
    assert [row["status"] for row in ended] == ["expired"]


def test_two_tokens_are_valid_while_one_replaces_the_other(server: InProcessServer) -> None:
    server.post("/swarm/create", {"swarm_id": "login"})
    limits = {"swarm_id": "login", "worker": "w1", "expires_in_seconds": 86_400}
    first = server.create_token("ci", "worker", **limits)
    server.clock.now_ms += 5 * HOUR_MS
    rotated = server.operator("rotate_token", name="ci", overlap_seconds=3600).answer
    created, [replaced] = rotated["created"], rotated["replaced"]
    assert (created["role"], created["swarm_id"], created["worker"]) == ("worker", "login", "w1")
    assert created["expires_at"] == server.clock.now_ms + 24 * HOUR_MS
    assert replaced["expires_at"] == server.clock.now_ms + HOUR_MS
    both = [first, rotated["token"]]
    poll = {"name": "w1", "timeout_ms": 0}
    server.bus("register_worker", first, name="w1")
    assert [server.bus("poll_task", token, **poll).status for token in both] == [200, 200]
    server.clock.now_ms += HOUR_MS
    assert [server.bus("poll_task", token, **poll).status for token in both] == [401, 200]


def test_without_an_overlap_the_older_token_ends_at_once(on_sqlite: InProcessServer) -> None:
    first = on_sqlite.create_token("ci", "worker")
    rotated = on_sqlite.operator("rotate_token", name="ci", overlap_seconds=0).answer
    assert rotated["replaced"][0]["status"] == "revoked"
    assert status_of(on_sqlite, first).status == 401
    assert status_of(on_sqlite, rotated["token"]).status == 200


def test_an_overlap_does_not_lengthen_the_life_of_the_older_token(
    on_sqlite: InProcessServer,
) -> None:
    on_sqlite.create_token("ci", "worker", expires_in_seconds=60)
    rotated = on_sqlite.operator("rotate_token", name="ci", overlap_seconds=3600).answer
    assert rotated["replaced"][0]["expires_at"] == on_sqlite.clock.now_ms + 60_000


def test_ended_tokens_are_deleted_after_the_retention_time(server: InProcessServer) -> None:
    server.create_token("gone", "worker")
    server.operator("revoke_token", token="gone")
    server.create_token("short", "worker", expires_in_seconds=1)
    server.create_token("kept", "worker")
    clean = Cleaner(server.coordinator.store, server.clock, retention_days=30)
    server.clock.now_ms += 29 * DAY_MS
    server.run(clean.run_once())
    assert len(server.operator("list_tokens", ended=True).answer["tokens"]) == 3
    server.clock.now_ms += 2 * DAY_MS
    server.run(clean.run_once())
    listed = server.operator("list_tokens", ended=True).answer["tokens"]
    assert [row["name"] for row in listed] == ["kept"]


def test_the_tokens_of_a_deleted_swarm_end_with_it(server: InProcessServer) -> None:
    server.post("/swarm/create", {"swarm_id": "login"})
    token = server.create_token("ci", "worker", swarm_id="login")
    assert server.bus("register_worker", token, name="w1").status == 200
    assert server.operator("delete_swarm", swarm_id="login", force=True).status == 200
    server.post("/swarm/create", {"swarm_id": "login"})
    assert server.bus("register_worker", token, name="w1").status == 401


def test_the_tokens_of_a_swarm_that_is_cleaned_away_end_with_it(
    on_sqlite: InProcessServer,
) -> None:
    server = on_sqlite
    server.post("/swarm/create", {"swarm_id": "login"})
    server.bus("add_task", swarm_id="login", bead_id="T1", title="T1")
    token = server.create_token("ci", "worker", swarm_id="login")
    server.bus("cancel_task", swarm_id="login", bead_id="T1")
    settings = server.coordinator.settings
    clean = Cleaner(server.coordinator.store, server.clock, 30, settings.changed)
    server.clock.now_ms += 31 * DAY_MS
    assert server.run(clean.run_once()) == 1
    wait_until(lambda: status_of(server, token).status == 401, "the token has ended")


# -- what cannot be made


@pytest.mark.parametrize("name", ["server", "operator", "Local", "SHARED", "forge"])
def test_names_that_mean_somebody_without_a_token_are_refused(
    on_sqlite: InProcessServer, name: str
) -> None:
    reply = on_sqlite.operator("create_token", name=name, role="worker")
    assert (reply.status, reply.answer["field"]) == (422, "name")


@pytest.mark.parametrize("name", ["", "a b", "agent:T1", "-a", "a\n", "ä", "a" * 65, "a/b"])
def test_names_are_plain(on_sqlite: InProcessServer, name: str) -> None:
    assert on_sqlite.operator("create_token", name=name, role="worker").status == 422


def test_a_name_has_one_role(on_sqlite: InProcessServer) -> None:
    on_sqlite.create_token("ci", "worker")
    for role in ("worker", "operator"):
        reply = on_sqlite.operator("create_token", name="ci", role=role)
        assert (reply.status, reply.code) == (409, "token_exists")
    on_sqlite.operator("revoke_token", token="ci")
    on_sqlite.create_token("ci", "operator")


@pytest.mark.parametrize(
    ("role", "limits", "field"),
    [
        ("operator", {"swarm_id": "s"}, "swarm_id"),
        ("verifier", {"swarm_id": "s"}, "swarm_id"),
        ("spawner", {"swarm_id": "s", "bead_id": "T1"}, "bead_id"),
        ("orchestrator", {"swarm_id": "s", "worker": "w"}, "worker"),
        ("worker", {"bead_id": "T1"}, "swarm_id"),
        ("anybody", {}, "role"),
        ("server", {}, "role"),
        ("worker", {"expires_in_seconds": 0}, "expires_in_seconds"),
        ("worker", {"expires_in_seconds": 10**10}, "expires_in_seconds"),
    ],
)
def test_a_limit_that_would_mean_nothing_is_refused(
    on_sqlite: InProcessServer, role: str, limits: dict[str, Any], field: str
) -> None:
    reply = on_sqlite.operator("create_token", name="x", role=role, **limits)
    assert (reply.status, reply.answer["field"]) == (422, field)
    assert on_sqlite.operator("list_tokens", ended=True).answer["tokens"] == []


# -- the token of an agent


def test_an_agent_gets_a_token_for_its_task(server: InProcessServer) -> None:
    server.bus("add_task", bead_id="T1", title="T1")
    server.bus("add_task", bead_id="T2", title="T2")
    made = server.bus("create_task_token", bead_id="T1", name="w1", expires_in_seconds=60).answer
    token, created = made["token"], made["created"]
    assert (created["name"], created["role"], created["created_by"]) == (
        "agent:T1",
        "worker",
        "local",
    )
    assert server.bus("show_task", token, bead_id="T1").status == 200
    assert server.bus("show_task", token, bead_id="T2").status == 403
    assert server.bus("cancel_task", token, bead_id="T1").status == 403
    assert server.bus("create_task_token", token, bead_id="T1", expires_in_seconds=1).status == 403
    revoked = server.bus("revoke_task_token", token_id=created["token_id"])
    assert revoked.answer == {"revoked": True}
    assert server.bus("show_task", token, bead_id="T1").status == 401


def test_only_the_tokens_of_agents_are_revoked_by_others_than_the_operator(
    on_sqlite: InProcessServer,
) -> None:
    server = on_sqlite
    server.create_token("alice", "worker", swarm_id="default")
    [alice] = server.operator("list_tokens").answer["tokens"]
    server.bus("add_task", bead_id="T1", title="T1")
    made = server.bus("create_task_token", bead_id="T1", expires_in_seconds=60).answer["created"]
    for token_id, swarm_id in (
        (alice["token_id"], "default"),
        (made["token_id"], "other"),
        ("tok-0000000000000000", "default"),
    ):
        reply = server.bus("revoke_task_token", token_id=token_id, swarm_id=swarm_id)
        assert reply.answer == {"revoked": False}
    assert len(server.operator("list_tokens").answer["tokens"]) == 2
    unknown = server.bus("create_task_token", bead_id="T9", expires_in_seconds=60)
    assert (unknown.status, unknown.code) == (404, "unknown_task")


# -- who is who


def test_a_missing_and_a_wrong_token_are_told_apart(guarded: InProcessServer) -> None:
    missing, wrong = status_of(guarded, None), status_of(guarded, "nonsense")
    assert (missing.status, missing.answer["reason"]) == (401, "missing")
    assert (wrong.status, wrong.answer["reason"]) == (401, "invalid")
    assert missing.answer["detail"] != wrong.answer["detail"]
    token = guarded.create_token("ci", "worker")
    guarded.operator("revoke_token", token="ci")
    revoked = status_of(guarded, token)
    assert {**revoked.answer} == {**wrong.answer}, "nobody learns that a token was valid once"


def test_a_server_that_requires_tokens_takes_named_ones_and_the_operators(
    guarded: InProcessServer,
) -> None:
    assert guarded.get("/health").status == 200
    assert guarded.get("/swarms").status == 401
    assert status_of(guarded, guarded.create_token("ci", "worker")).status == 200
    assert status_of(guarded, OPERATOR_TOKEN).status == 200
    header = {"shiftboss_operator": OPERATOR_TOKEN}
    assert guarded.post("/operator/list_tokens", {}, None, **header).status == 200
    assert guarded.post("/bus/get_status", {}, None, **header).status == 401


def test_the_shared_token_stays_as_good_as_it_was(tmp_path: Path) -> None:
    with InProcessServer(tmp_path / "s.db", token="shared") as server:
        assert server.bus("add_task", "shared", bead_id="T1", title="T1").status == 200
        assert server.bus("add_task", bead_id="T1", title="T1").status == 401
        assert server.operator("list_tokens", "shared").status == 403
        named = server.create_token("ci", "worker")
        assert status_of(server, named).status == 200
        assert server.operator("list_tokens", named).status == 403
        stream = server.run(server.send("GET", "/swarm/default/events?follow=false", None, named))
        assert b"actor: shared" in stream.body


def test_on_an_open_server_a_strange_token_does_no_harm_and_a_dead_one_does(
    on_sqlite: InProcessServer,
) -> None:
    """Somebody's SHIFTBOSS_TOKEN for another server is ignored, as ever. But an agent whose token
    was revoked must not become a caller that needs none, with more power than it had."""
    assert status_of(on_sqlite, "of-another-server").status == 200
    dead = on_sqlite.create_token("ci", "read-only")
    on_sqlite.operator("revoke_token", token="ci")
    assert status_of(on_sqlite, dead).status == 401
    assert on_sqlite.bus("add_task", dead, bead_id="T1", title="T1").status == 401
    assert status_of(on_sqlite, "sbt_made-up").status == 401
    assert on_sqlite.get("/health", dead).status == 200


def test_a_named_operator_is_the_operator_in_both_headers(on_sqlite: InProcessServer) -> None:
    alice = on_sqlite.create_token("alice", "operator")
    on_sqlite.create_token("x", "worker")
    assert on_sqlite.operator("revoke_token", alice, token="x").status == 200
    on_sqlite.create_token("x", "worker")
    header = {"shiftboss_operator": alice}
    reply = on_sqlite.post("/operator/revoke_token", {"token": "x"}, None, **header)
    assert reply.answer["revoked"][0]["revoked_by"] == "alice"


def test_a_verifier_has_none_of_the_operators_power(on_sqlite: InProcessServer) -> None:
    verifier = on_sqlite.create_token("v", "verifier")
    claim = {"verifier": "v", "wait_ms": 0}
    assert on_sqlite.operator("take_claim", verifier, **claim).answer == {"job": None}
    header = {"shiftboss_operator": verifier}
    assert on_sqlite.post("/operator/take_claim", claim, None, **header).status == 200
    for operation in ("waive", "approve", "create_token", "delete_swarm", "spawn_subtask"):
        assert on_sqlite.operator(operation, verifier).status == 403
        assert on_sqlite.post(f"/operator/{operation}", {}, None, **header).status == 403
    assert on_sqlite.bus("add_task", verifier, bead_id="T1", title="T1").status == 403


def test_an_empty_token_of_the_operator_opens_nothing() -> None:
    assert Guard(None, "").tokens.find(b"") is None


# -- where the secret must not be


def test_the_token_is_in_no_file_and_no_later_answer(on_sqlite: InProcessServer) -> None:
    """Also not among the answers that are kept for repeated requests."""
    body = {"name": "alice", "role": "worker"}
    headers = {"idempotency_key": "k1", "shiftboss_operator": OPERATOR_TOKEN}
    token = on_sqlite.post("/operator/create_token", body, None, **headers).answer["token"]
    again = on_sqlite.post("/operator/create_token", body, None, **headers)
    assert (again.status, again.code) == (409, "token_exists")
    rotation = {"name": "alice"}
    rotated = on_sqlite.post("/operator/rotate_token", rotation, None, **headers)
    on_sqlite.bus("add_task", token, bead_id="T1", title="T1")
    secrets = [token.encode(), rotated.answer["token"].encode()]
    folder = Path(str(on_sqlite.coordinator.store.path)).parent  # type: ignore[attr-defined]
    for file in folder.iterdir():
        content = file.read_bytes()
        assert not [secret for secret in secrets if secret in content], file
    for reply in (
        on_sqlite.operator("list_tokens", ended=True),
        on_sqlite.get("/swarm/default/events?follow=false"),
        status_of(on_sqlite, token + "x"),
    ):
        assert not [secret for secret in secrets if secret in reply.body]


# -- what lasts longer than one request


def test_an_event_stream_ends_with_its_token(on_sqlite: InProcessServer) -> None:
    server = on_sqlite
    token = server.create_token("reader", "read-only")
    server.bus("add_task", bead_id="T1", title="T1")
    received: list[bytes] = []

    async def read() -> None:
        reading = asyncio.create_task(
            server.send("GET", "/swarm/default/events", None, token, on_body=received.append)
        )
        await eventually(lambda: b"T1" in b"".join(received), "the first event")
        headers = {"shiftboss-operator": OPERATOR_TOKEN}
        await server.send("POST", "/operator/revoke_token", {"token": "reader"}, None, headers)
        await server.send("POST", "/bus/add_task", {"bead_id": "T2", "title": "T2"})
        async with asyncio.timeout(30):
            assert (await reading).status == 200

    server.run(read())
    assert b"T2" not in b"".join(received)


@pytest.mark.postgres
def test_a_token_that_one_server_revokes_stops_on_the_others(postgres_url: str) -> None:
    with InProcessServer(postgres_url) as one, InProcessServer(postgres_url) as other:
        token = one.create_token("alice", "worker")

        def status() -> int:
            return status_of(other, token).status

        wait_until(lambda: status() == 200, "the token is known")
        one.operator("revoke_token", token="alice")
        wait_until(lambda: status() == 401, "the token is refused")


# -- MCP


def test_the_actor_reaches_the_tasks_of_the_sdk(on_sqlite: InProcessServer) -> None:
    """Which answers what is not a plain call, such as one with ranked response types."""
    server = on_sqlite
    alice = server.create_token("alice", "spawner")
    reader = server.create_token("reader", "read-only")
    calls = [
        (alice, "T1", False),
        (reader, "T2", True),
        (None, "T3", False),
        (alice, "T4", False),
    ]

    async def call(token: str | None, task: str) -> dict[str, Any]:
        headers = {
            "accept": "application/json;q=0.9, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
        }
        arguments = {"bead_id": task, "title": task}
        params = {"name": "add_task", "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        reply = await server.send("POST", "/mcp", body, token, headers)
        data = next(line for line in reply.body.splitlines() if line.startswith(b"data: {"))
        result: dict[str, Any] = InProcessReply(200, data[6:]).answer["result"]
        return result

    async def all_at_once() -> list[dict[str, Any]]:
        return await asyncio.gather(*(call(token, task) for token, task, _ in calls))

    results = server.run(all_at_once())
    assert [result["isError"] for result in results] == [refused for _, _, refused in calls]
    assert sorted(actors(server)) == ["alice", "alice", "local"]
