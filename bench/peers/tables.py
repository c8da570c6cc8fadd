"""The tables of what was measured, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bench.peers.results import (
    DISPATCH_P50,
    DISPATCH_P99,
    Results,
    Spread,
    SystemResult,
    cycles,
)
from bench.peers.systems import PRODUCERS

_NOTHING: Final = "–"
_BARE: Final = "skip-locked"


def tables(results: Results) -> str:
    parts = [
        _conditions(results),
        _figures(results),
        _skipped(results),
        "Ours to the others, ratios of the same round:\n",
        _ratios(results),
        "What this machine can do at most, in the same rounds:\n",
        _limits(results),
        "What each system makes durable, and keeps:\n",
        _durability(results),
    ]
    return "\n".join(part for part in parts if part)


def number(value: float) -> str:
    """Three digits, or whole numbers above a hundred."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def with_range(spread: Spread | None) -> str:
    if spread is None:
        return _NOTHING
    shown = number(spread.median)
    low, high = number(spread.low), number(spread.high)
    return shown if low == high else f"{shown} ({low}–{high})"


def _conditions(results: Results) -> str:
    versions = "; ".join(f"{name}: {value}" for name, value in results.conditions.items())
    rounds = f"{results.rounds} round{'s' if results.rounds > 1 else ''}"
    return (
        f"{results.jobs:,} jobs, {results.dispatches} dispatches, {rounds}. Each figure is the"
        f" median of the rounds, with their range in brackets.\n\n{versions}.\n"
    )


def _figures(results: Results) -> str:
    fewest, most = results.workers[0], results.workers[-1]
    named = {
        **{cycles(count): f"cycles/s, {processes(count)}" for count in results.workers},
        cycles(most, PRODUCERS): f"{processes(most)}, {PRODUCERS} producers",
        DISPATCH_P50: f"idle dispatch p50, ms, {processes(fewest)}",
        DISPATCH_P99: "p99, ms",
    }
    rows = [
        [
            f"**{system.title}**" if system.is_ours else system.title,
            "yes" if system.is_durable else "no",
            *(with_range(system.spread(figure)) for figure in named),
        ]
        for system in results.systems
        if system.figures
    ]
    return _table(["system", "durable", *named.values()], rows)


def processes(workers: int) -> str:
    return f"{workers} worker{'s' if workers > 1 else ''}"


def _skipped(results: Results) -> str:
    """What is missing in the tables, and why."""
    failed = [system for system in results.systems if system.failure is not None]
    lines = [f"- {system.title}: {_reason(system)}" for system in failed]
    return "\n".join(["Not measured in every round:\n", *lines, ""]) if lines else ""


def _reason(system: SystemResult) -> str:
    """Without the traceback of a process that ended."""
    return (system.failure or "").splitlines()[-1]


class _Ratio(NamedTuple):
    title: str
    ours: str
    others: list[str]


def _ratios(results: Results) -> str:
    durable = results.durable_peers()
    asked = [
        _Ratio("SQLite, SDK / best durable peer", "sqlite-sdk", durable),
        _Ratio("SQLite, SDK, all at once / best durable peer", "sqlite-sdk-many", durable),
        _Ratio("SQLite, SDK / Huey", "sqlite-sdk", ["huey"]),
        _Ratio("SQLite, SDK / NATS JetStream", "sqlite-sdk", ["nats"]),
        _Ratio("SQLite, SDK / bare HTTP", "sqlite-sdk", ["sqlite-http"]),
        _Ratio("PostgreSQL, SDK / Procrastinate", "postgres-sdk", ["procrastinate"]),
        _Ratio("PostgreSQL, SDK / DBOS", "postgres-sdk", ["dbos"]),
        _Ratio("PostgreSQL, SDK / bare SKIP LOCKED", "postgres-sdk", [_BARE]),
        _Ratio("PostgreSQL, two servers / one, SDK", "postgres-two-sdk", ["postgres-sdk"]),
        _Ratio("PostgreSQL, two servers / one, HTTP", "postgres-two-http", ["postgres-http"]),
    ]
    most = results.workers[-1]
    figures = [*(cycles(count) for count in results.workers), cycles(most, PRODUCERS)]
    rows = [
        [ratio.title, *(with_range(spread) for spread in spreads)]
        for ratio in asked
        if any(spreads := [results.ratio(figure, ratio.ours, ratio.others) for figure in figures])
    ]
    return _table(["ratio of the cycles/s", *figures], rows) if rows else ""


def _limits(results: Results) -> str:
    rows = [
        [limit.name, f"{with_range(Spread.of(limit.values))} {limit.unit}"]
        for limit in results.limits
        if limit.values
    ]
    return _table(["limit", "measured"], rows)


def _durability(results: Results) -> str:
    rows = [[system.title, system.version, system.durability] for system in results.systems]
    return _table(["system", "version", "durability"], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
