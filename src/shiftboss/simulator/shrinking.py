"""Makes a failing simulation shorter: the shortest prefix, then without the steps that do not
matter."""

from __future__ import annotations

from collections.abc import Callable, Collection

from shiftboss.simulator.simulation import SimulationResult, simulate

TRIES_MAX = 150

Simulate = Callable[[int, int, Collection[int]], SimulationResult]


def shrink(
    failed: SimulationResult, tries: int = TRIES_MAX, run: Simulate = simulate
) -> SimulationResult:
    """The shortest simulation of the seed that was found to break the same invariant."""
    best = failed
    if failed.failed_at is not None and failed.failed_at < failed.steps:
        best = _better(best, run(failed.seed, failed.failed_at + 1, failed.without))
    size = max(1, _kept(best) // 2)
    while tries > 0:
        shorter, used = _without_chunks(best, size, tries, run)
        tries -= used
        if size == 1 and _kept(shorter) == _kept(best):
            break
        best, size = shorter, max(1, size // 2)
    return best


def _without_chunks(
    best: SimulationResult, size: int, tries: int, run: Simulate
) -> tuple[SimulationResult, int]:
    """Leave out so many steps at once, from the last to the first, wherever it still fails."""
    used = 0
    end = best.steps
    while end > 0 and used < tries:
        chunk = [number for number in range(max(0, end - size), end) if number not in best.without]
        if chunk:
            used += 1
            best = _better(best, run(best.seed, best.steps, [*best.without, *chunk]))
        end -= size
    return best, used


def _better(best: SimulationResult, candidate: SimulationResult) -> SimulationResult:
    """The candidate, if it fails in the same way."""
    same = {broken.invariant for broken in best.broken} & {
        broken.invariant for broken in candidate.broken
    }
    if not same:
        return best
    if candidate.failed_at is not None and candidate.failed_at + 1 < candidate.steps:
        candidate.steps = candidate.failed_at + 1
        candidate.without = [number for number in candidate.without if number < candidate.steps]
    return candidate


def _kept(result: SimulationResult) -> int:
    return result.steps - len(result.without)
