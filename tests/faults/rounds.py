"""Rounds of faults, and the table of what became of them."""

from __future__ import annotations

import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Protocol


class World(Protocol):
    """Processes under load. `round` strikes once and raises AssertionError if something is lost,
    there twice, or stands still."""

    name: str
    faults: Mapping[str, Callable[[], None]]

    def __init__(self, folder: Path, random: Random) -> None: ...

    def round(self, kind: str) -> None: ...

    def close(self) -> None: ...


class FaultTable:
    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.failures: list[str] = []
        self.events = 0

    def add(self, world: str, kind: str, seconds: float) -> None:
        self._seconds[world, kind].append(seconds)

    @property
    def rounds(self) -> int:
        return sum(map(len, self._seconds.values()))

    def show(self) -> None:
        print("\n| system | fault | rounds | longest round |\n|---|---|---|---|")
        for (world, kind), seconds in self._seconds.items():
            print(f"| {world} | {kind} | {len(seconds)} | {max(seconds):.1f} s |")
        print(
            f"\n{self.rounds} rounds, {self.events} events read: "
            f"{len(self.failures)} with something lost, doubled or missing"
        )
        for failure in self.failures:
            print(f"- {failure}")


def play(
    world_type: type[World], folder: Path, random: Random, rounds: int, table: FaultTable
) -> None:
    """Every kind comes before one comes again. After a failure the world is built anew."""
    world: World | None = None
    left: list[str] = []
    number = 0
    while number < rounds:
        number += 1
        if world is None:
            own = folder / f"world-{number}"
            own.mkdir()
            world = world_type(own, random)
        if not left:
            left = random.sample(sorted(world.faults), len(world.faults))
        kind = left.pop()
        started_at = time.monotonic()
        try:
            world.round(kind)
        except (AssertionError, OSError) as error:
            table.failures.append(f"{world.name}, round {number}, {kind}: {error!r}"[:2000])
            traceback.print_exc()
            _end(world, table)
            world = None
        table.add(world_type.name, kind, time.monotonic() - started_at)
        print(f"{world_type.name}: {number} of {rounds}, {kind}", flush=True)
    if world is not None:
        _end(world, table)


def _end(world: World, table: FaultTable) -> None:
    """What is left to check at the end of a world may fail too."""
    history = getattr(world, "history", None)
    table.events += history.events if history is not None else 0
    try:
        world.close()
    except (AssertionError, OSError) as error:
        table.failures.append(f"{world.name}, at its end: {error!r}"[:2000])
        traceback.print_exc()
