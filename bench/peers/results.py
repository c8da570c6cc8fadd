"""What was measured, round by round, and what follows from it: medians, spreads, ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from pydantic import BaseModel, Field


class Spread(NamedTuple):
    """The median of the rounds, and the range that they cover."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(median(values), min(values), max(values))


class SystemResult(BaseModel):
    """One value per round and figure. The names of figures are below, and from `cycles`."""

    name: str
    title: str
    version: str = ""
    durability: str
    is_durable: bool
    is_ours: bool
    figures: dict[str, list[float]] = Field(default={})
    # Why it was not measured, or not in full.
    failure: str | None = None

    def add(self, figure: str, value: float) -> None:
        self.figures.setdefault(figure, []).append(value)

    def spread(self, figure: str) -> Spread | None:
        values = self.figures.get(figure)
        return Spread.of(values) if values else None


class Limit(BaseModel):
    """What the machine can do at most, measured in every round as well."""

    name: str
    unit: str
    values: list[float] = Field(default=[])


class Results(BaseModel):
    conditions: dict[str, str]
    jobs: int
    dispatches: int
    rounds: int
    # The numbers of worker processes, the smallest first.
    workers: list[int]
    systems: list[SystemResult] = Field(default=[])
    limits: list[Limit] = Field(default=[])

    def system(self, name: str) -> SystemResult | None:
        return next((system for system in self.systems if system.name == name), None)

    def ratio(self, figure: str, ours: str, others: Iterable[str]) -> Spread | None:
        """Ours to the best of the others, round by round: what was fast or slow in a round was so
        for both."""
        above = self._values(ours, figure)
        below = [values for name in others if (values := self._values(name, figure))]
        if not above or not below:
            return None
        best = [max(values) for values in zip(*below, strict=False)]
        return Spread.of([mine / other for mine, other in zip(above, best, strict=False)])

    def _values(self, name: str, figure: str) -> list[float]:
        system = self.system(name)
        return system.figures.get(figure, []) if system else []

    def durable_peers(self) -> list[str]:
        return [system.name for system in self.systems if system.is_durable and not system.is_ours]


DISPATCH_P50 = "dispatch p50 ms"
DISPATCH_P99 = "dispatch p99 ms"


def cycles(workers: int, producers: int = 1) -> str:
    """The name of the figure."""
    name = f"cycles/s, {workers} worker{'s' if workers > 1 else ''}"
    return name if producers == 1 else f"{name}, {producers} producers"
