"""Killing processes whose supervisor is gone, found by a variable that they inherited from it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

from shiftboss.system.processes.descendants import all_pids, parent_of, send_signal

_SWEEP_SECONDS: Final = 6.0
_TERM_SECONDS: Final = 2.0
_PAUSE_SECONDS: Final = 0.02


def end_marked(variable: str, mark: str) -> int:
    """Kill all processes that carry the mark, until there are none, and return their number.

    The mark is a value of the variable or, with a slash at its end, a prefix of such values. This
    process and its ancestors are spared. The environment of a guardian cannot be read: it carries
    the mark as an argument. Guardians get a SIGTERM first, because they know descendants that
    cannot be seen from here.
    """
    entry = f"{variable}={mark}".encode()
    spared = set(_ancestry(os.getpid()))
    killed: set[int] = set()
    started_at = time.monotonic()
    waited = 0.0
    while waited < _SWEEP_SECONDS:
        others = [pid for pid in all_pids() if pid not in spared]
        marked = [pid for pid in others if _carries(pid, "environ", entry)]
        guardians = [pid for pid in others if _carries(pid, "cmdline", entry)]
        if not marked and not guardians:
            break
        for pid in guardians:
            send_signal(pid, signal.SIGTERM if waited < _TERM_SECONDS else signal.SIGKILL)
        for pid in marked:
            send_signal(pid, signal.SIGKILL)
        killed.update(marked)
        time.sleep(_PAUSE_SECONDS)
        waited = time.monotonic() - started_at
    return len(killed)


def _carries(pid: int, file: str, entry: bytes) -> bool:
    values = _proc_values(pid, file)
    if entry.endswith(b"/"):
        return any(value.startswith(entry) for value in values)
    return entry in values


def _proc_values(pid: int, file: str) -> list[bytes]:
    try:
        return Path("/proc", str(pid), file).read_bytes().split(b"\0")
    except OSError:
        return []


def _ancestry(pid: int) -> list[int]:
    """The process itself, its parent, and so on."""
    ancestry: list[int] = []
    while pid > 0 and pid not in ancestry:
        ancestry.append(pid)
        pid = parent_of(pid)
    return ancestry
