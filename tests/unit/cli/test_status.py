"""Which swarms `status` shows: those where something is being done or can be done."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from shiftboss.cli.commands.swarms.status import is_ongoing

pytestmark = pytest.mark.requirement("OWN-11")

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
QUIET = dict.fromkeys(("questions", "scope_requests", "holds", "reviews", "failed"), 0)


def swarm(status: str, **work: int) -> dict[str, Any]:
    """Its last event was a day ago."""
    return {
        "status": status,
        "bus": QUIET | {"total": 2} | work,
        "workers_registered": 0,
        "last_update": "2026-01-04T12:00:00Z",
    }


@pytest.mark.parametrize("kind", list(QUIET))
def test_a_swarm_is_shown_as_long_as_a_person_can_do_something(kind: str) -> None:
    assert is_ongoing(swarm("complete", **{kind: 1}), NOW)


def test_a_swarm_that_waits_is_shown_and_one_that_has_ended_is_not() -> None:
    assert is_ongoing(swarm("waiting"), NOW)
    assert not is_ongoing(swarm("complete"), NOW)
