"""shiftboss simulate: runs the servers and workers in a simulated world, and looks for a seed that
breaks an invariant."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from shiftboss.cli.common.command import Output, json_command
from shiftboss.cli.common.output import print_line
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.rules.documents.wording import pluralize

if TYPE_CHECKING:
    from shiftboss.simulator.simulation import SimulationResult

STEPS: Final = 60
_RANGE: Final = re.compile(r"(\d+)\.\.(\d+)")
FAILURES_SHOWN_MAX: Final = 5


class InvariantBroken(ShiftbossError):
    code = "invariant_broken"
    title = "A simulation broke an invariant"


@json_command("Print the results as JSON.")
def simulate(
    seed: Annotated[
        int | None, typer.Option(min=0, help="The seed, or the first of --count. Default: 0.")
    ] = None,
    steps: Annotated[int, typer.Option(min=1, max=100_000, help="The steps of each seed.")] = STEPS,
    count: Annotated[
        int | None, typer.Option(min=1, help="How many seeds, from the first on. Default: 1.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="A..B", help="The seeds from A to B, both included.")
    ] = None,
    without: Annotated[
        str | None, typer.Option(metavar="N,N", help="Steps to leave out, as shrinking prints.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, max=64, help="How many run at once. Default: all cores.")
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop at the first seed that fails.")
    ] = False,
    shrink: Annotated[
        bool, typer.Option("--shrink/--no-shrink", help="Shorten what fails.")
    ] = True,
) -> Output:
    """Simulate servers, workers, faults and lies from a seed, and check every invariant.

    The same seed always gives the same history. Something that fails is shortened, and the command
    that repeats it is printed.
    """
    chosen = _seeds(seed, count, seeds)
    left_out = _numbers(without)
    results = _run(chosen, steps, left_out, processes, fail_fast=fail_fast)
    failures = [result for result in results if not result.passed]
    if shrink:
        failures = [_shrunk(failure) for failure in failures[:FAILURES_SHOWN_MAX]] + failures[
            FAILURES_SHOWN_MAX:
        ]
    error = None
    if failures:
        error = InvariantBroken(f"{len(failures)} of {pluralize(len(results), 'seed')} failed")
    return Output.of(
        {
            "seeds": len(results),
            "steps": steps,
            "events": sum(result.events for result in results),
            "hash": results[0].hash if len(results) == 1 else None,
            "failures": [_answer(failure) for failure in failures],
        },
        lambda: _show(results, failures),
        error,
    )


def _seeds(seed: int | None, count: int | None, text: str | None) -> range:
    if text is None:
        first = seed or 0
        return range(first, first + (count or 1))
    if seed is not None or count is not None:
        raise InvalidRequest(
            "--seeds already says which seeds", field="seeds", hint="leave out --seed and --count"
        )
    parsed = _RANGE.fullmatch(text)
    if parsed is None or int(parsed[1]) > int(parsed[2]):
        raise InvalidRequest(
            f"seeds: {text!r} is not a range", field="seeds", hint="such as 1..500"
        )
    return range(int(parsed[1]), int(parsed[2]) + 1)


def _numbers(text: str | None) -> list[int]:
    parts = text.split(",") if text else []
    if not all(part.strip().isdecimal() for part in parts):
        raise InvalidRequest(
            f"without: {text!r} is not a list of steps", field="without", hint="such as 3,7,12"
        )
    return [int(part) for part in parts]


def _run(
    seeds: range, steps: int, without: list[int], processes: int | None, *, fail_fast: bool
) -> list[SimulationResult]:
    from shiftboss.simulator.simulation import simulate as simulate_one
    from shiftboss.simulator.simulation import simulate_many

    if len(seeds) == 1 or without:
        return [simulate_one(seed, steps, without) for seed in seeds]
    with _progress_bar(len(seeds)) as advance:
        results = []
        for result in simulate_many(seeds, steps, processes):
            advance()
            results.append(result)
            if fail_fast and not result.passed:
                break
        return sorted(results, key=lambda result: result.seed)


@contextmanager
def _progress_bar(total: int) -> Iterator[Callable[[], None]]:
    """On a terminal, where a person waits for it."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    # rich is imported late: it takes 50 ms.
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("simulating", total=total)
        yield lambda: progress.advance(bar)


def _shrunk(failure: SimulationResult) -> SimulationResult:
    from shiftboss.simulator.shrinking import shrink

    return shrink(failure)


def _answer(failure: SimulationResult) -> dict[str, Any]:
    return {
        "seed": failure.seed,
        "steps": failure.steps,
        "without": failure.without,
        "hash": failure.hash,
        "failed_at": failure.failed_at,
        "broken": [broken._asdict() for broken in failure.broken],
        "trace": failure.trace,
        "command": failure.command,
    }


def _show(results: list[SimulationResult], failures: list[SimulationResult]) -> None:
    for failure in failures[:FAILURES_SHOWN_MAX]:
        print_line(f"seed {failure.seed}, step {failure.failed_at}:")
        for broken in failure.broken[:FAILURES_SHOWN_MAX]:
            print_line(f"  {broken}")
        for line in failure.trace:
            print_line(f"  {line}")
        print_line(f"  repeat: {failure.command}")
    events = sum(result.events for result in results)
    summary = f"{pluralize(len(results), 'seed')}, {pluralize(events, 'event')}"
    if len(results) == 1:
        summary += f", history {results[0].hash}"
    print_line(f"{summary}, {len(failures)} failed" if failures else f"{summary}, nothing broken")
