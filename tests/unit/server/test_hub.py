from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shiftboss.coordinator import event_hub
from shiftboss.coordinator.event_hub import RECHECK, Hub
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.tasks.poll_acks import PollAck

pytestmark = pytest.mark.anyio


def event(number: int, swarm_id: str = "s", kind: str = "progress_update") -> Event:
    return Event(swarm_id, number, kind, 0, "{}")


async def test_subscribers_get_the_events_of_their_swarm_in_order() -> None:
    hub = Hub()
    mine, also_mine, other = hub.subscribe("s"), hub.subscribe("s"), hub.subscribe("t")
    hub.publish([event(1), event(2), event(7, "t")])
    expected = [(1, event(1).to_sse()), (2, event(2).to_sse())]
    assert mine.take() == expected
    assert also_mine.take() == expected
    assert [number for number, _ in other.take()] == [7]
    assert mine.take() == []


async def test_a_wait_ends_with_an_event_and_with_its_time() -> None:
    hub = Hub()
    subscription = hub.subscribe("s")
    await subscription.wait(0.001)
    assert subscription.take() == []
    hub.publish([event(1)])
    await subscription.wait(60)
    assert len(subscription.take()) == 1


async def test_a_subscriber_that_falls_behind_is_cut_off_and_the_others_are_not() -> None:
    hub = Hub(behind_events_max=3)
    slow, quick = hub.subscribe("s"), hub.subscribe("s")
    cut_off: list[bool] = []
    slow.on_cut_off = lambda: cut_off.append(True)
    heard: list[int] = []
    for number in range(1, 6):
        hub.publish([event(number)])
        heard += [event_id for event_id, _ in quick.take()]
    assert cut_off == [True]
    assert slow.ended
    assert slow.take() == []
    assert heard == [1, 2, 3, 4, 5]
    assert not quick.ended


async def test_closing_ends_every_subscription_but_keeps_what_waits() -> None:
    hub = Hub()
    subscription = hub.subscribe("s")
    hub.publish([event(1)])
    hub.close()
    await subscription.wait(60)
    assert len(subscription.take()) == 1
    assert subscription.ended
    assert hub.subscribe("s").ended


async def test_an_unsubscribed_reader_gets_no_more_events() -> None:
    hub = Hub()
    subscription = hub.subscribe("s")
    hub.unsubscribe("s", subscription)
    hub.unsubscribe("s", subscription)
    hub.publish([event(1)])
    assert subscription.take() == []


async def test_a_listener_gets_the_events_of_one_kind_in_every_swarm() -> None:
    hub = Hub()
    heard: list[Event] = []
    hub.listen(EventKind.WORKER_ERROR, heard.append)
    hub.publish([event(1), event(2, kind="worker_error"), event(1, "t", "worker_error")])
    assert [(event.swarm_id, event.event_id) for event in heard] == [("s", 2), ("t", 1)]


def assigned(number: int, worker: str = "w") -> Event:
    kind = EventKind.TASK_ASSIGNED.value
    return Event("s", number, kind, 0, f'{{"worker":"{worker}","bead_id":"t"}}')


async def test_a_late_event_of_another_server_only_makes_a_poll_ask_the_store() -> None:
    hub = Hub(is_alone=False)
    hub.publish([assigned(5, "another")])
    late, in_time = hub.park("s", "w"), hub.park("s", "v")
    hub.publish([assigned(4, "w"), assigned(6, "v")])
    assert late.result() == RECHECK
    assert in_time.result() == assigned(6, "v")


async def test_after_a_gap_every_parked_poll_asks_the_store() -> None:
    hub = Hub(is_alone=False)
    polls = [hub.park("s", "w"), hub.park("s", "w"), hub.park("t", "v")]
    hub.recheck()
    assert [poll.result() for poll in polls] == [RECHECK] * 3


async def test_worker_listeners_get_every_event_of_a_worker_before_a_poll_wakes() -> None:
    hub = Hub()
    poll = hub.park("s", "w")
    received: list[tuple[Event, dict[str, Any], bool]] = []
    hub.listen_to_workers(lambda event, data: received.append((event, data, poll.done())))
    hub.publish([event(1), assigned(2)])
    assert received == [(assigned(2), {"worker": "w", "bead_id": "t"}, False)]
    assert poll.result() == assigned(2)


def offered(number: int, worker: str) -> Event:
    """An offer that no poll has received."""
    kind = EventKind.TASK_ASSIGNED.value
    return Event("s", number, kind, 0, f'{{"worker":"{worker}","bead_id":"t","received":false}}')


@pytest.mark.requirement("OWN-19")
async def test_a_promise_is_kept_by_the_last_poll_of_the_worker() -> None:
    hub = Hub()
    assert not hub.reserve_poll("s", "w")
    first, second = hub.park("s", "w"), hub.park("s", "w")
    assert list(hub.parked_workers("s")) == ["w"]
    assert hub.reserve_poll("s", "w")
    assert not hub.reserve_poll("s", "v")
    assert not hub.reserve_poll("t", "w")
    assert not hub.unpark("s", "w", first)
    assert hub.unpark("s", "w", second)
    third = hub.park("s", "w")
    assert not hub.unpark("s", "w", third)
    assert not hub.parked_workers("s")


@pytest.mark.requirement("OWN-19")
async def test_a_started_attempt_is_for_the_poll_that_was_counted_on_and_for_no_later_one() -> None:
    hub = Hub()
    ack = PollAck()
    counted_on = hub.park("s", "w", ack)
    assert hub.reserve_poll("s", "w")
    assert hub.reserved_ack("s", "w") == ack
    # The worker had its answer before the event came here, and its report about the task polls.
    later = hub.park("s", "w", ack)
    kind = EventKind.TASK_ASSIGNED.value
    started = Event("s", 1, kind, 0, '{"worker":"w","bead_id":"t","acknowledged":true}')
    hub.publish([started])
    assert counted_on.result() == started
    assert later.result() == RECHECK


@pytest.mark.requirement("OWN-19")
async def test_an_offer_that_no_poll_received_makes_parked_polls_ask_the_store() -> None:
    hub = Hub()
    own, other, elsewhere = hub.park("s", "w"), hub.park("s", "v"), hub.park("t", "v")
    hub.publish([offered(1, "w")])
    assert own.result() == RECHECK
    assert not other.done()
    hub.publish([offered(2, "gone")])
    assert other.result() == RECHECK
    assert not elsewhere.done()


@pytest.mark.requirement("OWN-19")
async def test_another_server_has_time_to_hand_out_its_offer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_hub, "OFFER_GRACE_SECONDS", 0.01)
    hub = Hub(is_alone=False)
    poll = hub.park("s", "v")
    hub.publish([offered(1, "elsewhere"), offered(2, "elsewhere")])
    assert not poll.done()
    async with asyncio.timeout(30):
        assert await poll == RECHECK
