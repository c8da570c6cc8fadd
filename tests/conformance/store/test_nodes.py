"""Several servers on one PostgreSQL: all receive the events in the same order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import psycopg
import pytest

from shiftboss.protocol.events import Event
from shiftboss.protocol.states import WorkerState
from shiftboss.store.port import Transaction
from shiftboss.store.postgres.notifications import (
    IDENTIFIER_BYTES_MAX,
    SWARMS_PER_PAYLOAD_MAX,
    Channels,
    event_payloads,
)
from tests.conformance.backends import add_schema, cut_connections
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.rows import (
    SWARM,
    TASK,
    add_event,
    add_swarm_with_event,
    assignment,
    swarm,
)
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

Nodes = tuple[OpenStore, OpenStore]


@pytest.fixture
async def nodes(postgres_url: str) -> AsyncIterator[Nodes]:
    async with opened(postgres_url) as one, opened(postgres_url) as other:
        await one.add_swarm()
        yield one, other


def ids(events: list[Event], swarm_id: str = SWARM) -> list[int]:
    return [event.event_id for event in events if event.swarm_id == swarm_id]


async def hears(node: OpenStore, count: int) -> None:
    await eventually(lambda: len(node.heard) >= count, f"the node hears of {count} events")


async def test_a_node_receives_the_events_another_commits_exactly_as_stored(nodes: Nodes) -> None:
    one, other = nodes
    added = [await one.write(lambda tx: add_event(tx, text="Grüße")) for _ in range(3)]
    await hears(other, 3)
    assert other.heard == added == one.heard


async def test_concurrent_writes_of_two_nodes_form_one_sequence_received_once_by_both(
    nodes: Nodes,
) -> None:
    async def write_many(node: OpenStore) -> list[Event]:
        rounds = [
            await asyncio.gather(*(node.write(add_event) for _ in range(10))) for _ in range(10)
        ]
        return [event for one_round in rounds for event in one_round]

    written = await asyncio.gather(*map(write_many, nodes))
    assert sorted(ids(written[0]) + ids(written[1])) == list(range(1, 201))
    for node in nodes:
        await hears(node, 200)
        assert sorted(ids(node.heard)) == list(range(1, 201))
        for one_nodes in map(set, map(ids, written)):
            heard = [event_id for event_id in ids(node.heard) if event_id in one_nodes]
            assert heard == sorted(one_nodes)


async def test_no_update_of_one_node_is_lost_on_the_other(nodes: Nodes) -> None:
    await nodes[0].write(lambda tx: tx.put_assignment(assignment(steps_total=1000)))

    def count_up(tx: Transaction) -> None:
        known = tx.take_assignment(SWARM, TASK)
        assert known is not None
        tx.save_assignment(
            known._replace(steps_completed=known.steps_completed + 1, state=WorkerState.EXECUTING)
        )

    async def count(node: OpenStore) -> None:
        for _ in range(100):
            await node.write(count_up)

    await asyncio.gather(*map(count, nodes))
    (found,) = await nodes[0].read(lambda tx: tx.assignments(SWARM))
    assert found.steps_completed == 200


async def test_nodes_that_write_to_many_swarms_do_not_block_each_other(nodes: Nodes) -> None:
    swarms = [f"s{number:02}" for number in range(30)]
    await asyncio.gather(*(nodes[0].add_swarm(swarm_id) for swarm_id in swarms))

    async def write_all(node: OpenStore, order: list[str]) -> None:
        for _ in range(5):
            await asyncio.gather(
                *(node.write(partial(add_event, swarm_id=name), name) for name in order)
            )

    async with asyncio.timeout(30):
        await asyncio.gather(write_all(nodes[0], swarms), write_all(nodes[1], swarms[::-1]))
    for node in nodes:
        await hears(node, 300)
        for swarm_id in swarms:
            assert sorted(ids(node.heard, swarm_id)) == list(range(1, 11))


async def test_a_swarm_created_on_two_nodes_at_once_is_created_once(nodes: Nodes) -> None:
    def make(tx: Transaction) -> bool:
        made_here = tx.take_swarm("both") is None and tx.add_swarm(swarm("both"))
        if made_here:
            add_event(tx, "both")
        return made_here

    made = await asyncio.gather(*(node.write(make, "both") for node in nodes * 10))
    assert sorted(made) == [False] * 19 + [True]
    events = await nodes[1].read(lambda tx: tx.events_after("both", 0, 10))
    assert ids(events, "both") == [1]


async def test_a_commit_to_many_swarms_with_long_names_is_received_completely(nodes: Nodes) -> None:
    one, other = nodes
    names = [f"{number:03}".ljust(128, "x") for number in range(3 * SWARMS_PER_PAYLOAD_MAX + 1)]

    def add_all(tx: Transaction) -> None:
        for name in names:
            add_swarm_with_event(tx, name)
            add_event(tx, name)

    await one.write(add_all)
    await hears(other, 2 * len(names))
    assert other.heard == one.heard


def test_the_longest_announcement_fits_into_a_notification() -> None:
    names = [f"{number:03}".ljust(128, "x") for number in range(100)]
    last = 2**53 - 1
    payloads = list(
        event_payloads("f" * 16, [(name, i) for name in names for i in (last - 1, last)])
    )
    assert len(payloads) == 3
    assert max(map(len, payloads)) < 8000


async def test_foreign_notifications_on_the_channel_are_ignored(
    nodes: Nodes, postgres_url: str
) -> None:
    one, other = nodes
    with psycopg.connect(postgres_url, autocommit=True) as stranger:
        channel = Channels.of_schema("public").events
        for payload in ("", "hello", "{}", '{"node": "x", "ranges": [["nobody", 1, 5]]}'):
            stranger.execute("SELECT pg_notify(%s, %s)", (channel, payload))
    await one.write(add_event)
    await hears(other, 1)
    assert ids(other.heard) == [1]


async def test_a_node_that_lost_its_listening_connection_catches_up(
    nodes: Nodes, postgres_url: str
) -> None:
    one, other = nodes
    assert await asyncio.to_thread(cut_connections, postgres_url, "query LIKE 'LISTEN%'") == 2
    last = [await one.write(add_event) for _ in range(3)][-1]
    await eventually(lambda: last in other.heard, "the newest event is told after the reconnect")
    # From then on every event is received again.
    following = await one.write(add_event)
    await eventually(lambda: following in other.heard, "the other node hears again")


async def test_a_commit_that_failed_is_not_announced(nodes: Nodes) -> None:
    one, other = nodes

    def fail(tx: Transaction) -> None:
        add_event(tx)
        raise ZeroDivisionError

    results = await asyncio.gather(
        one.write(add_event), one.write(fail), one.write(add_event), return_exceptions=True
    )
    assert type(results[1]) is ZeroDivisionError
    await hears(other, 2)
    assert ids(other.heard) == [1, 2]
    assert [len(commit) for commit in one.commits] == [2]


# -- schemas

# A name that needs quoting, one that is too long for a channel, a plain one.
SCHEMAS = ["elsewhere", 'Else"where; --', "\N{LATIN SMALL LETTER E WITH ACUTE}" * 31]


@pytest.mark.parametrize("schema", SCHEMAS, ids=["plain", "quoted", "long"])
async def test_commits_wake_the_nodes_on_their_schema_and_no_others(
    postgres_url: str, schema: str
) -> None:
    address = await asyncio.to_thread(add_schema, postgres_url, schema)
    async with (
        opened(postgres_url) as here,
        opened(address) as there,
        opened(address) as also_there,
    ):
        for node in (here, there):
            await node.add_swarm()
        await there.write(add_event)
        await hears(also_there, 1)
        # The same swarm and event id in the other schema: a node that is woken by mistake finds
        # its own event once more.
        await here.write(add_event)
        # Notifications arrive in the order of the commits, so the one before has arrived, too.
        await also_there.write(add_event)
        await hears(there, 2)
        assert ids(there.heard) == [1, 2]
        assert ids(also_there.heard) == [1, 2]
        assert ids(here.heard) == [1]


def test_channel_names_of_two_schemas_differ_and_fit() -> None:
    names = ["public", "x" * 63, "x" * 62 + "y", *SCHEMAS]
    channels = [channel for name in names for channel in Channels.of_schema(name)]
    assert len(set(channels)) == len(channels)
    assert max(len(channel.encode()) for channel in channels) <= IDENTIFIER_BYTES_MAX
