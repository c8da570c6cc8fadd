"""The end of processes whose guardian is gone: they are known by a variable that they inherit."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

from shiftboss.system.processes import parent_of, process_numbers, send

_SWEEP_SECONDS: Final = 6.0
_PATIENCE_SECONDS: Final = 2.0
_SWEEP_PAUSE_SECONDS: Final = 0.02


def end_marked(variable: str, mark: str) -> int:
    """End those who carry the mark, until there are none, and say how many they were.

    It is a value of the variable, or, with a slash at its end, what such values begin with. This
    process and those above it are spared. A guardian has no environment that could be read: it
    carries the mark as an argument. It is asked first, because it knows of more than we see.
    """
    entry = f"{variable}={mark}".encode()
    spared = set(_lineage(os.getpid()))
    ended: set[int] = set()
    started_at = time.monotonic()
    waited = 0.0
    while waited < _SWEEP_SECONDS:
        others = [pid for pid in process_numbers() if pid not in spared]
        marked = [pid for pid in others if _carries(pid, "environ", entry)]
        guardians = [pid for pid in others if _carries(pid, "cmdline", entry)]
        if not marked and not guardians:
            break
        for pid in guardians:
            send(pid, signal.SIGTERM if waited < _PATIENCE_SECONDS else signal.SIGKILL)
        for pid in marked:
            send(pid, signal.SIGKILL)
        ended.update(marked)
        time.sleep(_SWEEP_PAUSE_SECONDS)
        waited = time.monotonic() - started_at
    return len(ended)


def _carries(pid: int, name: str, entry: bytes) -> bool:
    parts = _parts(pid, name)
    if entry.endswith(b"/"):
        return any(part.startswith(entry) for part in parts)
    return entry in parts


def _parts(pid: int, name: str) -> list[bytes]:
    try:
        return Path("/proc", str(pid), name).read_bytes().split(b"\0")
    except OSError:
        return []


def _lineage(pid: int) -> list[int]:
    """The process itself, its parent, and so on."""
    found = []
    while pid > 0 and pid not in found:
        found.append(pid)
        pid = parent_of(pid)
    return found
