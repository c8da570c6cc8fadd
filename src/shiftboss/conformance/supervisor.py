"""Runs the command of a worker and leaves no process of it behind.

A separate program: `supervisor COMMAND ARGUMENT...`. Its input is a lifeline: when it ends, the
command and everything that it started is killed. When none of it is left, it ends with the exit
code of the command: a process that delivers reports after the command belongs to the worker.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

from shiftboss.system.processes.descendants import (
    Children,
    become_subreaper,
    children_of,
    open_signal_pipe,
    read_available,
)

LIFELINE = 0
NOT_FOUND = 127


def main() -> None:
    argv = sys.argv[2:]
    become_subreaper()
    signals = open_signal_pipe(signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    try:
        worker = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        print(f"cannot start {argv[0]}: {error.strerror}", file=sys.stderr)
        os._exit(NOT_FOUND)
    children = Children(worker.pid, signals)
    while LIFELINE not in _ready(signals):
        read_available(signals)
        children.reap()
        if children.exit_code is not None and not children_of(os.getpid()):
            break
    children.end()
    code = children.exit_code
    os._exit(1 if code is None else code if code >= 0 else 128 - code)


def _ready(signals: int) -> list[int]:
    return select.select([LIFELINE, signals], [], [])[0]
