"""The board that `shiftboss replay` prints."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from shiftboss.cli.views.replay import board_table, counts_text

pytestmark = pytest.mark.requirement("OWN-08")


def test_what_a_task_waits_for_is_counted_and_no_id() -> None:
    tasks = [
        {"bead_id": name, "title": name, "column": "waiting", "status": "open", "waits_for": count}
        for name, count in (("basket", 1), ("bill", 2))
    ]
    output = io.StringIO()
    Console(file=output, width=100).print(board_table(tasks))
    assert "waits for 1 task " in output.getvalue()
    assert "waits for 2 tasks" in output.getvalue()


def test_counts_are_sentences() -> None:
    assert counts_text({"done": 2, "needs_you": 1}) == "1 needs you, 2 done"
    assert counts_text({"needs_you": 2, "failed": 0}) == "2 need you"
    assert counts_text({}) == "no tasks"
