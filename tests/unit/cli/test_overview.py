"""The counts of a swarm, for people."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from shiftboss.cli.views.bus import effective_status, tasks_table
from shiftboss.cli.views.overview import work_text


def test_each_task_is_counted_once() -> None:
    counts = {"active": 1, "queued": 0, "open": 2, "done": 6, "failed": 1, "cancelled": 0}
    assert work_text(counts | {"landed": 4}) == "1 active, 2 open, 4 landed, 2 done, 1 failed"
    assert work_text(counts | {"landed": 0}) == "1 active, 2 open, 6 done, 1 failed"


@pytest.mark.parametrize(
    ("members", "status"),
    [
        ({"status": "queued"}, "queued"),
        ({"status": "queued", "hold": "answer"}, "blocked"),
        ({"status": "open", "hold": "budget"}, "parked"),
        ({"status": "active", "state": "blocked"}, "blocked"),
        ({"status": "active", "state": "executing"}, "active"),
        ({"status": "done", "review": {"state": "open"}}, "in review"),
        ({"status": "done", "review": {"state": "approved"}}, "done"),
        ({"status": "done", "landed_commit": "c" * 40}, "landed"),
    ],
)
def test_the_status_of_a_task_tells_what_waits(members: dict[str, Any], status: str) -> None:
    assert effective_status({"state": None} | members) == status


def test_a_task_that_waits_has_no_worker() -> None:
    task = {"bead_id": "a", "title": "T", "priority": 0, "attempt": 1, "updated_at": 0}
    task |= {"state": None, "worker": "sums-1"}
    for status, names_it in (("queued", False), ("active", True), ("failed", True)):
        table = tasks_table([task | {"status": status}], datetime.now(UTC), 100)
        screen = Console(file=io.StringIO(), width=100)
        screen.print(table)
        assert isinstance(screen.file, io.StringIO)
        assert ("sums-1" in screen.file.getvalue()) is names_it
