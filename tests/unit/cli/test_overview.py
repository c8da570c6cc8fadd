"""The counts of a swarm, for people."""

from __future__ import annotations

from shiftboss.cli.views.overview import work_text


def test_each_task_is_counted_once() -> None:
    counts = {"active": 1, "queued": 0, "open": 2, "done": 6, "failed": 1, "cancelled": 0}
    assert work_text(counts | {"landed": 4}) == "1 active, 2 open, 4 landed, 2 done, 1 failed"
    assert work_text(counts | {"landed": 0}) == "1 active, 2 open, 6 done, 1 failed"
