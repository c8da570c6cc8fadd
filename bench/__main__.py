"""Run all benchmarks and print one table. The exit code is 1 when a goal is missed."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from bench import (
    bus,
    ci_watching,
    delivery,
    growth,
    history,
    hooks,
    mcp,
    open_pages,
    page,
    parked,
    proof,
    run_overhead,
    sdk,
    startup,
    throughput,
    verification,
    waiting_agents,
    waiting_run,
    watch,
)
from bench.figures import Figure, show


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and reports")
    quick = parser.parse_args().quick
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="shiftboss-bench-") as name:
        folder = Path(name)
        figures += throughput.run(folder, rounds=2 if quick else throughput.ROUNDS)
        figures += delivery.run(folder)
        figures += bus.run(folder, rounds=1 if quick else bus.ROUNDS)
        figures += sdk.run(folder, rounds=1 if quick else sdk.ROUNDS)
        figures += mcp.run(folder, rounds=1 if quick else mcp.ROUNDS)
        figures += page.run(
            folder,
            seconds=10 if quick else page.IDLE_SECONDS,
            cycles=1200 if quick else page.CYCLES_OF_AN_HOUR,
        )
        figures += watch.run(folder, cycles=1200 if quick else watch.CYCLES_OF_AN_HOUR)
        figures += open_pages.run(folder, rounds=1 if quick else open_pages.ROUNDS)
        figures += parked.run(
            folder, polls=1000 if quick else parked.POLLS, streams=100 if quick else parked.STREAMS
        )
        figures += verification.run(folder, rounds=3 if quick else verification.ROUNDS)
        figures += proof.run(folder, rounds=1 if quick else proof.ROUNDS)
        figures += hooks.run(folder / "hooks")
        figures += startup.run(folder / "startup", rounds=3 if quick else startup.ROUNDS)
        figures += ci_watching.run(folder, seconds=10 if quick else ci_watching.WATCHED_SECONDS)
        figures += waiting_agents.run(
            folder, seconds=10 if quick else waiting_agents.WATCHED_SECONDS
        )
        figures += waiting_run.run(folder, seconds=10 if quick else waiting_run.WATCHED_SECONDS)
        figures += run_overhead.run(folder, tasks=4 if quick else run_overhead.TASKS)
        figures += growth.run(folder, tasks=20_000 if quick else growth.FULL_TASKS)
        figures += history.run(folder, reports=64_000 if quick else history.REPORTS)
    show(figures)
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
