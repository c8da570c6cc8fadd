"""The cycle of a task (submit, deliver to a parked poll, ack, done), compared with an echo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean, median

from bench.bus_load import BusResult
from bench.figures import Figure
from bench.running import LOAD_SECONDS_MAX, Server, echo, shiftboss

ROUNDS = 5
TASKS = 4000
WORKERS = (1, 8, 64)


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    figures: list[Figure] = []
    for workers in WORKERS:
        results = [
            _round(folder / f"bus-{workers}-{number}.db", workers) for number in range(rounds)
        ]
        figures += _figures(workers, results)
    return figures


def _round(database: Path, workers: int) -> tuple[BusResult, BusResult]:
    """The speed of a shared machine changes within a round, so the echo is measured before and
    after."""
    with shiftboss(database) as server, echo() as echo_server:
        before = load("echo", echo_server, workers)
        cycles = load("cycle", server, workers)
        after = load("echo", echo_server, workers)
    return cycles, BusResult._make(map(mean, zip(before, after, strict=True)))


def load(kind: str, server: Server, workers: int) -> BusResult:
    process = subprocess.run(
        [sys.executable, "-m", "bench.bus_load", kind, server.url, str(workers), str(TASKS)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LOAD_SECONDS_MAX,
    )
    return BusResult(**json.loads(process.stdout))


def _figures(workers: int, results: list[tuple[BusResult, BusResult]]) -> list[Figure]:
    ratio = median(
        cycles.requests_per_second / echoes.requests_per_second for cycles, echoes in results
    )
    p50 = median(cycles.dispatch_p50_ms / echoes.dispatch_p50_ms for cycles, echoes in results)
    p99 = median(cycles.dispatch_p99_ms / echoes.dispatch_p50_ms for cycles, echoes in results)
    rate = median(cycles.cycles_per_second for cycles, _ in results)
    name = f"{workers} worker{'s' if workers > 1 else ''}"
    return [
        Figure(f"bus cycles per second, {name}", rate, ""),
        Figure(f"bus requests / echoes, {name}", ratio, "", at_least=0.4),
        Figure(f"dispatch p50 / echo p50, {name}", p50, "", at_most=5),
        Figure(f"dispatch p99 / echo p50, {name}", p99, "", at_most=20),
    ]
