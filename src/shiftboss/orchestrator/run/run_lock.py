"""The lock of a run: one orchestrator per swarm, and who it is.

The file names the process that holds the lock, so that others can look at a run, or stop it,
without ever taking the lock themselves.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from shiftboss.errors import Conflict
from shiftboss.orchestrator.run.run_files import read_run_facts
from shiftboss.system.processes import start_ticks

LOCK_NAME: Final = "lock"


Role = Literal["run", "land", "clean"]


class RunProcess(NamedTuple):
    """`started` tells the process from a later one with the same id. `role` is the command that it
    is: only a run has agents, and can be watched and stopped."""

    pid: int
    started: int
    role: str = "run"

    @property
    def is_alive(self) -> bool:
        return start_ticks(self.pid) == self.started


@contextmanager
def hold_run_lock(folder: Path, swarm_id: str, role: Role) -> Iterator[None]:
    """Raises Conflict if another process works on the swarm."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / LOCK_NAME).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _is_held(folder, swarm_id) from None
        lock.truncate(0)
        process = RunProcess(os.getpid(), start_ticks(os.getpid()) or 0, role)
        lock.write(json.dumps(process._asdict()))
        lock.flush()
        try:
            yield
        finally:
            lock.truncate(0)


def _is_held(folder: Path, swarm_id: str) -> Conflict:
    holder = process_of_run(folder)
    if holder is not None and holder.role != "run":
        return Conflict(
            f"`shiftboss {holder.role}` is working on the swarm {swarm_id}, process {holder.pid}",
            hint="wait until it has finished",
        )
    facts = read_run_facts(folder)
    command = f"shiftboss run {shlex.quote(facts.plan)}" if facts is not None and facts.plan else ""
    return Conflict(
        f"another `shiftboss run` is already working on the swarm {swarm_id}",
        hint=f"watch it: {command} --attach; or stop it: {command} --stop"
        if command
        else "wait until it has finished, or stop it first",
    )


def process_of_run(folder: Path) -> RunProcess | None:
    """The process that works on the swarm of this folder, or None."""
    process = _last_process(folder)
    return process if process is not None and process.is_alive else None


def was_killed(folder: Path) -> bool:
    """Whether the last run of the swarm was killed: it has left its entry in the lock file."""
    process = _last_process(folder)
    return process is not None and process.role == "run" and not process.is_alive


def _last_process(folder: Path) -> RunProcess | None:
    try:
        members = json.loads((folder / LOCK_NAME).read_text())
        role = str(members.get("role", "run"))
        return RunProcess(int(members["pid"]), int(members["started"]), role)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
