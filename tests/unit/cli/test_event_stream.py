"""An event stream while the database is unavailable."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from starlette.types import Message

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.events import Event
from shiftboss.server.http import event_streams
from shiftboss.server.http.event_streams import EventStream
from tests.waiting import eventually

pytestmark = pytest.mark.anyio


class Story:
    """A coordinator with events that can be unavailable."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.events: list[Event] = []
        self.swarms = self
        self.is_away = False
        self.asked_in_vain = 0

    async def events_after(self, swarm_id: str, event_id: int, limit: int) -> list[Event]:
        assert swarm_id == "s"
        if self.is_away:
            self.asked_in_vain += 1
            raise StoreUnavailable("the database starts again")
        return [event for event in self.events if event.event_id > event_id][:limit]

    def happens(self, number: int) -> Event:
        event = Event("s", number, "task.added", 0, "{}")
        self.events.append(event)
        return event


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_streams, "STORE_PAUSE_SECONDS", 0)


async def test_events_missed_while_the_database_was_down_arrive_when_it_is_back() -> None:
    story, sent = Story(), bytearray()
    gone = asyncio.Event()

    async def send(message: Message) -> None:
        sent.extend(message.get("body", b""))

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    stream = EventStream(cast(Coordinator, story), "s", 0, send, lambda: True)
    reading = asyncio.create_task(stream.run(receive, follow=True))
    story.hub.publish([story.happens(1)])
    await eventually(lambda: b"id: 1\n" in sent, "the first event")
    story.is_away = True
    story.happens(2)
    story.hub.publish([story.happens(3)])
    await eventually(lambda: story.asked_in_vain > 3, "it asks for the second again and again")
    assert not reading.done()
    story.is_away = False
    await eventually(lambda: b"id: 3\n" in sent, "the third event")
    assert sent.index(b"id: 2\n") < sent.index(b"id: 3\n")
    story.is_away = True
    story.happens(4)
    story.hub.publish([story.happens(5)])
    gone.set()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(reading, 30)


async def test_a_database_that_goes_down_while_a_reader_catches_up_does_not_cut_it_off() -> None:
    story, sent = Story(), bytearray()
    gone = asyncio.Event()

    async def send(message: Message) -> None:
        sent.extend(message.get("body", b""))
        if b"id: 1\n" in message.get("body", b""):
            story.is_away = True

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    story.happens(1)
    stream = EventStream(cast(Coordinator, story), "s", 0, send, lambda: True)
    reading = asyncio.create_task(stream.run(receive, follow=True))
    await eventually(lambda: story.asked_in_vain > 3, "it asks again and again")
    assert not reading.done()
    story.happens(2)
    story.is_away = False
    await eventually(lambda: b"id: 2\n" in sent, "the second event")
    gone.set()
    await asyncio.wait_for(reading, 30)


async def test_a_reader_that_does_not_follow_is_cut_off_when_the_database_goes_down() -> None:
    """An end without an error would say that there are no more events."""
    story = Story()

    async def send(message: Message) -> None:
        story.is_away = story.is_away or b"id: 1\n" in message.get("body", b"")

    async def receive() -> dict[str, Any]:
        raise AssertionError("nobody waits for its end")

    story.happens(1)
    stream = EventStream(cast(Coordinator, story), "s", 0, send, lambda: True)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(stream.run(receive, follow=False), 30)
