"""An operator steers one run for a day, and every command that any output shows works as shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.runs.operator_day import Day, make_project, play


@pytest.mark.timeout(300)
@pytest.mark.requirement("OWN-11", "OWN-12")
def test_everything_a_run_waits_for_is_shown_and_resolved_as_shown(tmp_path: Path) -> None:
    day = Day(make_project(tmp_path))
    ended = play(day)
    assert ended.code == 0, ended
    assert sorted(day.project.landed()[1:]) == [
        f"Add {name}" for name in ("cart", "late", "mail", "pay", "price", "search", "stock")
    ]
    day.type_the_rest()
