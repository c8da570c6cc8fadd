"""The job of a guardian: the agent to run and its limits. Standard library only, like main.py."""

from __future__ import annotations

import json
import os
from binascii import a2b_base64
from typing import NamedTuple

from shiftboss.system.processes.descendants import CHUNK_BYTES


class GuardianJob(NamedTuple):
    """For the limits see `agent_process.ProcessLimits`."""

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
    """The job and what was read after it, or None if the orchestrator is gone."""
    chunks: list[bytes] = []
    while not chunks or b"\n" not in chunks[-1]:
        chunks.append(os.read(descriptor, CHUNK_BYTES))
        if not chunks[-1]:
            return None
    job, _, after = b"".join(chunks).partition(b"\n")
    return GuardianJob(**json.loads(job)), after


def open_input(job: GuardianJob) -> int:
    """The standard input of the agent, as an unlinked file. Unlike a pipe, it needs no writer while
    the agent runs, and it does not matter whether the agent reads it."""
    if not job.stdin:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    path = f"{job.log}.input"
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    os.unlink(path)  # noqa: PTH108 - a guardian is small
    remaining = memoryview(a2b_base64(job.stdin))
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
