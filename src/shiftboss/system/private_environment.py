"""Keeping the secrets of a process from the other processes of the same user.

Code under test runs as the user of the server where no sandbox contains it. Linux shows it the
environment that a process was started with, in /proc/PID/environ. So a process with secrets denies
inspection and blanks that memory; and it starts its own children without secrets and sends the
environment when they have done the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Final

from shiftboss.system.processes.descendants import deny_inspection

# Processes of agents and of commands are found by these, in /proc/PID/environ, and killed. What
# such a process knows, the agent or the command knows as well.
_MARKS: Final = ("SHIFTBOSS_RUN", "SHIFTBOSS_COMMAND")
# What is read while a process starts, by the interpreter, its libraries and the options of a
# command. None of these is a secret.
_STARTING: Final = frozenset(
    {
        "DYLD_LIBRARY_PATH",
        "GLIBC_TUNABLES",
        "HOME",
        "LANG",
        "LANGUAGE",
        "LD_LIBRARY_PATH",
        "PATH",
        "SHIFTBOSS_BEADS",
        "SHIFTBOSS_PASS_ENVIRONMENT",
        "TMPDIR",
        "TZ",
        "VIRTUAL_ENV",
        *_MARKS,
    }
)
_STARTING_PREFIXES: Final = ("LC_", "MALLOC_", "PYTHON")
# In /proc/self/stat, counted from the state: where the environment begins and ends in memory.
_BLOCK_FIELDS: Final = slice(47, 49)


def hide_secrets() -> None:
    """Close this process to others. `os.environ` stays as it is. Call it before other threads are
    started: they might read the environment."""
    if any(os.environ.get(mark) for mark in _MARKS):
        return
    deny_inspection()
    if sys.platform == "linux":
        _blank_environment()


def starting_environment() -> dict[str, str]:
    """What a child of ours is started with. The rest of our environment, in which a policy may name
    any variable as a secret, is sent to it later."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _STARTING or name.startswith(_STARTING_PREFIXES)
    }


def replace_environment(variables: dict[str, str]) -> None:
    """Use the variables that the parent has sent."""
    os.environ.clear()
    os.environ.update(variables)


def _blank_environment() -> None:
    """Root can read the memory of every process, but then has to search for the secrets. The C
    library gets copies first: it would read the blank memory."""
    stat = Path("/proc/self/stat").read_bytes()
    fields = stat[stat.rindex(b")") + 2 :].split()
    start, end = map(int, fields[_BLOCK_FIELDS])
    for name, value in os.environ.items():
        os.putenv(name, value)
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
