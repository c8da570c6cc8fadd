"""Running a worker through the checks of its profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from shiftboss.conformance.checks import Check, Result, chosen, run_checks
from shiftboss.conformance.own_server import RestartableServer
from shiftboss.conformance.proxy import proxying
from shiftboss.conformance.worker.bench import Limits
from shiftboss.conformance.worker.bus_bench import BusBench
from shiftboss.conformance.worker.bus_faults import FAULTS
from shiftboss.conformance.worker.bus_loop import LOOP
from shiftboss.conformance.worker.bus_messages import MESSAGES
from shiftboss.conformance.worker.bus_record import RECORD
from shiftboss.conformance.worker_process import StartsWorkers

Profile = Literal["bus", "packet"]

BUS_CHECKS: Final[list[Check[BusBench]]] = [*LOOP, *FAULTS, *MESSAGES, *RECORD]


def check_bus_worker(
    start: StartsWorkers,
    server: RestartableServer,
    folder: Path,
    *,
    only: Sequence[str] = (),
    limits: Limits = Limits(),
    on_result: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    checks = chosen(BUS_CHECKS, only)
    with proxying(server.url) as proxy:
        bench = BusBench(server, proxy, start, folder, limits)
        try:
            bench.prepare()
            return run_checks(checks, bench, on_result)
        finally:
            bench.close()
