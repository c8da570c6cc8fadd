"""Keeps all threads of the server on one core.

They share an interpreter, so only one of them runs at a time: the event loop hands a report to the
writer thread, and gets its answer back. Between two cores, each step has to wake a core that has
gone to sleep, and both cores fight for the interpreter; on one core it is a thread switch. The bus
then answers a quarter to a half more requests.

A disk may interrupt only one core, and a thread that runs there learns of a finished write a third
sooner. So each core is measured once, and the best is used. When others need that core, the server
moves to the least used one until the best is free again.

A container with a quota of processor time is left alone: the kernel divides the quota over the
cores, and a process that stays on one of them gets in the way of other containers.
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

from shiftboss.system.processes.child_process import call_before_start

FIRST_CHOICE_SECONDS: Final = 1.0
CHOICE_SECONDS: Final = 5.0
# The share of a core that other processes may use before the server leaves it.
OTHERS_SHARE_MAX: Final = 0.25
# The best core must be free in this many checks in a row before the server returns to it.
FREE_CHECKS: Final = 3
TRIAL_ROUNDS = 20
TRIAL_SECONDS_MAX: Final = 0.1

_PAGE: Final = bytes(4096)
_THREADS: Final = Path("/proc/self/task")
_CORE_USAGE: Final = Path("/proc/stat")
_OWN_CGROUPS: Final = Path("/proc/self/cgroup")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_USAGE_LINE: Final = re.compile(r"^cpu(\d+) (.*)$", re.MULTILINE)


def usable_cores() -> frozenset[int]:
    """Empty where a program cannot choose its cores."""
    if not hasattr(os, "sched_getaffinity") or not os.access(_CORE_USAGE, os.R_OK):
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


def has_quota(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> bool:
    """Whether this process gets only so much processor time, as in a container with a limit: by its
    control group or one that contains it, in version 1 or 2."""
    with suppress(OSError, ValueError):
        for line in own.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            names = controllers.split(",")
            if controllers and "cpu" not in names:
                continue
            folders = {cgroups / controllers, cgroups / "cpu"} if controllers else {cgroups}
            if any(_is_limited(folder, path) for folder in folders):
                return True
    return False


def _is_limited(folder: Path, path: str) -> bool:
    # In a container, the path may be one of the host, which does not exist here.
    group = folder / path.lstrip("/")
    return any(_quota(each) for each in (group, *group.parents) if each.is_relative_to(folder))


def _quota(group: Path) -> bool:
    for name in ("cpu.max", "cpu.cfs_quota_us"):
        with suppress(OSError):
            limit = (group / name).read_text(encoding="ascii").split()
            return bool(limit) and limit[0] not in ("max", "-1")
    return False


def let_children_use(cores: Set[int]) -> None:
    """Let processes that the server starts use all these cores.

    A process inherits the cores of the thread that starts it. That thread gets all of them just
    before, and is moved to one again with the next choice.
    """

    def use_all_cores() -> None:
        # An administrator may have taken the cores away.
        with suppress(OSError):
            os.sched_setaffinity(0, cores)

    if len(cores) > 1:
        call_before_start(use_all_cores)


def nearest_core(folder: Path, cores: Set[int]) -> int | None:
    """The core from which writing a page to the disk of `folder` takes the shortest time."""
    if len(cores) < 2:
        return None
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            seconds = _measure(file.fileno(), cores)
    except OSError:
        return None  # the folder does not exist yet, or the disk is full
    finally:
        os.sched_setaffinity(0, cores)
    return min(seconds, key=lambda core: median(seconds[core])) if seconds else None


def _measure(file: int, cores: Set[int]) -> dict[int, list[float]]:
    os.pwrite(file, _PAGE, 0)
    os.fsync(file)
    ends_at = time.monotonic() + TRIAL_SECONDS_MAX
    seconds: dict[int, list[float]] = {}
    for _ in range(TRIAL_ROUNDS):
        for core in cores:
            os.sched_setaffinity(0, {core})
            began_at = time.monotonic()
            os.pwrite(file, _PAGE, 0)
            os.fdatasync(file)
            seconds.setdefault(core, []).append(time.monotonic() - began_at)
            if time.monotonic() > ends_at:
                return seconds
    return seconds


async def stay_on_one_core(cores: Set[int], folder: Path | None) -> None:
    """Runs as long as the server. `cores` are those it may use; it starts on all of them. The
    database is in `folder`, if it is on this machine."""
    best = None if folder is None else await asyncio.to_thread(nearest_core, folder, cores)
    core: int | None = None
    free_checks, seconds = 0, FIRST_CHOICE_SECONDS
    # Where the system reports something unexpected, the threads stay where they are.
    with suppress(OSError, ValueError):
        while len(cores) > 1:
            others = await _usage_by_others(cores, core, seconds)
            is_free = best is not None and others[best] <= OTHERS_SHARE_MAX
            free_checks = free_checks + 1 if is_free else 0
            may_return = free_checks >= FREE_CHECKS or core is None
            core = choose(others, core, best if may_return else None)
            await asyncio.to_thread(_move_threads_to, core)
            # Random, so that two servers on one machine do not choose in step forever.
            seconds = random.uniform(0.5, 1.5) * CHOICE_SECONDS  # noqa: S311 (no secret)


async def _usage_by_others(cores: Set[int], core: int | None, seconds: float) -> dict[int, float]:
    """The share of each core that others use. This process was on `core`; None: on any."""
    before, own_before = await asyncio.to_thread(_seconds_used)
    await asyncio.sleep(seconds)
    after, own_after = await asyncio.to_thread(_seconds_used)
    # A core that was switched off in the meantime has no figures.
    used = {each: after.get(each, 0.0) - before.get(each, 0.0) for each in cores}
    for each in cores if core is None else (core,):
        used[each] -= own_after - own_before
    return {each: used_seconds / seconds for each, used_seconds in used.items()}


def choose(others: Mapping[int, float], core: int | None, best: int | None) -> int:
    """Choose a core by the share of each that others used lately. `core` is the current one, and
    `best` the one to return to if it has been free for a while."""
    for wanted in (best, core):
        if wanted is not None and others[wanted] <= OTHERS_SHARE_MAX:
            return wanted
    return min(others, key=lambda each: others[each])


def _move_threads_to(core: int) -> None:
    """Threads that start later inherit the core of the thread that starts them."""
    for thread in _THREADS.iterdir():
        # The thread may have ended, and an administrator may have taken the core away.
        with suppress(OSError):
            os.sched_setaffinity(int(thread.name), {core})


def _seconds_used() -> tuple[dict[int, float], float]:
    """Of each core by all processes, and of all cores by this process."""
    used = {}
    for core, figures in _USAGE_LINE.findall(_CORE_USAGE.read_text(encoding="ascii")):
        user, nice, system, _idle, _waiting, *interrupted = map(int, figures.split()[:8])
        used[int(core)] = (user + nice + system + sum(interrupted)) / _TICKS_PER_SECOND
    own = os.times()
    return used, own.user + own.system
