"""What the servers of a deployment share: tokens, signing keys, policies, servers; who acted."""

from __future__ import annotations

from operator import methodcaller

import pytest

from shiftboss.rules.access.actors import Actor
from shiftboss.rules.access.roles import Role
from shiftboss.rules.access.tokens import StoredToken
from shiftboss.rules.deployment.records import DeploymentServer, StoredKey, StoredPolicy
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.open_store import store_at
from shiftboss.store.port import Transaction
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.rows import SWARM, add_event
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

ALICE = Actor("alice", Role.OPERATOR)


def token(token_id: str, name: str = "alice", *, created_at_ms: int = 1) -> StoredToken:
    digest = token_id.encode().ljust(32, b".")
    return StoredToken(token_id, name, digest, "worker", SWARM, None, "w1", created_at_ms, "bob")


async def test_an_event_names_who_caused_it(with_swarm: OpenStore) -> None:
    await with_swarm.write(add_event)
    caller = CURRENT_ACTOR.set(ALICE)
    try:
        await with_swarm.write(add_event)
    finally:
        CURRENT_ACTOR.reset(caller)
    await with_swarm.write(add_event)
    stored = await with_swarm.read(lambda tx: tx.events_after(SWARM, 0, 10))
    assert [event.actor for event in stored][-3:] == ["server", "alice", "server"]
    assert with_swarm.heard[-3:] == stored[-3:]
    assert b"\nactor: alice\n" in stored[-2].to_sse()


async def test_tokens_are_found_by_name_until_they_are_revoked(store: OpenStore) -> None:
    first, second = token("a"), token("b", created_at_ms=2)

    def add(tx: Transaction) -> None:
        for each in (second, first, token("c", "carol")):
            tx.add_token(each)

    await store.write(add, "")
    assert await store.read(lambda tx: tx.tokens_named("alice")) == [first, second]
    assert await store.write(lambda tx: tx.revoke_token("a", 5, "carol"), "")
    assert not await store.write(lambda tx: tx.revoke_token("a", 6, "bob"), "")
    revoked = first._replace(revoked_at_ms=5, revoked_by="carol")
    assert await store.read(lambda tx: tx.token("a")) == revoked
    assert [each.token_id for each in await store.read(lambda tx: tx.tokens())] == ["b", "c"]
    assert not await store.write(lambda tx: tx.set_token_expiry("a", 9), "")
    assert await store.write(lambda tx: tx.set_token_expiry("b", 9), "")
    found = await store.read(lambda tx: tx.tokens_after("", 10))
    assert found == [revoked, second._replace(expires_at_ms=9), token("c", "carol")]
    assert await store.write(lambda tx: tx.forget_tokens(9, 10), "") == 1
    assert await store.write(lambda tx: tx.forget_tokens(10, 10), "") == 1
    assert await store.read(lambda tx: tx.tokens_after("", 10)) == [token("c", "carol")]


async def test_signing_keys_are_added_once_and_retired_once(store: OpenStore) -> None:
    key = StoredKey("k1", "pem", 1, "server-1")
    assert await store.write(lambda tx: tx.add_signing_key(key), "")
    again = key._replace(public_key="other")
    assert not await store.write(lambda tx: tx.add_signing_key(again), "")
    assert await store.write(lambda tx: tx.retire_signing_key("k1", 7, "alice"), "")
    assert not await store.write(lambda tx: tx.retire_signing_key("k1", 8, "bob"), "")
    retired = key._replace(retired_at_ms=7, retired_by="alice")
    assert await store.read(lambda tx: tx.signing_keys()) == [retired]
    assert await store.read(lambda tx: tx.signing_key("k1")) == retired
    assert await store.read(lambda tx: tx.signing_key("k2")) is None


async def test_the_highest_version_of_the_policy_is_the_current_one(store: OpenStore) -> None:
    assert await store.read(lambda tx: tx.current_policy()) is None
    policies = [StoredPolicy(n, f"body {n}", f"{n}" * 64, n, "alice", "f") for n in (1, 2)]
    for policy in policies:
        assert await store.write(methodcaller("add_policy", policy), "")
    assert not await store.write(lambda tx: tx.add_policy(policies[0]), "")
    assert await store.read(lambda tx: tx.current_policy()) == policies[1]
    assert await store.read(lambda tx: tx.policy_version(1)) == policies[0]
    assert await store.read(lambda tx: tx.policies_before(3, 10)) == policies[::-1]


async def test_a_server_renews_its_row(store: OpenStore) -> None:
    first = DeploymentServer("s1", "host", "http://a", "1.0", 1, 1, None, "{}")
    second = first._replace(server_id="s2", started_at_ms=2, seen_at_ms=9)
    for server in (second, first, first._replace(seen_at_ms=5)):
        await store.write(methodcaller("put_server", server), "")
    assert await store.read(lambda tx: tx.servers()) == [first._replace(seen_at_ms=5), second]
    assert await store.write(lambda tx: tx.forget_servers(9), "") == 1
    assert await store.read(lambda tx: tx.servers()) == [second]


async def test_other_servers_hear_of_changed_settings(postgres_url: str) -> None:
    heard: list[str] = []
    other = store_at(postgres_url)
    async with opened(postgres_url) as store:
        await other.open(lambda _: None, lambda: None, on_settings=lambda: heard.append("changed"))
        try:
            await store.write(lambda tx: tx.add_token(token("a")), "")
            await store.write(lambda tx: tx.announce_settings(), "")
            await eventually(lambda: heard, "the change is announced")
            assert heard == ["changed"]
        finally:
            await other.close()
