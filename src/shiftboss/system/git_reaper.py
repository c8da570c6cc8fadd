"""Ends the gits of a server that was killed.

A program of its own, started by git.py as `python -I -S git_reaper.py`. Its input tells of each
git that is started (`+` and its number) and of each that has ended (`-`). When it ends, the server
is gone: a killed one ends nothing by itself, and a git that waits for something waits for ever.
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
