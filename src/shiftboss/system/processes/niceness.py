"""Lowering the scheduling priority of background work, so that requests to the server go first."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from typing import Final

# About a third of the processor time of the others: on a machine full of builds a verdict must
# still come in time.
NICENESS: Final = 10
SLICE_NANOSECONDS: Final = 100_000_000

_SCHED_SETATTR: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
# The kernel's struct sched_attr: size, policy, flags, niceness, priority, slice and two others.
_SCHED_ATTR: Final = struct.Struct("=IIQiIQQQ")


def lower_priority(pid: int = 0) -> None:
    """Lower the priority of a process, by default of this one and all that it starts later."""
    niceness = max(NICENESS, os.getpriority(os.PRIO_PROCESS, pid))
    os.setpriority(os.PRIO_PROCESS, pid, niceness)


def lengthen_time_slices() -> None:
    """Let this process, and those that it starts, run longer at a time and be preempted by others.

    Niceness decides how much processor time a process gets, not when: Linux lets a process finish
    its slice of some milliseconds before one that wakes up runs, unless the latter asked for a
    shorter slice. Has no effect on other systems, nor on a Linux before 6.12.
    """
    call = _SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or call is None:
        return
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SCHED_ATTR.pack(
        _SCHED_ATTR.size, os.SCHED_OTHER, 0, niceness, 0, SLICE_NANOSECONDS, 0, 0
    )
    ctypes.CDLL(None).syscall(call, 0, attributes, 0)
