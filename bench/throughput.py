"""Durable progress reports against a bare echo of the same request, in turns in one run."""

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
    with shiftboss(folder / "throughput.db") as durable, echo() as bare:
        durable.prepare(SWARM, CONNECTIONS)
        results = [(_one(durable, number), _one(bare, number)) for number in range(rounds)]
    reports = median(ours.per_second for ours, _ in results)
    echoes = median(theirs.per_second for _, theirs in results)
    ratio = median(ours.per_second / theirs.per_second for ours, theirs in results)
    return [
        Figure("echo requests per second, 64 connections", echoes, ""),
        Figure("durable reports per second, 64 connections", reports, ""),
        Figure("reports / echoes", ratio, "", at_least=0.5),
        Figure("p50 of a report", median(ours.p50_ms for ours, _ in results), "ms"),
        Figure("p99 of a report", median(ours.p99_ms for ours, _ in results), "ms", at_most=30),
    ]


def _one(server: Server, number: int) -> Result:
    start = number * REPORTS_PER_ROUND
    return run_load(Load(server.url, SWARM, CONNECTIONS, REPORTS_PER_ROUND, start))
