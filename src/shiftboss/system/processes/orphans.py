"""Orphans that this process has adopted: what a killed supervisor of a command leaves behind.

A command without a sandbox can kill its supervisor, and its daemons may have scrubbed the variable
that would identify them. If this process is the parent of every orphan below it (Linux), they are
found all the same: they are children of this process that it did not start. Everything that a
supervisor starts is in a session of its own, and no process can enter the session of another.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from shiftboss.system.processes.descendants import (
    END_SECONDS,
    become_subreaper,
    children_of,
    send_signal,
)

_PAUSE_SECONDS: Final = 0.02


class Orphans:
    """Knows which children in other sessions are ours. Does nothing unless `adopt` was called."""

    def __init__(self) -> None:
        self._adopts = False
        self._kept: set[int] = set()
        self._starts = 0

    def adopt(self) -> None:
        """Become the parent of every orphan. Only for a process whose children in other sessions
        are all started within `starting`, or kept."""
        become_subreaper()
        self._adopts = True

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While a child is started that is not kept yet."""
        self._starts += 1
        try:
            yield
        finally:
            self._starts -= 1

    def keep(self, pid: int) -> None:
        self._kept.add(pid)

    def forget(self, pid: int) -> None:
        self._kept.discard(pid)

    async def end(self) -> None:
        """Kill all orphans, and those that they leave behind, until there are none."""
        deadline = time.monotonic() + END_SECONDS
        while self._adopts and time.monotonic() < deadline:
            if self._starts == 0:
                orphans = self._list()
                for pid in orphans:
                    send_signal(pid, signal.SIGKILL)
                    _reap(pid)
                if not orphans:
                    return
            await asyncio.sleep(_PAUSE_SECONDS)

    def reap(self) -> None:
        """Reap orphans that have ended by themselves, such as a git that worked in the
        background."""
        if self._adopts and self._starts == 0:
            for pid in self._list():
                _reap(pid)

    def _list(self) -> list[int]:
        own = os.getsid(0)
        children = [pid for pid in children_of(os.getpid()) if pid not in self._kept]
        return [pid for pid in children if _session(pid) not in (own, None)]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


# One per process, because a process has one set of children.
ORPHANS: Final = Orphans()
