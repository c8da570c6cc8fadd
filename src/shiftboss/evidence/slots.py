"""Folders of which each is one server's own, where several share a place."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO, NamedTuple

from shiftboss.errors import EvidenceUnavailable

SLOTS_MAX = 64


class Slot(NamedTuple):
    """`lock` is held until it is closed or the process ends."""

    number: int
    lock: IO[str]


def hold_slot(folder: Path) -> Slot:
    """The first that no other process holds: after a crash, the next start gets the same and
    clears what was left in it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(SLOTS_MAX):
        lock = (folder / f"{number}.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
        else:
            return Slot(number, lock)
    raise EvidenceUnavailable(
        f"{SLOTS_MAX} servers use {folder}", hint="give this one a --state of its own"
    )
