"""Which process has locked a file, as the kernel knows it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

# One line for each lock: number, type, ADVISORY, access, process, device and inode, range.
_LOCKS: Final = Path("/proc/locks")


def holds_lock(pid: int, path: Path) -> bool:
    """Whether the process has locked the file with `flock`, for itself alone."""
    try:
        inode = path.stat().st_ino
        lines = _LOCKS.read_text().splitlines()
    except FileNotFoundError:
        return _is_locked(path)
    except OSError:
        return False
    return any(_is_lock_of(line.split(), pid, inode) for line in lines)


def _is_lock_of(fields: list[str], pid: int, inode: int) -> bool:
    """The device is not compared: some file systems report another one to `stat`. A process that
    waits for a lock has an arrow in front of its type."""
    if len(fields) < 6 or (fields[1], fields[3]) != ("FLOCK", "WRITE"):
        return False
    return fields[4] == str(pid) and fields[5].rpartition(":")[2] == str(inode)


def _is_locked(path: Path) -> bool:
    """Without a list of locks: whether any process has locked the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
