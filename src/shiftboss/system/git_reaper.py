"""Kills the git processes of a process that was itself killed.

A separate program, started by git.py as `python -I -S git_reaper.py`. Its input names the process
group of each git that starts (`+` and its number) and of each that has ended (`-`). When the input
ends, that process is gone. If it was killed it could not end its git processes, and one that waits
for something waits forever.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        number = int(line[1:])
        if line.startswith(b"+"):
            groups.add(number)
        else:
            groups.discard(number)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


if __name__ == "__main__":
    main()
