"""What an agent uses: memory, processes, disk. The standard library alone, like guardian.py."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from shiftboss.orchestrator.guardian.job import GuardianJob
from shiftboss.system.processes import descendants, excess

# How much a folder holds, found out a little at a time. The standard library alone, like
# guardian.py.


FIRST_SECONDS = 1.0
PAUSE_SECONDS_MAX = 30.0
# A walk goes in steps, each of which may take this long, with a pause in between: the guardian has
# other things to do, and so has the machine.
STEP_SECONDS = 0.005
STEP_PAUSE_SECONDS = 0.1
# The pause between two walks, in costs of a walk.
WALK_SHARE = 50
ENTRIES_PER_LOOK = 64
BLOCK_BYTES = 512


class DiskMeter:
    """`due_at` is when `step` wants to be called, if at all: who does nothing adds no files."""

    def __init__(self, folder: str, bytes_max: int, files_max: int) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._walk: Iterator[str | None] | None = None
        self._cost = 0.0
        self._pause = FIRST_SECONDS
        self._next_at = time.monotonic() + FIRST_SECONDS
        self._stirred = True

    @property
    def due_at(self) -> float:
        return self._next_at if self._stirred or self._walk is not None else float("inf")

    def stir(self) -> None:
        """The agent has done something since the last walk began."""
        self._stirred = True

    def hurry(self) -> None:
        """Much was written, perhaps here."""
        self._stirred = True
        if self._walk is None:
            soon = time.monotonic() + max(FIRST_SECONDS, WALK_SHARE * self._cost)
            self._next_at = min(self._next_at, soon)

    def step(self) -> str | None:
        """Go on. What there is too much of, in words, when that is known."""
        before = time.process_time()
        if self._walk is None:
            self._stirred = False
            self._cost = 0.0
            self._walk = self._walking()
        for finding in self._walk:
            cost = time.process_time() - before
            if finding is not None or cost > STEP_SECONDS:
                self._cost += cost
                self._next_at = time.monotonic() + STEP_PAUSE_SECONDS
                return finding
        self._cost += time.process_time() - before
        self._walk = None
        self._pause = min(2 * self._pause, PAUSE_SECONDS_MAX)
        self._next_at = time.monotonic() + max(self._pause, WALK_SHARE * self._cost)
        return None

    def _walking(self) -> Iterator[str | None]:
        """Space as the disk counts it. Links are not followed; what goes meanwhile is not there."""
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


# How often is looked at an agent at work, at one that waits, and how much of a core that may cost
# where there are many processes: one part in fifty.
BUSY_SECONDS = 0.25
IDLE_SECONDS = 5.0
LOOK_SHARE = 50
# Who uses less of a core than this waits.
BUSY_CORE_SHARE = 0.02


class LimitExceeded(NamedTuple):
    """Why the agent has to be ended."""

    cause: str
    detail: str = ""


class ResourceUse:
    """Looked at now and then: the less the agent does, the more rarely."""

    def __init__(self, job: GuardianJob) -> None:
        self._job = job
        self._meter = DiskMeter(job.folder, job.tree_megabytes << 20, job.tree_files)
        self._looked_at = self._look_at = time.monotonic()
        self._pause = BUSY_SECONDS
        self._rest = 0.0
        self._cpu_seconds = 0.0
        self._printed = False
        self._free_bytes = 0

    @property
    def due_at(self) -> float:
        return min(self._look_at, self._meter.due_at)

    def printed(self) -> None:
        """It is at work."""
        self._printed = True
        self._look_at = min(self._look_at, self._looked_at + max(BUSY_SECONDS, self._rest))

    def judge(self) -> LimitExceeded | None:
        """What there is too much of."""
        if time.monotonic() >= self._look_at:
            return self._look() or self._judge_disk()
        finding = self._meter.step()
        return None if finding is None else LimitExceeded("disk", finding)

    def _look(self) -> LimitExceeded | None:
        before = time.process_time()
        processes = descendants()
        cause = excess(processes, self._job.megabytes, self._job.processes)
        now = time.monotonic()
        cpu_seconds = sum(process.cpu_seconds for process in processes)
        share = abs(cpu_seconds - self._cpu_seconds) / max(now - self._looked_at, BUSY_SECONDS)
        if self._printed or share > BUSY_CORE_SHARE:
            self._meter.stir()
            self._pause = BUSY_SECONDS
        else:
            self._pause = min(2 * self._pause, IDLE_SECONDS)
        self._cpu_seconds, self._printed, self._looked_at = cpu_seconds, False, now
        self._rest = LOOK_SHARE * (time.process_time() - before)
        self._look_at = now + max(self._pause, self._rest)
        return None if cause is None else LimitExceeded(cause)

    def _judge_disk(self) -> LimitExceeded | None:
        """When a quarter of what the tree may hold has gone since the last time, it is measured."""
        try:
            disk = os.statvfs(self._job.folder)
        except OSError:  # the agent has deleted it
            return None
        free_bytes = disk.f_bavail * disk.f_frsize
        if free_bytes < self._job.free_megabytes << 20:
            return LimitExceeded(
                "disk", f"less than {self._job.free_megabytes} MB are free on its disk"
            )
        if free_bytes < self._free_bytes - (self._job.tree_megabytes << 18):
            self._free_bytes = free_bytes
            self._meter.hurry()
        self._free_bytes = max(self._free_bytes, free_bytes)
        return None
