"""The lock of a run: one orchestrator per swarm. `attempts.run_process` tells who has it."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from shiftboss.attempts.run_process import LOCK_NAME, RunProcess, process_of_run
from shiftboss.errors import Conflict
from shiftboss.orchestrator.run.run_files import read_run_facts
from shiftboss.system.processes.descendants import start_ticks
from shiftboss.system.state_folder import BadStateFolder

Role = Literal["run", "land", "clean"]


@contextmanager
def hold_run_lock(folder: Path, swarm_id: str, role: Role) -> Iterator[None]:
    """Raises Conflict if another process works on the swarm, or BadStateFolder."""
    with _open_lock(folder) as lock:
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


def _open_lock(folder: Path) -> IO[str]:
    """The file is emptied and written, so a link that an agent has put there is not followed."""
    path = folder / LOCK_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return open(path, "a", encoding="utf-8", opener=_open_own)
    except OSError as error:
        raise BadStateFolder(
            f"the lock {path} cannot be used: {error.strerror}",
            field="state",
            hint="the folder has to be writable for you; if the lock is a link or a pipe: "
            f"rm {shlex.quote(str(path))}",
        ) from error


def _open_own(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


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
