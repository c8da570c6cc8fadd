"""Running a server through the checks of all documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from shiftboss.client.server_address import Server
from shiftboss.conformance.checks import Check, Result, chosen, run_checks
from shiftboss.conformance.server import (
    bus_tools,
    handoffs,
    messages,
    milestones,
    swarm_events,
    swarm_limits,
    swarm_reports,
)
from shiftboss.conformance.server.harness import ServerHarness

SERVER_CHECKS: Final[list[Check[ServerHarness]]] = [
    *swarm_reports.REPORTS,
    *swarm_limits.LIMITS,
    *swarm_events.EVENTS,
    *bus_tools.TOOLS,
    *messages.MESSAGES,
    *handoffs.HANDOFFS,
    *milestones.MILESTONES,
]


def check_server(
    server: Server,
    only: Sequence[str] = (),
    seconds: float = 20.0,
    on_result: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    harness = ServerHarness(server, seconds)
    try:
        return run_checks(chosen(SERVER_CHECKS, only), harness, on_result)
    finally:
        harness.close()
