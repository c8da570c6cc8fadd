"""Temporary folders in memory: no test depends on surviving a power failure."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

MEMORY_DISK = Path("/dev/shm")
FREE_BYTES_MIN = 4 << 30
_PREFIX = "shiftboss-tests-"


def use_memory_disk() -> None:
    """Applies to this process and its children, unless TMPDIR is already set.

    The folder name contains the process id, so that the next session can remove stale folders.
    """
    if "TMPDIR" in os.environ or not _is_usable(MEMORY_DISK):
        return
    for stale in MEMORY_DISK.glob(f"{_PREFIX}*"):
        if not Path("/proc", stale.name.removeprefix(_PREFIX)).exists():
            shutil.rmtree(stale, ignore_errors=True)
    folder = _own_folder()
    folder.mkdir()
    folder.chmod(0o711)  # PostgreSQL may run as another user and has its folder here
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # so that it is computed again


def leave_memory_disk() -> None:
    """Only the process that created the folder removes it."""
    shutil.rmtree(_own_folder(), ignore_errors=True)


def _own_folder() -> Path:
    return MEMORY_DISK / f"{_PREFIX}{os.getpid()}"


def _is_usable(disk: Path) -> bool:
    """Not every system has one; in a container it is often small or mounted noexec."""
    if not os.access(disk, os.W_OK | os.X_OK):
        return False
    stats = os.statvfs(disk)
    runs_programs = not stats.f_flag & os.ST_NOEXEC
    return runs_programs and stats.f_bavail * stats.f_frsize >= FREE_BYTES_MIN
