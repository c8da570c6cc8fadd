"""Standing back behind whoever waits for an answer of the server, without standing still."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from typing import Final

# A third of what others get: a machine full of builds must still come to a verdict in time.
NICENESS: Final = 10

SLICE_NANOSECONDS: Final = 100_000_000
_SET_ATTRIBUTES: Final = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
# The kernel's struct sched_attr: size, policy, flags, niceness, priority, slice and two others.
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")


def stand_back(pid: int = 0) -> None:
    """This process and what it starts from now on, or another."""
    niceness = max(NICENESS, os.getpriority(os.PRIO_PROCESS, pid))
    os.setpriority(os.PRIO_PROCESS, pid, niceness)


def take_long_turns() -> None:
    """Have this process, and what it starts, run longer at a time and be interrupted by others.

    Niceness says who gets how much. It does not say when: Linux lets a process finish its turn of
    some milliseconds before one that wakes up goes on, unless that one asked for shorter turns. So
    this is asked for. Other systems, and a Linux that is older than 6.12, do as they always did.
    """
    call = _SET_ATTRIBUTES.get(platform.machine())
    if sys.platform != "linux" or call is None:
        return
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    wish = _ATTRIBUTES.pack(
        _ATTRIBUTES.size, os.SCHED_OTHER, 0, niceness, 0, SLICE_NANOSECONDS, 0, 0
    )
    ctypes.CDLL(None).syscall(call, 0, wish, 0)
