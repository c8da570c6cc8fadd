"""Who needs not be asked about in the store, by what the hub heard."""

from __future__ import annotations

import pytest

from shiftboss.coordinator import hub
from shiftboss.coordinator.hub import FreeWorkers
from shiftboss.protocol.events import Event, EventKind

GIVEN, DONE = EventKind.TASK_ASSIGNED, EventKind.TASK_DONE
ENDED, RESET = EventKind.ATTEMPT_ENDED, EventKind.BUS_WORKER_RESET

Told = tuple[int, EventKind, str]


def heard(*told: Told) -> FreeWorkers:
    """By their ids, in the order in which they came."""
    them = FreeWorkers()
    for event_id, kind, task in told:
        tell(them, event_id, kind, task)
    return them


def tell(them: FreeWorkers, event_id: int, kind: EventKind, task: str, worker: str = "w") -> None:
    them.hear(Event("s", event_id, kind.value, 0, ""), {"worker": worker, "bead_id": task})


def test_who_reported_its_task_done_is_free_and_once_only() -> None:
    them = heard((1, GIVEN, "t"), (2, DONE, "t"))
    assert not them.take("s", "v")
    assert not them.take("other", "w")
    assert them.take("s", "w")
    assert not them.take("s", "w")


@pytest.mark.parametrize(
    "told",
    [
        [],
        [(1, GIVEN, "t")],
        [(1, DONE, "t")],
        [(1, GIVEN, "t"), (2, DONE, "t"), (3, GIVEN, "u")],
        [(1, GIVEN, "t"), (2, ENDED, "t"), (3, DONE, "t")],
        [(1, GIVEN, "t"), (2, DONE, "t"), (3, RESET, "t")],
        [(1, GIVEN, "t"), (2, DONE, "t"), (3, EventKind.QUESTION_ANSWERED, "t")],
    ],
)
def test_whoever_else_is_asked_about(told: list[Told]) -> None:
    assert not heard(*told).take("s", "w")


def test_what_was_certain_is_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    them = heard((1, GIVEN, "t"), (2, DONE, "t"))
    monkeypatch.setattr(hub, "CERTAIN_SECONDS", 0.0)
    assert not them.take("s", "w")


def test_there_are_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "KNOWN_MAX", 6)
    them = FreeWorkers()
    for number in range(100):
        tell(them, 2 * number + 1, GIVEN, "t", f"w{number}")
        tell(them, 2 * number + 2, DONE, "t", f"w{number}")
    assert len(them._free) <= 6
    assert them.take("s", "w99")
