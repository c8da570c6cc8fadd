"""What a guardian is told to do. The standard library alone, like guardian.py."""

from __future__ import annotations

import json
import os
from binascii import a2b_base64
from typing import NamedTuple

from shiftboss.system.processes import CHUNK_BYTES


class GuardianJob(NamedTuple):
    """For the limits see `process.ProcessLimits`."""

    argv: list[str]
    folder: str
    environment: dict[str, str]
    stdin: str
    log: str
    error_log: str
    megabytes: int
    processes: int
    output_megabytes: int
    log_megabytes: int
    tree_megabytes: int
    tree_files: int
    free_megabytes: int


def read_job(descriptor: int) -> tuple[GuardianJob, bytes] | None:
    """With what was read after it; None if nobody is there any more."""
    said: list[bytes] = []
    while not said or b"\n" not in said[-1]:
        said.append(os.read(descriptor, CHUNK_BYTES))
        if not said[-1]:
            return None
    job, _, after = b"".join(said).partition(b"\n")
    return GuardianJob(**json.loads(job)), after


def open_input(job: GuardianJob) -> int:
    """A file without a name, so that nobody has to feed it, and whoever reads it or does not is no
    trouble."""
    if not job.stdin:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    path = f"{job.log}.input"
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    os.unlink(path)  # noqa: PTH108 - a guardian is small
    waiting = memoryview(a2b_base64(job.stdin))
    while waiting:
        waiting = waiting[os.write(descriptor, waiting) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
