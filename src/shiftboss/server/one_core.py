"""All threads of the server on one core.

They share an interpreter, so only one of them runs at a time: a report is handed from the event
loop to the thread that writes, and its answer back. Between two cores each of that is the wake-up
of a core that has gone to sleep, and both fight for the interpreter; on one core it is a switch.
The bus answers a quarter to a half more requests that way.

Which core is the system's choice, made anew every few seconds: one that somebody else has begun to
use is left again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from typing import Final

CHOICE_SECONDS: Final = 5.0
# Long enough for the system to move a thread, with all its wake-ups, to where there is room.
FREE_SECONDS: Final = 0.02

_THREADS: Final = Path("/proc/self/task")
_OWN_THREAD: Final = Path("/proc/thread-self/stat")
# Where `man proc_pid_stat` has the core, counted from behind the name, which may hold anything.
_CORE_FIELD: Final = 36


def usable_cores() -> frozenset[int]:
    """None at all where a program cannot choose."""
    if not hasattr(os, "sched_getaffinity") or not _OWN_THREAD.exists():
        return frozenset()
    return frozenset(os.sched_getaffinity(0))


async def stay_on_one_core(cores: Set[int]) -> None:
    """For as long as the server runs. `cores` are those it may use."""
    while len(cores) > 1:
        _keep_to(cores)
        await asyncio.sleep(FREE_SECONDS)
        _keep_to({_current_core()})
        await asyncio.sleep(CHOICE_SECONDS)


def _keep_to(cores: Set[int]) -> None:
    """Threads that begin later are where the one is that begins them."""
    for thread in _THREADS.iterdir():
        # It may have ended; and an administrator may have taken cores away meanwhile.
        with suppress(OSError):
            os.sched_setaffinity(int(thread.name), cores)


def _current_core() -> int:
    _, _, fields = _OWN_THREAD.read_text(encoding="ascii", errors="replace").rpartition(")")
    return int(fields.split()[_CORE_FIELD])
