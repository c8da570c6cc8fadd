"""Refused requests in the audit log, when an attacker has many addresses."""

from __future__ import annotations

import pytest

from shiftboss.rules.access.actors import UNKNOWN
from shiftboss.server.http.access_log import (
    REFUSAL_SECONDS,
    REFUSALS_OF_ALL_LOGGED_MAX,
    AccessLog,
    RequestFacts,
)
from shiftboss.system.logs import AUDIT_LOGGER

pytestmark = pytest.mark.requirement("OWN-06")


def test_refusals_of_many_addresses_do_not_flood_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    log = AccessLog(lambda: now[0])

    def refuse(count: int) -> int:
        caplog.clear()
        for number in range(count):
            facts = RequestFacts("GET", "/swarms", f"2001:db8::{number:x}", "r1")
            log.record(facts, UNKNOWN, 401)
        return len(caplog.records)

    with caplog.at_level("WARNING", AUDIT_LOGGER):
        assert refuse(REFUSALS_OF_ALL_LOGGED_MAX + 2_000) == REFUSALS_OF_ALL_LOGGED_MAX + 1
        assert refuse(2_000) == 0
        now[0] += REFUSAL_SECONDS
        assert refuse(10) == 10
