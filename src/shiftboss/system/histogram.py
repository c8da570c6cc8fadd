"""A histogram for the hot path: plain numbers, read now and then to show them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple


class Exemplar(NamedTuple):
    """An observation that can be looked up elsewhere, by the id of its trace."""

    trace_id: str
    value: float


class Histogram:
    """`counts` has one bucket for each bound (observations up to it, above the one before), and a
    last one for what is larger. Each bucket remembers its newest exemplar."""

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.exemplars: dict[int, Exemplar] = {}

    def observe(self, value: float, trace_id: str | None = None) -> None:
        bucket = bisect_left(self.bounds, value)
        self.counts[bucket] += 1
        self.total += value
        if trace_id is not None:
            self.exemplars[bucket] = Exemplar(trace_id, value)

    def copy(self) -> Histogram:
        twin = Histogram(self.bounds)
        twin.counts, twin.total = list(self.counts), self.total
        twin.exemplars = dict(self.exemplars)
        return twin
