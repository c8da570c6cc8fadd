"""Measures what an agent uses: memory, processes, disk. Standard library only, like main.py."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from shiftboss.orchestrator.guardian.job import GuardianJob
from shiftboss.system.processes.descendants import descendants, exceeded_limit

FIRST_SECONDS = 1.0
PAUSE_SECONDS_MAX = 30.0
# A walk over the folder is split into steps of this length, with pauses in between: the guardian
# has other work, and so has the machine.
STEP_SECONDS = 0.005
STEP_PAUSE_SECONDS = 0.1
# The pause between two walks is this many times as long as a walk takes.
WALK_SHARE = 50
ENTRIES_PER_LOOK = 64
BLOCK_BYTES = 512


class DiskMeter:
    """Measures the size of a folder in small steps. `due_at` is when `step` has to be called next;
    it is infinite while the agent is idle, because an idle agent adds no files."""

    def __init__(self, folder: str, bytes_max: int, files_max: int) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._walk: Iterator[str | None] | None = None
        self._cost = 0.0
        self._pause = FIRST_SECONDS
        self._next_at = time.monotonic() + FIRST_SECONDS
        self._is_stirred = True

    @property
    def due_at(self) -> float:
        return self._next_at if self._is_stirred or self._walk is not None else float("inf")

    def stir(self) -> None:
        """Called when the agent has done something."""
        self._is_stirred = True

    def hurry(self) -> None:
        """Called when much was written to the disk, perhaps to this folder."""
        self._is_stirred = True
        if self._walk is None:
            soon = time.monotonic() + max(FIRST_SECONDS, WALK_SHARE * self._cost)
            self._next_at = min(self._next_at, soon)

    def step(self) -> str | None:
        """Continue the walk. Returns which limit is exceeded, if one is."""
        before = time.process_time()
        if self._walk is None:
            self._is_stirred = False
            self._cost = 0.0
            self._walk = self._measure()
        for problem in self._walk:
            cost = time.process_time() - before
            if problem is not None or cost > STEP_SECONDS:
                self._cost += cost
                self._next_at = time.monotonic() + STEP_PAUSE_SECONDS
                return problem
        self._cost += time.process_time() - before
        self._walk = None
        self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)
        self._next_at = time.monotonic() + max(self._pause, WALK_SHARE * self._cost)
        return None

    def _measure(self) -> Iterator[str | None]:
        """Counts disk blocks, not file sizes. Links are not followed, and files that disappear
        in the meantime do not count."""
        files = bytes_held = 0
        folders = [self._folder]
        while folders:
            for entry in _entries(folders.pop()):
                files += 1
                bytes_held += _bytes_of(entry)
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                if files > self._files_max:
                    yield f"its folder holds more than {self._files_max} files"
                if bytes_held > self._bytes_max:
                    yield f"its folder holds more than {self._bytes_max >> 20} MB"
                if files % ENTRIES_PER_LOOK == 0:
                    yield None


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        pass


def _bytes_of(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
    except OSError:
        return 0


# How often a busy and an idle agent are checked. With many processes, a check may cost at most one
# part in fifty of a core.
BUSY_SECONDS = 0.25
IDLE_SECONDS = 5.0
CHECK_SHARE = 50
# An agent that uses less of a core than this is idle.
BUSY_CORE_SHARE = 0.02


class LimitExceeded(NamedTuple):
    """The limit for which the agent has to be ended."""

    cause: str
    detail: str = ""


class ResourceUse:
    """Checks the agent periodically: the less it does, the less often."""

    def __init__(self, job: GuardianJob) -> None:
        self._job = job
        self._meter = DiskMeter(job.folder, job.tree_megabytes << 20, job.tree_files)
        self._checked_at = self._check_at = time.monotonic()
        self._pause = BUSY_SECONDS
        self._min_pause = 0.0
        self._cpu_seconds = 0.0
        self._printed = False
        self._free_bytes = 0

    @property
    def due_at(self) -> float:
        return min(self._check_at, self._meter.due_at)

    def printed(self) -> None:
        """Called when the agent has printed something: it is busy."""
        self._printed = True
        self._check_at = min(self._check_at, self._checked_at + max(BUSY_SECONDS, self._min_pause))

    def check(self) -> LimitExceeded | None:
        """The limit that is exceeded, if one is."""
        if time.monotonic() >= self._check_at:
            return self._check_processes() or self._check_disk()
        problem = self._meter.step()
        return None if problem is None else LimitExceeded("disk", problem)

    def _check_processes(self) -> LimitExceeded | None:
        before = time.process_time()
        processes = descendants()
        cause = exceeded_limit(processes, self._job.megabytes, self._job.processes)
        now = time.monotonic()
        cpu_seconds = sum(process.cpu_seconds for process in processes)
        share = abs(cpu_seconds - self._cpu_seconds) / max(now - self._checked_at, BUSY_SECONDS)
        if self._printed or share > BUSY_CORE_SHARE:
            self._meter.stir()
            self._pause = BUSY_SECONDS
        else:
            self._pause = min(2 * self._pause, IDLE_SECONDS)
        self._cpu_seconds, self._printed, self._checked_at = cpu_seconds, False, now
        self._min_pause = CHECK_SHARE * (time.process_time() - before)
        self._check_at = now + max(self._pause, self._min_pause)
        return None if cause is None else LimitExceeded(cause)

    def _check_disk(self) -> LimitExceeded | None:
        """Measure the folder soon if the free space has shrunk by a quarter of its limit."""
        try:
            disk = os.statvfs(self._job.folder)
        except OSError:  # the agent has deleted it
            return None
        free_bytes = disk.f_bavail * disk.f_frsize
        if free_bytes < self._job.free_megabytes << 20:
            return LimitExceeded(
                "disk", f"its disk has less than {self._job.free_megabytes} MB free"
            )
        if free_bytes < self._free_bytes - (self._job.tree_megabytes << 18):
            self._free_bytes = free_bytes
            self._meter.hurry()
        self._free_bytes = max(self._free_bytes, free_bytes)
        return None
