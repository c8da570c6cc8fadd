"""Which process works on a swarm: the holder of the lock in the folder of its run.

The file names the process that holds the lock, so that others can look at a run, or stop it,
without ever taking the lock themselves. Agents can write to the file, so the kernel is asked
whether that process holds the lock: another one must not be signalled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.system.file_locks import holds_lock
from shiftboss.system.json_files import read_json_object
from shiftboss.system.processes.descendants import start_ticks

LOCK_NAME: Final = "lock"


class RunProcess(NamedTuple):
    """`started` tells the process from a later one with the same id. `role` is the command that it
    is: only a run has agents, and can be watched and stopped."""

    pid: int
    started: int
    role: str = "run"

    @property
    def is_alive(self) -> bool:
        return start_ticks(self.pid) == self.started


def process_of_run(folder: Path) -> RunProcess | None:
    """The process that works on the swarm of this folder, or None."""
    process = _last_process(folder)
    if process is None or not process.is_alive:
        return None
    return process if holds_lock(process.pid, folder / LOCK_NAME) else None


def was_killed(folder: Path) -> bool:
    """Whether the last run of the swarm was killed: it has left its entry in the lock file."""
    process = _last_process(folder)
    return process is not None and process.role == "run" and not process.is_alive


def _last_process(folder: Path) -> RunProcess | None:
    members = read_json_object(folder / LOCK_NAME, {"pid": int, "started": int})
    if members is None:
        return None
    return RunProcess(members["pid"], members["started"], str(members.get("role", "run")))
