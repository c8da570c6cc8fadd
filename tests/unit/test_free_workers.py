"""Who needs not be asked about in the store, by what the hub heard."""

from __future__ import annotations

import pytest

from shiftboss.coordinator import free_workers
from shiftboss.coordinator.free_workers import FreeWorkers
from shiftboss.protocol.events import EventKind

GIVEN, DONE = EventKind.TASK_ASSIGNED.value, EventKind.TASK_DONE.value


def heard(*told: tuple[str, str], worker: str = "w") -> FreeWorkers:
    them = FreeWorkers()
    for kind, task in told:
        them.hear(kind, "s", {"worker": worker, "bead_id": task})
    return them


def test_who_reported_its_task_done_is_free_and_once_only() -> None:
    them = heard((GIVEN, "t"), (DONE, "t"))
    assert not them.take("s", "v")
    assert not them.take("other", "w")
    assert them.take("s", "w")
    assert not them.take("s", "w")


@pytest.mark.parametrize(
    "told",
    [
        [],
        [(GIVEN, "t")],
        [(DONE, "t")],
        [(GIVEN, "t"), (DONE, "t"), (GIVEN, "u")],
        # Two servers: the next task is heard of before the end of the last one.
        [(GIVEN, "t"), (GIVEN, "u"), (DONE, "t")],
        [(GIVEN, "t"), (EventKind.ATTEMPT_ENDED.value, "t"), (DONE, "t")],
        [(GIVEN, "t"), (DONE, "t"), (EventKind.BUS_WORKER_RESET.value, "t")],
        [(GIVEN, "t"), (DONE, "t"), (EventKind.QUESTION_ANSWERED.value, "t")],
    ],
)
def test_whoever_else_is_asked_about(told: list[tuple[str, str]]) -> None:
    assert not heard(*told).take("s", "w")


def test_there_are_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_workers, "WORKERS_MAX", 3)
    them = FreeWorkers()
    for number in range(10):
        for kind in (GIVEN, DONE):
            them.hear(kind, "s", {"worker": f"w{number}", "bead_id": "t"})
    assert sum(them.take("s", f"w{number}") for number in range(10)) == 3
