"""Why a packet is where it is."""

from __future__ import annotations

import pytest

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packet_reasons import packet_reasons
from shiftboss.rules.tasks.packets import Assignment

PACKET = Assignment("my s", "packet-1", 1, WorkerState.EXECUTING, 1, "api", "", 10, 4, 0, 0, 0)
EVENTS = "shiftboss events 'my s'"
AT_WORK = (
    "api has completed 4 of 10 tasks; its last report came at 1970-01-01 00:00 UTC",
    "shiftboss swarm show 'my s'",
)


@pytest.mark.requirement("OWN-11")
@pytest.mark.parametrize(
    ("packet", "reasons"),
    [
        (PACKET, [AT_WORK]),
        (
            PACKET._replace(retries_open=2, last_error="network: no\nroute"),
            [("2 tasks wait for another attempt: network: no route", EVENTS), AT_WORK],
        ),
        (
            PACKET._replace(state=WorkerState.FAILED, last_error="boom"),
            [("api has failed: boom", EVENTS)],
        ),
        (
            PACKET._replace(state=WorkerState.COMPLETE, final_commit="c" * 40),
            [(f"api has completed it at commit {'c' * 12}", None)],
        ),
    ],
    ids=("running", "retry", "failed", "complete"),
)
def test_the_reasons_of_a_packet(packet: Assignment, reasons: list[tuple[str, str | None]]) -> None:
    assert [(reason.text, reason.command) for reason in packet_reasons(packet)] == reasons
