"""One simulation: a seed, so many steps, and what was broken at the end. Many seeds use all
cores."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import random
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from shiftboss.coordinator.invariants.facts import BrokenInvariant
from shiftboss.simulator.server import own_tasks
from shiftboss.simulator.steps import draw_step
from shiftboss.simulator.virtual_loop import VirtualLoop
from shiftboss.simulator.world import World
from shiftboss.simulator.world_checks import WorldChecks

STEPS_DEFAULT: Final = 60
# After the last step: everything that is due happens within this time.
CALM_SECONDS: Final = 100.0
# Then every lease that a worker left behind has expired, whatever the clocks did.
CALM_JUMP_MS: Final = 3 * 86_400_000

SEEDS_PER_JOB = 8


@dataclass
class SimulationResult:
    """`failed_at` is the step after which something was broken; None if nothing was."""

    seed: int
    steps: int
    without: list[int]
    hash: str = ""
    events: int = 0
    failed_at: int | None = None
    broken: list[BrokenInvariant] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.broken

    @property
    def command(self) -> str:
        """Repeats this simulation."""
        left_out = f" --without {','.join(map(str, self.without))}" if self.without else ""
        return f"shiftboss simulate --seed {self.seed} --steps {self.steps}{left_out}"


def simulate(
    seed: int, steps: int = STEPS_DEFAULT, without: Collection[int] = ()
) -> SimulationResult:
    """Run the steps of a seed, except those `without`. Stops at the first broken invariant."""
    result = SimulationResult(seed, steps, sorted(without))
    loop = VirtualLoop()
    loop.set_task_factory(own_tasks)
    errors = _Errors(result)
    loop.set_exception_handler(errors.on_loop_error)
    state = random.getstate()
    # Jitter and the choice of polls come from the global source.
    random.seed(seed)
    logger = logging.getLogger("shiftboss")
    level, propagates = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(errors)
    try:
        loop.run_until_complete(_run(result, errors))
    finally:
        logger.removeHandler(errors)
        logger.setLevel(level)
        logger.propagate = propagates
        random.setstate(state)
        loop.close()
    return result


class _Errors(logging.Handler):
    """Errors that nobody sees: logged by a loop that goes on, or raised where nobody waits."""

    def __init__(self, result: SimulationResult) -> None:
        super().__init__(logging.ERROR)
        self.world: World | None = None
        self._result = result

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._note(f"{record.getMessage()}: {error!r}")

    def on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._note(f"{context['message']}: {context.get('exception')!r}")

    def _note(self, detail: str) -> None:
        if self.world is not None:
            self.world.broken.append(BrokenInvariant("error", "", "the log", detail))


async def _run(result: SimulationResult, errors: _Errors) -> None:
    world = World(result.seed)
    checks = WorldChecks(world)
    errors.world = world
    try:
        await world.start()
        for number in range(result.steps):
            if number not in result.without:
                await _step(world, checks, number, result)
            if world.broken:
                break
        else:
            await _calm_down(world, checks, result)
    finally:
        errors.world = None
        result.hash = world.history.hash
        result.events = world.history.events
        result.broken = list(dict.fromkeys(world.broken))
        world.close()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        world.database.close()


async def _step(world: World, checks: WorldChecks, number: int, result: SimulationResult) -> None:
    world.chance.seed(f"{world.seed}/{number}")
    world.pause_seconds = world.chance.expovariate(1 / 5)
    step = draw_step(world)
    world.history.note(f"step {number}: {step.name}")
    result.trace.append(f"{number:4} {asyncio.get_running_loop().time():10.1f} s  {step.name}")
    step.run(world)
    await asyncio.sleep(world.pause_seconds)
    checks.after_step()
    if world.broken:
        result.failed_at = number


async def _calm_down(world: World, checks: WorldChecks, result: SimulationResult) -> None:
    """No more faults: what was left behind is taken up again, and nothing ready is left waiting."""
    world.is_calm = True
    world.network.cut.clear()
    await asyncio.sleep(CALM_SECONDS)
    for server in world.servers:
        server.clock_offset_ms += CALM_JUMP_MS
    await asyncio.sleep(CALM_SECONDS)
    checks.after_step(thoroughly=True)
    checks.nothing_waits()
    checks.packets_are_heard()
    if world.broken:
        result.failed_at = result.steps


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
