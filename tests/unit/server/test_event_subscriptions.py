"""A thousand readers get every event in order, and polls and requests need not wait for them."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.coordinator import event_subscriptions
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.event_subscriptions import Subscription
from shiftboss.protocol.events import Event, EventKind
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

READERS = 5
NEVER = 3600.0


@pytest.fixture(autouse=True)
def two_per_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_subscriptions, "READERS_PER_TURN", 2)
    monkeypatch.setattr(event_subscriptions, "PAUSE_SECONDS", 0)


class Readers:
    """Readers of one swarm, which note who took which events."""

    def __init__(self, hub: Hub, count: int = READERS) -> None:
        self.subscriptions = [hub.subscribe("s") for _ in range(count)]
        self.taken: list[tuple[int, list[int]]] = []
        self.tasks = [
            asyncio.create_task(self._read(number, subscription))
            for number, subscription in enumerate(self.subscriptions)
        ]

    async def _read(self, number: int, subscription: Subscription) -> None:
        while not subscription.ended:
            await subscription.wait(60)
            numbers = [event_id for event_id, _ in subscription.take()]
            if numbers:
                self.taken.append((number, numbers))


def event(number: int) -> Event:
    return Event("s", number, "progress_update", 0, "{}")


async def test_a_poll_is_answered_before_any_reader_is_woken() -> None:
    hub = Hub()
    readers = Readers(hub)
    poll = hub.park("s", "w")
    poll.add_done_callback(lambda _: readers.taken.append((-1, [])))
    assigned = EventKind.TASK_ASSIGNED.value
    hub.publish([event(1), Event("s", 2, assigned, 0, '{"worker":"w","bead_id":"t"}')])
    await eventually(lambda: len(readers.taken) == 1 + READERS, "all are woken")
    assert readers.taken == [(-1, []), *((number, [1, 2]) for number in range(READERS))]
    hub.close()
    await asyncio.gather(*readers.tasks)


async def test_a_turn_wakes_a_few_and_the_others_get_what_happens_meanwhile_in_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_subscriptions, "PAUSE_SECONDS", NEVER)
    hub = Hub()
    readers = Readers(hub)
    hub.publish([event(1)])
    await eventually(lambda: len(readers.taken) >= 2, "the first turn")
    hub.publish([event(2)])
    hub.publish([event(3)])
    assert readers.taken == [(0, [1]), (1, [1])]
    assert [number for number, _ in readers.subscriptions[4].take()] == [1, 2, 3]
    hub.close()
    await asyncio.gather(*readers.tasks)
    assert sorted(readers.taken[2:]) == [(0, [2, 3]), (1, [2, 3]), (2, [1, 2, 3]), (3, [1, 2, 3])]


async def test_every_reader_gets_every_event_in_order() -> None:
    hub = Hub()
    readers = Readers(hub)
    for number in range(1, 101):
        hub.publish([event(number)])
        if number % 3 == 0:
            await asyncio.sleep(0)  # turns of the loop come in between
    taken: dict[int, list[int]] = {}

    def all_taken() -> bool:
        taken.clear()
        for reader, numbers in readers.taken:
            taken.setdefault(reader, []).extend(numbers)
        return sum(map(len, taken.values())) == READERS * 100

    await eventually(all_taken, "all events")
    assert taken == {number: list(range(1, 101)) for number in range(READERS)}
    # Nobody had to wait for a second turn of those before.
    assert [number for number, _ in readers.taken[:READERS]] == list(range(READERS))
    hub.close()
    await asyncio.gather(*readers.tasks)


async def test_a_reader_that_leaves_while_it_waits_for_its_turn_is_forgotten() -> None:
    hub = Hub()
    readers = Readers(hub)
    hub.publish([event(1)])
    gone = readers.subscriptions[1]
    hub.unsubscribe("s", gone)
    await eventually(lambda: len(readers.taken) == READERS - 1, "the others")
    assert [number for number, _ in readers.taken] == [0, 2, 3, 4]
    assert hub.event_streams == READERS - 1
    gone.end()
    hub.close()
    await asyncio.gather(*readers.tasks)
