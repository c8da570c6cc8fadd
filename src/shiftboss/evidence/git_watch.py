"""Seeing to it that no git outlives this process, however it ends.

Linux could send a git a signal when its parent dies, but not to what that git has started. So there
is one small process that knows the groups of all of them; see lifeline.py.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_LIFELINE: Final = str(Path(__file__).with_name("lifeline.py"))


class GitWatch:
    """To tell takes microseconds. The first to tell starts the process; so does the next after
    somebody ended it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._pipe: int | None = None

    def began(self, group: int) -> None:
        with self._lock:
            self._groups.add(group)
            self._tell(f"+{group}\n")

    def ended(self, group: int) -> None:
        with self._lock:
            self._groups.discard(group)
            self._tell(f"-{group}\n")

    def _tell(self, line: str) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, line.encode())
            except BlockingIOError:
                pass  # it was stopped from outside, and does not read
            except BrokenPipeError:
                os.close(self._pipe)
                self._pipe = None
        if self._pipe is None:
            self._pipe = _start(self._groups)


def _start(groups: Iterable[int]) -> int:
    """The end of the pipe that keeps it waiting."""
    its_end, our_end = os.pipe()
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", _LIFELINE],
        {},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, its_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        # What is sent to everybody at a terminal is not meant for it.
        setsid=sys.platform == "linux",
    )
    os.close(its_end)
    os.set_blocking(our_end, False)
    os.write(our_end, "".join(f"+{one}\n" for one in groups).encode())
    return our_end


# One for the process: it is about the end of the process.
WATCH: Final = GitWatch()
