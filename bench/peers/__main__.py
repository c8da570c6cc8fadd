"""Run Shiftboss and its peers on the same job, round by round, and write what was measured."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.peers import limits
from bench.peers.conditions import conditions, missing, version
from bench.peers.install import install_servers
from bench.peers.measurement import MeasurementFailedError, measuring
from bench.peers.report import write
from bench.peers.results import DISPATCH_P50, DISPATCH_P99, Results, SystemResult, cycles
from bench.peers.systems import PRODUCERS, SYSTEMS, System, chosen

DISPATCHES: Final = 200

# A folder that survives a restart is on a disk; that of temporary files may be in memory.
_FOLDER: Final = Path("/var/tmp")


def main() -> int:
    options = _options()
    if options.install:
        install_servers()
        return 0
    if options.render is not None:
        results = Results.model_validate_json(options.render.read_text())
    else:
        results = _measured(options)
    write(results, options.docs)
    return 0


def _options() -> argparse.Namespace:
    names = ", ".join(system.name for system in SYSTEMS)
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--systems", type=chosen, default=list(SYSTEMS), help=f"some of: {names}")
    parser.add_argument("--jobs", type=int, default=2_000, help="of a cycle (2000)")
    parser.add_argument("--rounds", type=int, default=3, help="of everything (3)")
    parser.add_argument("--workers", type=_numbers, default=[1, 8], help="processes (1,8)")
    parser.add_argument("--folder", type=Path, default=_FOLDER, help=f"on a disk ({_FOLDER})")
    parser.add_argument("--json", type=Path, help="write what was measured to this file")
    parser.add_argument("--render", type=Path, help="measure nothing: read such a file")
    parser.add_argument("--docs", type=Path, help="write table and plot into this folder")
    parser.add_argument("--install", action="store_true", help="install the servers of the peers")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return sorted(int(number) for number in text.split(","))


def _measured(options: argparse.Namespace) -> Results:
    # Everything that was started is stopped, also when this is.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = Results(
        conditions=conditions(options.folder),
        jobs=options.jobs,
        dispatches=DISPATCHES,
        rounds=options.rounds,
        workers=options.workers,
        systems=[_result(system) for system in options.systems],
        limits=limits.limits(),
    )
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="shiftboss-bench-", dir=options.folder) as folder:
            limits.measure(results.limits, Path(folder))
        for system, result in zip(options.systems, results.systems, strict=True):
            if result.failure is None:
                print(f"round {number + 1}: {system.title}", file=sys.stderr, flush=True)
                _measure(system, result, options)
                # Each time: what was measured outlasts a run that is interrupted.
                if options.json is not None:
                    options.json.write_text(results.model_dump_json(indent=1))
    return results


def _result(system: System) -> SystemResult:
    return SystemResult(
        name=system.name,
        title=system.title,
        version=version(system),
        durability=system.durability,
        is_durable=system.is_durable,
        is_ours=system.is_ours,
        failure=missing(system),
    )


def _measure(system: System, result: SystemResult, options: argparse.Namespace) -> None:
    """One round of one system. What fails is noted, and the others go on."""
    fewest, most = options.workers[0], options.workers[-1]
    try:
        for workers in options.workers:
            producers = PRODUCERS if workers == most else 1
            with (
                tempfile.TemporaryDirectory(prefix="shiftboss-bench-", dir=options.folder) as name,
                measuring(system, Path(name), workers=workers, producers=producers) as measurement,
            ):
                result.add(cycles(workers), measurement.cycles_per_second(options.jobs, 1))
                if producers > 1:
                    rate = measurement.cycles_per_second(options.jobs, producers)
                    result.add(cycles(workers, producers), rate)
                if workers == fewest:
                    dispatch = measurement.dispatch(DISPATCHES)
                    result.add(DISPATCH_P50, dispatch.p50_ms)
                    result.add(DISPATCH_P99, dispatch.p99_ms)
    except MeasurementFailedError as error:
        result.failure = str(error)
        print(f"{system.title}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
