"""Which polls need no query, by the events of their workers."""

from __future__ import annotations

import pytest

from shiftboss.coordinator.bus import free_workers
from shiftboss.coordinator.bus.free_workers import FreeWorkers
from shiftboss.protocol.events import Event, EventKind

ASSIGNED, DONE = EventKind.TASK_ASSIGNED, EventKind.TASK_DONE
ENDED, RESET = EventKind.ATTEMPT_ENDED, EventKind.BUS_WORKER_RESET

Sent = tuple[int, EventKind, str]


def after(*events: Sent) -> FreeWorkers:
    workers = FreeWorkers()
    for event_id, kind, task in events:
        send(workers, event_id, kind, task)
    return workers


def send(
    workers: FreeWorkers, event_id: int, kind: EventKind, task: str, worker: str = "w"
) -> None:
    workers.on_event(Event("s", event_id, kind.value, 0, ""), {"worker": worker, "bead_id": task})


def test_a_worker_that_reported_its_task_done_is_free_for_one_poll() -> None:
    workers = after((1, ASSIGNED, "t"), (2, DONE, "t"))
    assert not workers.take("s", "v")
    assert not workers.take("other", "w")
    assert workers.take("s", "w")
    assert not workers.take("s", "w")


@pytest.mark.parametrize(
    "events",
    [
        [],
        [(1, ASSIGNED, "t")],
        [(1, DONE, "t")],
        [(1, ASSIGNED, "t"), (2, DONE, "t"), (3, ASSIGNED, "u")],
        [(1, ASSIGNED, "t"), (2, ENDED, "t"), (3, DONE, "t")],
        [(1, ASSIGNED, "t"), (2, DONE, "t"), (3, RESET, "t")],
        [(1, ASSIGNED, "t"), (2, DONE, "t"), (3, EventKind.QUESTION_ANSWERED, "t")],
    ],
)
def test_polls_of_any_other_worker_query_the_store(events: list[Sent]) -> None:
    assert not after(*events).take("s", "w")


def test_an_entry_is_valid_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = after((1, ASSIGNED, "t"), (2, DONE, "t"))
    monkeypatch.setattr(free_workers, "VALID_SECONDS", 0.0)
    assert not workers.take("s", "w")


def test_the_cache_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_workers, "WORKERS_MAX", 6)
    workers = FreeWorkers()
    for number in range(100):
        send(workers, 2 * number + 1, ASSIGNED, "t", f"w{number}")
        send(workers, 2 * number + 2, DONE, "t", f"w{number}")
    assert len(workers._free) <= 6
    assert workers.take("s", "w99")


@pytest.mark.requirement("OWN-19")
def test_nobody_skips_the_store_while_an_offer_may_be_taken_over() -> None:
    workers = after((1, ASSIGNED, "t"), (2, DONE, "t"))
    offer = {"worker": "gone", "bead_id": "u", "received": False}
    workers.on_event(Event("s", 3, ASSIGNED.value, 0, ""), offer)
    assert not workers.take("s", "w")
    send(workers, 4, ASSIGNED, "v")
    send(workers, 5, DONE, "v")
    send(workers, 6, ENDED, "u", worker="gone")
    assert workers.take("s", "w")


def offer(workers: FreeWorkers, swarm_id: str, worker: str = "gone") -> None:
    data = {"worker": worker, "bead_id": "u", "received": False}
    workers.on_event(Event(swarm_id, 1, ASSIGNED.value, 0, ""), data)


@pytest.mark.requirement("OWN-19")
def test_offers_that_were_forgotten_keep_polls_at_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As long as they can last."""
    monkeypatch.setattr(free_workers, "WORKERS_MAX", 4)
    workers = FreeWorkers()
    offer(workers, "s")
    for number in range(10):
        offer(workers, f"swarm-{number}")
    assert len(workers._offered) <= 4
    send(workers, 2, ASSIGNED, "t")
    send(workers, 3, DONE, "t")
    assert not workers.take("s", "w")
    send(workers, 4, ASSIGNED, "t")
    send(workers, 5, DONE, "t")
    workers._offers_unknown_until = 0.0
    assert workers.take("s", "w")


@pytest.mark.requirement("OWN-19")
def test_an_offer_of_a_deleted_swarm_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = FreeWorkers()
    offer(workers, "s")
    send(workers, 2, ASSIGNED, "t")
    send(workers, 3, DONE, "t")
    monkeypatch.setattr(free_workers, "OFFER_SECONDS", 0.0)
    assert workers.take("s", "w")
    assert workers._offered == {}


@pytest.mark.requirement("OWN-19")
def test_offers_of_the_time_before_the_start_keep_polls_at_the_store() -> None:
    workers = FreeWorkers()
    workers.know_offers([("s", "gone"), ("other", "gone")])
    send(workers, 1, ASSIGNED, "t")
    send(workers, 2, DONE, "t")
    assert not workers.take("s", "w")
    send(workers, 3, ENDED, "u", worker="gone")
    send(workers, 4, ASSIGNED, "t")
    send(workers, 5, DONE, "t")
    assert workers.take("s", "w")


@pytest.mark.requirement("OWN-19")
def test_very_many_offers_are_taken_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_workers, "OFFERS_READ_MAX", 2)
    workers = FreeWorkers()
    workers.know_offers([("other", "gone"), ("other", "away")])
    send(workers, 1, ASSIGNED, "t")
    send(workers, 2, DONE, "t")
    assert not workers.take("s", "w"), "one that was not read may be of this swarm"


def test_a_report_that_found_nothing_to_do_next_has_asked_for_offers() -> None:
    workers = FreeWorkers()
    workers.forget()
    send(workers, 1, ASSIGNED, "t")
    send(workers, 2, DONE, "t")
    workers.on_empty_poll("s", "w")
    assert workers.take("s", "w")
    workers.on_empty_poll("s", "w")  # nothing is known of this worker any more
    assert not workers.take("s", "w")


@pytest.mark.requirement("OWN-19")
def test_an_offer_that_came_after_the_report_keeps_its_poll_at_the_store() -> None:
    workers = after((1, ASSIGNED, "t"), (2, DONE, "t"))
    workers.on_empty_poll("s", "w")
    offer(workers, "s")
    assert not workers.take("s", "w")


@pytest.mark.requirement("OWN-05")
def test_nothing_is_known_of_anybody_when_events_may_have_been_missed() -> None:
    workers = after((1, ASSIGNED, "t"), (2, DONE, "t"))
    workers.forget()
    assert not workers.take("s", "w")
    send(workers, 3, ASSIGNED, "t")
    send(workers, 4, DONE, "t")
    assert not workers.take("s", "w"), "there may be an offer that it has not heard of"
