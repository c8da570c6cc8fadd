"""All threads of the server on one core.

They share an interpreter, so only one of them runs at a time: a report is handed from the event
loop to the thread that writes, and its answer back. Between two cores each of that is the wake-up
of a core that has gone to sleep, and both fight for the interpreter; on one core it is a switch.
The bus answers a quarter to a half more requests that way.

A disk may report to one core alone, and a third sooner to who runs there; so each is tried once,
and the best is used. A core that others have begun to need is left for the one that is needed
least, until it is free again.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import tempfile
import time
from collections.abc import Mapping, Set
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Final

FIRST_LOOK_SECONDS: Final = 1.0
CHOICE_SECONDS: Final = 5.0
# The share of a core that others may use before it is left.
OF_OTHERS_MAX: Final = 0.25
# So often a core that was left has to be found free before it is taken again.
CALM_LOOKS: Final = 3
TRIAL_ROUNDS: Final = 20
TRIAL_SECONDS_MAX: Final = 0.1

_PAGE: Final = bytes(4096)
_THREADS: Final = Path("/proc/self/task")
_ALL_CORES: Final = Path("/proc/stat")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PER_CORE: Final = re.compile(r"^cpu(\d+) (.*)$", re.MULTILINE)


def usable_cores() -> frozenset[int]:
    """None at all where a program cannot choose."""
    if not hasattr(os, "sched_getaffinity") or not os.access(_ALL_CORES, os.R_OK):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


def nearest_core(folder: Path, cores: Set[int]) -> int | None:
    """The one from which a page is on the disk of `folder` soonest, by trial."""
    if len(cores) < 2:
        return None
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            times = _try(file.fileno(), cores)
    except OSError:
        return None  # it is not there yet, or full
    finally:
        os.sched_setaffinity(0, cores)
    return min(times, key=lambda core: median(times[core])) if times else None


def _try(file: int, cores: Set[int]) -> dict[int, list[float]]:
    os.pwrite(file, _PAGE, 0)
    os.fsync(file)
    ends_at = time.monotonic() + TRIAL_SECONDS_MAX
    times: dict[int, list[float]] = {}
    for _ in range(TRIAL_ROUNDS):
        for core in cores:
            os.sched_setaffinity(0, {core})
            began_at = time.monotonic()
            os.pwrite(file, _PAGE, 0)
            os.fdatasync(file)
            times.setdefault(core, []).append(time.monotonic() - began_at)
            if time.monotonic() > ends_at:
                return times
    return times


async def stay_on_one_core(cores: Set[int], best: int | None) -> None:
    """For as long as the server runs. `cores` are those it may use; it begins with all."""
    core: int | None = None
    calm_looks, seconds = 0, FIRST_LOOK_SECONDS
    # Where the system tells something else than it should, all stays as it is.
    with suppress(OSError, ValueError):
        while len(cores) > 1:
            others = await _look(cores, core, seconds)
            is_calm = best is not None and others[best] <= OF_OTHERS_MAX
            calm_looks = calm_looks + 1 if is_calm else 0
            core = choose(others, core, best if calm_looks >= CALM_LOOKS or core is None else None)
            await asyncio.to_thread(_keep_to, core)
            # Two servers on one machine must not choose in step with each other for ever.
            seconds = random.uniform(0.5, 1.5) * CHOICE_SECONDS  # noqa: S311 (no secret)


async def _look(cores: Set[int], core: int | None, seconds: float) -> dict[int, float]:
    """How much of each core others use. This process was on `core`, or may have been anywhere."""
    before, own_before = await asyncio.to_thread(_seconds_used)
    await asyncio.sleep(seconds)
    after, own_after = await asyncio.to_thread(_seconds_used)
    # A core that has been switched off meanwhile has no figures.
    used = {one: after.get(one, 0.0) - before.get(one, 0.0) for one in cores}
    for one in cores if core is None else (core,):
        used[one] -= own_after - own_before
    return {one: of_one / seconds for one, of_one in used.items()}


def choose(others: Mapping[int, float], core: int | None, best: int | None) -> int:
    """From how much of each core others used lately, the one that the server keeps to, and the best
    one, if that has been free for a while."""
    for wanted in (best, core):
        if wanted is not None and others[wanted] <= OF_OTHERS_MAX:
            return wanted
    return min(others, key=lambda one: others[one])


def _keep_to(core: int) -> None:
    """Threads that begin later are where the one is that begins them."""
    for thread in _THREADS.iterdir():
        # It may have ended; and an administrator may have taken the core away meanwhile.
        with suppress(OSError):
            os.sched_setaffinity(int(thread.name), {core})


def _seconds_used() -> tuple[dict[int, float], float]:
    """Of each core by everybody, and of all by this process."""
    used = {}
    for core, figures in _PER_CORE.findall(_ALL_CORES.read_text(encoding="ascii")):
        user, nice, system, _idle, _waiting, *interrupted = map(int, figures.split()[:8])
        used[int(core)] = (user + nice + system + sum(interrupted)) / _TICKS_PER_SECOND
    own = os.times()
    return used, own.user + own.system
