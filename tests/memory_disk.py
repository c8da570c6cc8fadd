"""Temporary folders in memory: no test is about what is left when the power goes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY_DISK = Path("/dev/shm")
FREE_BYTES_MIN = 4 << 30
_PREFIX = "shiftboss-tests-"


def use_memory_disk() -> None:
    """For this process and all that it starts, unless somebody has chosen a folder already.

    The number of the process is in the name: what a session has left is removed by the next one.
    """
    if "TMPDIR" in os.environ or not _is_usable(MEMORY_DISK):
        return
    for left in MEMORY_DISK.glob(f"{_PREFIX}*"):
        if not Path("/proc", left.name.removeprefix(_PREFIX)).exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = _own_folder()
    folder.mkdir()
    folder.chmod(0o711)  # PostgreSQL, which may be another user, has its folder in here
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it is looked for again


def leave_memory_disk() -> None:
    """Only whoever has made the folder removes it."""
    shutil.rmtree(_own_folder(), ignore_errors=True)


def _own_folder() -> Path:
    return MEMORY_DISK / f"{_PREFIX}{os.getpid()}"


def _is_usable(disk: Path) -> bool:
    """Not every system has one; that of a container is often small, or runs no programs."""
    if not os.access(disk, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(disk)
    runs_programs = not found.f_flag & os.ST_NOEXEC
    return runs_programs and found.f_bavail * found.f_frsize >= FREE_BYTES_MIN
