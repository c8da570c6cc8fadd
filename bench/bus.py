"""The cycle of a task (submit, deliver to a parked poll, ack, done), compared with an echo.

`python -m bench.bus --db postgresql://... --processes 2` measures it on PostgreSQL, with so many
server processes, each round in a new schema of the database, which is dropped again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median

import psycopg
from psycopg.sql import SQL, Identifier

from bench.bus_load import BusResult
from bench.figures import Figure, show
from bench.running import LOAD_SECONDS_MAX, Server, echo, shiftboss
from shiftboss.store.postgres.schema_address import with_schema

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
    combined = [
        _round(folder / f"combined-{number}.db", 8, kind="combined") for number in range(rounds)
    ]
    return figures + _combined_figures(combined)


def run_on_postgres(url: str, folder: Path, processes: int, rounds: int) -> list[Figure]:
    figures: list[Figure] = []
    for workers in WORKERS:
        results = []
        for number in range(rounds):
            with _schema(url, f"bench_bus_{workers}_{number}") as address:
                options = ["--state", str(folder / f"state-{workers}-{number}")]
                options += ["--workers", str(processes)]
                results.append(_round(address, workers, *options))
        figures += _figures(workers, results)
    return figures


@contextmanager
def _schema(url: str, name: str) -> Iterator[str]:
    address = with_schema(url, name)
    yield address
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(name)))


def _round(
    database: Path | str, workers: int, *options: str, kind: str = "cycle"
) -> tuple[BusResult, BusResult]:
    """The speed of a shared machine changes within a round, so the echo is measured before and
    after."""
    with shiftboss(database, *options) as server, echo() as echo_server:
        before = load("echo", echo_server, workers)
        cycles = load(kind, server, workers)
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


def _combined_figures(results: list[tuple[BusResult, BusResult]]) -> list[Figure]:
    """A cycle of two requests, compared with the four echoes of a cycle of separate calls."""
    ratio = median(
        cycles.cycles_per_second / echoes.cycles_per_second for cycles, echoes in results
    )
    rate = median(cycles.cycles_per_second for cycles, _ in results)
    return [
        Figure("bus cycles per second, combined calls, 8 workers", rate, ""),
        Figure("combined cycles / four echoes, 8 workers", ratio, "", at_least=0.55),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.bus", description=__doc__)
    parser.add_argument("--db", required=True, help="postgresql://...")
    parser.add_argument("--processes", type=int, default=1, help="server processes")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shiftboss-bench-") as folder:
        show(run_on_postgres(given.db, Path(folder), given.processes, given.rounds))


if __name__ == "__main__":
    main()
