"""The list of events: pages in both directions, filters, and bounded work, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.coordinator.history import events
from shiftboss.errors import InvalidRequest, UnknownSwarm
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.history import EventList, ListEventsRequest
from tests.conformance.bus.bus_fixtures import BusFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-04")]


async def listed(bus: BusFixture, **members: Any) -> EventList:
    request = ListEventsRequest(**({"swarm_id": bus.swarm_id} | members))
    return await bus.coordinator.history.list_events(request)


def ids(page: EventList) -> list[int]:
    return [event.event_id for event in page.events]


async def work(bus: BusFixture) -> int:
    """Two tasks, one of them done; the id of the last event."""
    await bus.register("w")
    await bus.add_and_submit("a", "b")
    await bus.start("w", "a")
    await bus.done("a", "w")
    return (await listed(bus)).last_event_id


async def test_events_come_newest_first_page_by_page(bus: BusFixture) -> None:
    last = await work(bus)
    seen: list[int] = []
    before: int | None = None
    for _ in range(last):
        page = await listed(bus, before=before, limit=3)
        seen += ids(page)
        before = page.next_before
        if before is None:
            break
    assert seen == list(range(last, 0, -1))
    assert (page.first_event_id, page.next_after) == (1, None)


async def test_with_after_they_come_oldest_first(bus: BusFixture) -> None:
    last = await work(bus)
    page = await listed(bus, after=2, limit=2)
    assert (ids(page), page.next_after, page.next_before) == ([3, 4], 4, None)
    rest = await listed(bus, after=4)
    assert (ids(rest), rest.next_after) == (list(range(5, last + 1)), None)
    assert ids(await listed(bus, after=last)) == []
    with pytest.raises(InvalidRequest) as error:
        await listed(bus, after=1, before=3)
    assert error.value.field == "after"


async def test_an_event_has_its_task_actor_time_and_data(bus: BusFixture) -> None:
    await work(bus)
    (added,) = (await listed(bus, bead_id="b", kinds=[EventKind.TASK_ADDED])).events
    assert (added.kind, added.bead_id, added.at) == ("task_added", "b", bus.clock.now_ms)
    assert added.actor
    assert added.data["title"] == "b"


async def test_filters_by_task_and_by_kind(bus: BusFixture) -> None:
    await work(bus)
    of_task = await listed(bus, bead_id="b")
    assert {event.bead_id for event in of_task.events} == {"b"}
    kinds = [EventKind.TASK_ADDED, EventKind.TASK_QUEUED]
    of_kinds = await listed(bus, kinds=kinds)
    assert {event.kind for event in of_kinds.events} == {kind.value for kind in kinds}
    assert len(of_kinds.events) == 3
    assert len((await listed(bus, kinds=kinds, bead_id="b", after=0)).events) == 2
    assert (await listed(bus, bead_id="nobody")).events == []


async def test_one_request_looks_at_a_bounded_number_of_events(
    bus: BusFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = await work(bus)
    monkeypatch.setattr(events, "EVENTS_SEARCHED_MAX", 2)
    page = await listed(bus, kinds=[EventKind.BUS_WORKER_JOINED])
    assert (page.events, page.next_before) == ([], last - 1)
    while page.next_before is not None and not page.events:
        page = await listed(bus, kinds=[EventKind.BUS_WORKER_JOINED], before=page.next_before)
    assert [event.kind for event in page.events] == ["bus_worker_joined"]
    forwards = await listed(bus, kinds=[EventKind.TASK_DONE], after=0)
    assert (forwards.events, forwards.next_after) == ([], 2)


async def test_a_page_ends_before_it_is_too_large(
    bus: BusFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = await work(bus)
    monkeypatch.setattr(events, "PAGE_CHARACTERS_MAX", 10)
    page = await listed(bus)
    assert (ids(page), page.next_before) == ([last], last)


async def test_unknown_and_empty_swarms(bus: BusFixture) -> None:
    with pytest.raises(UnknownSwarm):
        await listed(bus, swarm_id="nowhere")
    empty = await listed(bus, swarm_id="default")
    assert (empty.events, empty.next_before, empty.last_event_id) == ([], None, 0)
    assert (await listed(bus, swarm_id="default", after=0)).next_after is None


async def test_deleted_events_are_not_looked_for(bus: BusFixture) -> None:
    last = await work(bus)
    bus.clock.now_ms += 10
    await bus.add("c")
    at_ms = bus.clock.now_ms
    await bus.coordinator.store.write(
        lambda tx: (tx.take_swarm(bus.swarm_id), tx.prune_events(bus.swarm_id, at_ms, 100)),
        bus.swarm_id,
    )
    page = await listed(bus, before=3)
    assert (page.events, page.next_before, page.first_event_id) == ([], None, last + 1)
    assert ids(await listed(bus, after=0)) == [last + 1]
