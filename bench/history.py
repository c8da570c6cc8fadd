"""Memory after a million reports, and whether a long history makes requests slower."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.load import Load
from bench.running import Server, run_load, shiftboss

CONNECTIONS = 64
REPORTS = 1_000_000
REPORTS_SHORT = 64
PROBES = 2000
SWARM = "bench"


def run(folder: Path, reports: int = REPORTS) -> list[Figure]:
    with shiftboss(folder / "long.db") as long, shiftboss(folder / "short.db") as short:
        for server, count in ((long, reports), (short, REPORTS_SHORT)):
            server.prepare(SWARM, CONNECTIONS)
            run_load(Load(server.url, SWARM, CONNECTIONS, count, 0))
        memory = long.memory_megabytes()
        progress = _ratio(long, short, _progress)
        status = _ratio(long, short, _status)
    return [
        Figure(f"server memory after {reports:,} reports", memory, "MB", at_most=120),
        Figure(f"progress: cost at {reports:,} events / at 100", progress, "", at_most=1.1),
        Figure(f"status: cost at {reports:,} events / at 100", status, "", at_most=1.1),
    ]


def _progress(server: Server, number: int) -> None:
    server.post(
        f"/swarm/{SWARM}/progress",
        {
            "packet_id": 1 + number % CONNECTIONS,
            "task_id": f"probe-{number}",
            "task_name": "Probe",
            "status": "started",
            "tasks_completed": 1,
            "tasks_total": 1000,
        },
    )


def _status(server: Server, _number: int) -> None:
    server.get(f"/swarm/{SWARM}/status")


def _ratio(long: Server, short: Server, probe: Callable[[Server, int], None]) -> float:
    """The ratio of the medians of single requests, alternating so that conditions are equal."""
    times: dict[Server, list[float]] = {long: [], short: []}
    for number in range(PROBES):
        for server in (long, short):
            started_at = time.perf_counter()
            probe(server, number)
            times[server].append(time.perf_counter() - started_at)
    return median(times[long]) / median(times[short])
