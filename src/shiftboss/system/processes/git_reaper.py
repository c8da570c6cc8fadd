"""Kills the git processes of a process that was itself killed.

A separate program, started by git.py as `python -I -S git_reaper.py`. Its input names each git that
is about to start (`?` and its mark, which is in its environment), the process group of each that
has started (`+` and its number, then `!` and the mark) and of each that has ended (`-`). When the
input ends, that process is gone. If it was killed it could not end its git processes, and one that
waits for something waits forever.

Without pathlib, which takes as long to import as everything else here.
"""

from __future__ import annotations

import os
import signal
import sys
import time

# How long a process that was just forked may take until its environment can be read.
START_SECONDS = 2.0
PAUSE_SECONDS = 0.02


def main() -> None:
    groups: set[int] = set()
    starting: set[bytes] = set()
    for line in sys.stdin.buffer:
        kind, value = line[:1], line[1:].strip()
        if kind == b"+":
            groups.add(int(value))
        elif kind == b"-":
            groups.discard(int(value))
        elif kind == b"?":
            starting.add(value)
        else:
            starting.discard(value)
    for group in groups:
        kill(group)
    deadline = time.monotonic() + START_SECONDS
    while starting and os.path.isdir("/proc") and time.monotonic() < deadline:
        for group in marked_groups(starting):
            kill(group)
        time.sleep(PAUSE_SECONDS)


def marked_groups(marks: set[bytes]) -> set[int]:
    """The process groups of the processes that have one of the marks in their environment."""
    groups = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
            if any(mark in environment for mark in marks):
                groups.add(os.getpgid(int(pid)))
        except OSError:
            continue  # it has ended, or belongs to somebody else
    return groups


def kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


if __name__ == "__main__":
    main()
