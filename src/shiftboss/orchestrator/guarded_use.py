"""What an agent uses: memory, processes, disk. The standard library alone, like guardian.py."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from shiftboss.orchestrator.guardian_job import Job
from shiftboss.orchestrator.tree_meter import TreeMeter
from shiftboss.system.processes import descendants, excess

# How often is looked at an agent at work, at one that waits, and how much of a core that may cost
# where there are many processes: one part in fifty.
BUSY_SECONDS = 0.25
IDLE_SECONDS = 5.0
LOOK_SHARE = 50
# Who uses less of a core than this waits.
BUSY_CORE_SHARE = 0.02


class Excess(NamedTuple):
    """Why the agent has to be ended."""

    cause: str
    detail: str = ""


class Use:
    """Looked at now and then: the less the agent does, the more rarely."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._meter = TreeMeter(job.folder, job.tree_megabytes << 20, job.tree_files)
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

    def judge(self) -> Excess | None:
        """What there is too much of."""
        if time.monotonic() >= self._look_at:
            return self._look() or self._judge_disk()
        finding = self._meter.step()
        return None if finding is None else Excess("disk", finding)

    def _look(self) -> Excess | None:
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
        return None if cause is None else Excess(cause)

    def _judge_disk(self) -> Excess | None:
        """When a quarter of what the tree may hold has gone since the last time, it is measured."""
        try:
            disk = os.statvfs(self._job.folder)
        except OSError:  # the agent has deleted it
            return None
        free_bytes = disk.f_bavail * disk.f_frsize
        if free_bytes < self._job.free_megabytes << 20:
            return Excess("disk", f"less than {self._job.free_megabytes} MB are free on its disk")
        if free_bytes < self._free_bytes - (self._job.tree_megabytes << 18):
            self._free_bytes = free_bytes
            self._meter.hurry()
        self._free_bytes = max(self._free_bytes, free_bytes)
        return None
