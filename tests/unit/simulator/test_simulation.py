"""The simulator: deterministic, replayable, and quiet where nothing is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from shiftboss.coordinator.invariants.facts import BrokenInvariant
from shiftboss.simulator.chance import Profile
from shiftboss.simulator.shrinking import shrink
from shiftboss.simulator.simulation import SimulationResult, simulate, simulate_many
from shiftboss.simulator.virtual_loop import NothingLeftToDo, VirtualLoop

# Together about eight seconds of processor time. `make sim` runs ten thousand longer ones.
SEEDS = 200
SEEDS_PER_TEST = 25
STEPS = 8


@pytest.mark.requirement("OWN-09")
@pytest.mark.seconds
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_no_seed_breaks_an_invariant(first: int) -> None:
    seeds = range(10_000 + first, 10_000 + first + SEEDS_PER_TEST)
    failed = [result for result in simulate_many(seeds, STEPS, processes=1) if not result.passed]
    assert [(failure.command, failure.broken) for failure in failed] == []


@pytest.mark.requirement("OWN-09")
def test_a_seed_gives_the_same_history_every_time() -> None:
    first, again = simulate(3, 40), simulate(3, 40)
    assert first.events > 20
    assert (first.hash, first.events, first.trace) == (again.hash, again.events, again.trace)


def test_another_seed_gives_another_history() -> None:
    assert simulate(7, 10).hash != simulate(8, 10).hash


def test_a_longer_simulation_begins_with_the_shorter_one() -> None:
    names = [[line.split()[-1] for line in simulate(9, steps).trace] for steps in (5, 9)]
    assert names[1][:5] == names[0]


def test_steps_can_be_left_out() -> None:
    kept = [int(line.split()[0]) for line in simulate(9, 8, without=[1, 4]).trace]
    assert kept == [0, 2, 3, 5, 6, 7]


def test_seeds_differ_in_what_they_try() -> None:
    profiles = [Profile.of_seed(seed) for seed in range(50)]
    assert {profile.servers for profile in profiles} == {1, 2}
    assert {profile.packets for profile in profiles} == {True, False}
    assert any(profile.crashes_in_commits for profile in profiles)
    assert not all(profile.lies for profile in profiles)


def test_a_failure_is_shrunk_to_the_steps_that_matter() -> None:
    """Of forty steps, the failure needs the fourth and the eighteenth."""
    tried: list[int] = []

    def run(seed: int, steps: int, without: Collection[int] = ()) -> SimulationResult:
        tried.append(steps - len(without))
        result = SimulationResult(seed, steps, sorted(without))
        if steps > 17 and not {3, 17} & set(without):
            result.failed_at = 17
            result.broken = [BrokenInvariant("fold", "default", "task t", "differs")]
        return result

    shortest = shrink(run(1, 40), run=run)
    assert (shortest.steps, shortest.failed_at) == (18, 17)
    assert set(range(18)) - set(shortest.without) == {3, 17}
    assert shortest.command == (
        "shiftboss simulate --seed 1 --steps 18 --without 0,1,2,4,5,6,7,8,9,10,11,12,13,14,15,16"
    )


def test_a_failure_that_cannot_be_shrunk_stays_as_it_is() -> None:
    def run(seed: int, steps: int, without: Collection[int] = ()) -> SimulationResult:
        return SimulationResult(seed, steps, sorted(without))

    failed = SimulationResult(1, 5, [], failed_at=5)
    failed.broken = [BrokenInvariant("idle", "default", "task t", "is ready")]
    assert shrink(failed, run=run) is failed


# -- the loop


def test_waiting_takes_no_real_time_and_keeps_the_order() -> None:
    woken: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        woken.append((name, asyncio.get_running_loop().time()))

    async def run() -> None:
        await asyncio.gather(wait("late", 86_400), wait("soon", 1), wait("also soon", 1))

    loop = VirtualLoop()
    loop.run_until_complete(run())
    loop.close()
    assert woken == [("soon", 1), ("also soon", 1), ("late", 86_400)]


def test_waiting_for_what_can_never_happen_is_an_error() -> None:
    loop = VirtualLoop()
    waiting = loop.create_future()
    with pytest.raises(NothingLeftToDo):
        loop.run_until_complete(waiting)
    loop.close()
