"""The change feed: nothing without readers, one frame for all, and a reload for the slow ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from shiftboss.coordinator.board import change_feed
from shiftboss.coordinator.board.change_feed import (
    BEHIND_FRAMES_MAX,
    RELOAD,
    TASKS_MAX,
    ChangeFeed,
    ChangeReader,
    task_of,
)
from shiftboss.coordinator.board.service import SharedAnswers
from shiftboss.coordinator.event_hub import Hub
from shiftboss.protocol.board.rendered import RenderedAnswer
from shiftboss.protocol.events import Event

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-04")]


def event(event_id: int, task: str = "a", swarm: str = "s", kind: str = "task_done") -> Event:
    return Event(swarm, event_id, kind, 1, json.dumps({"bead_id": task}))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pauses are not the subject."""
    for name in ("FRAME_SECONDS", "FIRST_SECONDS", "HEARTBEAT_SECONDS"):
        monkeypatch.setattr(change_feed, name, 0.0)


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    hub = Hub()
    yield hub
    hub.close()


def swarms_in(frames: bytes) -> list[dict[str, Any]]:
    lines = frames.decode().splitlines()
    return [
        json.loads(line.removeprefix("data: "))["swarms"]
        for line in lines
        if line.startswith('data: {"swarms"')
    ]


async def read(reader: ChangeReader) -> bytes:
    assert await reader.wait(10)
    return reader.take()


async def test_a_burst_is_one_frame(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    reader = feed.subscribe(None)
    hub.publish([event(1, "a"), event(2, "b", kind="task_added")])
    hub.publish([event(3, "a"), event(1, "x", swarm="other")])
    assert swarms_in(await read(reader)) == [
        {
            "s": {"last_event_id": 3, "tasks": ["a", "b"], "kinds": ["task_done", "task_added"]},
            "other": {"last_event_id": 1, "tasks": ["x"], "kinds": ["task_done"]},
        }
    ]
    assert not await reader.wait(0), "nothing is sent when nothing happens"


async def test_without_readers_the_hub_passes_nothing_on(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    hub.publish([event(1)])
    reader = feed.subscribe(None)
    feed.unsubscribe(reader)
    hub.publish([event(2)])
    feed.note_heartbeat("s", "a")
    assert feed.is_idle
    late = feed.subscribe(None)
    assert not await late.wait(0)


async def test_a_limited_reader_gets_its_swarm_alone(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    limited, unlimited = feed.subscribe("s"), feed.subscribe(None)
    hub.publish([event(1, swarm="other")])
    await read(unlimited)
    assert not await limited.wait(0)
    hub.publish([event(1), event(2, swarm="other")])
    (swarms,) = swarms_in(await read(limited))
    assert list(swarms) == ["s"]


async def test_many_tasks_are_all_of_them(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    reader = feed.subscribe(None)
    hub.publish([event(number, f"t{number}") for number in range(1, TASKS_MAX + 2)])
    (swarms,) = swarms_in(await read(reader))
    assert swarms["s"]["tasks"] is None
    assert swarms["s"]["last_event_id"] == TASKS_MAX + 1


async def test_a_reader_that_falls_behind_has_to_reload(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    slow, fast = feed.subscribe(None), feed.subscribe(None)
    for number in range(1, BEHIND_FRAMES_MAX + 2):
        hub.publish([event(number)])
        await read(fast)
    assert slow.take() == RELOAD


async def test_a_heartbeat_is_told_without_an_event(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    reader = feed.subscribe(None)
    feed.note_heartbeat("s", "a")
    assert swarms_in(await read(reader)) == [
        {"s": {"last_event_id": 0, "tasks": ["a"], "kinds": ["heartbeat"]}}
    ]


async def test_missed_events_of_other_servers_are_a_reload(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    reader = feed.subscribe(None)
    feed.reload()
    assert await read(reader) == RELOAD


async def test_readers_end_with_the_server(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    reader = feed.subscribe(None)
    hub.close()
    assert reader.ended
    assert feed.subscribe(None).ended


@pytest.mark.parametrize(
    ("data", "task"),
    [
        ({"bead_id": "a"}, "a"),
        ({"packet_id": 7}, "packet-7"),
        ({"worker": "w"}, None),
        ({"bead_id": None}, None),
    ],
)
async def test_the_task_of_an_event(data: dict[str, Any], task: str | None) -> None:
    assert task_of(Event("s", 1, "k", 1, json.dumps(data))) == task


# -- answers that readers share


async def test_readers_of_one_frame_share_an_answer(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    feed.subscribe(None)
    shared = SharedAnswers(feed)
    made: list[int] = []

    async def make() -> tuple[RenderedAnswer, int]:
        made.append(len(made))
        await asyncio.sleep(0)
        return RenderedAnswer(body=b"%d" % len(made)), 5

    answers = await asyncio.gather(*(shared.get("cards", 5, make) for _ in range(20)))
    assert {answer.body for answer in answers} == {b"1"}
    assert (await shared.get("others", 5, make)).body == b"2"
    assert (await shared.get("cards", 6, make)).body == b"3", "it does not show that event"
    feed.reload()
    assert (await shared.get("cards", 5, make)).body == b"4", "there is a newer frame"


async def test_an_answer_that_fails_is_not_shared_for_long(hub: Hub) -> None:
    feed = ChangeFeed(hub)
    feed.subscribe(None)
    shared = SharedAnswers(feed)

    async def fail() -> tuple[RenderedAnswer, int]:
        raise LookupError

    async def succeed() -> tuple[RenderedAnswer, int]:
        return RenderedAnswer(body=b"ok"), 5

    with pytest.raises(LookupError):
        await shared.get("cards", 5, fail)
    assert (await shared.get("cards", 5, succeed)).body == b"ok"


async def test_nothing_is_shared_of_a_time_when_nobody_read_the_feed(hub: Hub) -> None:
    """There are no frames then, which would say that an answer is old."""
    feed = ChangeFeed(hub)
    shared = SharedAnswers(feed)
    bodies = iter((b"1", b"2", b"3", b"4"))

    async def make() -> tuple[RenderedAnswer, int]:
        return RenderedAnswer(body=next(bodies)), 0

    assert (await shared.get("status", 0, make)).body == b"1"
    assert (await shared.get("status", 0, make)).body == b"2", "nobody reads the feed"
    reader = feed.subscribe(None)
    assert (await shared.get("status", 0, make)).body == b"3"
    assert (await shared.get("status", 0, make)).body == b"3"
    feed.unsubscribe(reader)
    feed.subscribe(None)
    assert (await shared.get("status", 0, make)).body == b"4", "it may have missed changes"
