"""What the processes of a measurement tell the program that measures: a named pipe of records.

A record has a fixed size and is written at once, so that records of many processes never mix. Times
are of CLOCK_MONOTONIC, which all processes of a machine share. Standard library only: the peers'
processes import this module.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import time
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple, Self

PIPE_VARIABLE: Final = "BENCH_PEERS_RECORDS"
_LAYOUT: Final = struct.Struct("=bqq")
_PIPE_BYTES: Final = 1 << 20
_pipes: dict[int, int] = {}


class Kind(IntEnum):
    READY = 1  # a process can take jobs, or send them
    SENT = 2  # just before the enqueue
    TAKEN = 3  # a worker process has the job
    DONE = 4  # that it is done has been recorded


class Record(NamedTuple):
    kind: Kind
    job: int
    nanoseconds: int


def record(kind: Kind, job: int = 0) -> None:
    """From a process of the measurement. Costs one system call."""
    nanoseconds = time.monotonic_ns()
    pid = os.getpid()
    if pid not in _pipes:  # a library may have forked this process
        _pipes[pid] = os.open(os.environ[PIPE_VARIABLE], os.O_WRONLY)
    os.write(_pipes[pid], _LAYOUT.pack(kind, job, nanoseconds))


class RecordPipe:
    """The end that reads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        # For writing as well: so there is always a writer, and a read never meets the end.
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._pipe)
        self.path.unlink()

    def read(self, seconds: float) -> Iterator[Record]:
        """What has been written, or nothing after this time."""
        ready, _, _ = select.select([self._pipe], [], [], seconds)
        if ready:
            # Records are never split: the size of a read is a multiple of theirs.
            data = os.read(self._pipe, _LAYOUT.size * 4096)
            for kind, job, nanoseconds in _LAYOUT.iter_unpack(data):
                yield Record(Kind(kind), job, nanoseconds)
