"""Durable progress reports, compared with an echo of the same request, alternating in one run."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from bench.figures import Figure
from bench.load import Load, Result
from bench.running import Server, echo, run_load, shiftboss

CONNECTIONS = 64
ROUNDS = 5
REPORTS_PER_ROUND = 32_000
SWARM = "bench"


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    with shiftboss(folder / "throughput.db") as server, echo() as echo_server:
        server.prepare(SWARM, CONNECTIONS)
        results = [
            (_round(server, number), _round(echo_server, number)) for number in range(rounds)
        ]
    reports = median(report.per_second for report, _ in results)
    echoes = median(echoed.per_second for _, echoed in results)
    ratio = median(report.per_second / echoed.per_second for report, echoed in results)
    return [
        Figure("echo requests per second, 64 connections", echoes, ""),
        Figure("durable reports per second, 64 connections", reports, ""),
        Figure("reports / echoes", ratio, "", at_least=0.5),
        Figure("p50 of a report", median(report.p50_ms for report, _ in results), "ms"),
        Figure("p99 of a report", median(report.p99_ms for report, _ in results), "ms", at_most=30),
    ]


def _round(server: Server, number: int) -> Result:
    start = number * REPORTS_PER_ROUND
    return run_load(Load(server.url, SWARM, CONNECTIONS, REPORTS_PER_ROUND, start))
