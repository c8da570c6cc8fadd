"""Simulates many seeds, on all cores."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from functools import partial

from shiftboss.simulator.simulation import SimulationResult, simulate

SEEDS_PER_JOB = 8


def simulate_many(
    seeds: Iterable[int], steps: int, processes: int | None = None
) -> Iterator[SimulationResult]:
    """The results, in the order in which they come. One process runs in this one."""
    processes = processes or len(os.sched_getaffinity(0))
    run = partial(_simulate, steps)
    if processes == 1:
        yield from map(run, seeds)
        return
    # Not forked: the threads of this process would not be there.
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(run, seeds, SEEDS_PER_JOB)


def _simulate(steps: int, seed: int) -> SimulationResult:
    return simulate(seed, steps)
