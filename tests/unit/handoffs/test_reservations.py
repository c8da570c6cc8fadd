"""When a task that nobody works on loses its files to another swarm."""

from __future__ import annotations

import pytest

from shiftboss.rules.handoffs.handoffs import RESERVATION_IDLE_MS, has_lapsed

pytestmark = pytest.mark.requirement("OWN-11")


@pytest.mark.parametrize("status", ["open", "queued", "failed"])
def test_idle_tasks_lose_their_files_after_a_while(status: str) -> None:
    assert not has_lapsed(status, RESERVATION_IDLE_MS - 1)
    assert has_lapsed(status, RESERVATION_IDLE_MS)


@pytest.mark.parametrize("status", ["active", "done", "cancelled"])
def test_work_in_progress_never_does(status: str) -> None:
    assert not has_lapsed(status, RESERVATION_IDLE_MS * 100)
