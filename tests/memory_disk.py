"""Temporary folders in memory. Nothing here tests what is left when the power goes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MEMORY_DISK = Path("/dev/shm")
FREE_BYTES_MIN = 4 << 30


def use_memory_disk() -> None:
    """For this process and all that it starts; unless somebody has chosen a folder already."""
    if "TMPDIR" not in os.environ and _is_usable(MEMORY_DISK):
        os.environ["TMPDIR"] = str(MEMORY_DISK)
        tempfile.tempdir = None  # it is looked for again


def _is_usable(folder: Path) -> bool:
    """Not every system has one; that of a container is often small, or runs no programs."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    disk = os.statvfs(folder)
    runs_programs = not disk.f_flag & os.ST_NOEXEC
    return runs_programs and disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN
