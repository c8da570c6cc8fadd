"""Whether committed writes are missing from the write-ahead log of a file that nobody has open.

After a crash, SQLite takes the log up to the first frame whose checksum is wrong, and drops the
rest without a word: it cannot tell a damaged frame from the torn end of an unfinished commit. Two
traces can. The index of the log (`-shm`) counts the committed frames; SQLite raises the count after
the fsync of a commit, so it never says too much. It survives a killed process. If it is missing or
about another round of the log, as after a power failure, frames of at least two later commits
behind the damaged one show it: commits are written one after the other, so that an unfinished one
is the last.

The formats are described at https://www.sqlite.org/fileformat2.html#walformat and
https://www.sqlite.org/walformat.html.
"""

from __future__ import annotations

import os
import struct
import sys
from array import array
from pathlib import Path
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct(">II II 8s II")
_FRAME: Final = struct.Struct(">II 8s II")
# Without its two copies of a checksum; the salt is kept as bytes, as it is in the log.
_INDEX: Final = struct.Struct("=IIIBBHII 8s 8s II")
_BACKFILLED: Final = struct.Struct("=I")
_BACKFILLED_AT: Final = 2 * _INDEX.size
_MAGIC: Final = 0x377F0682
_MASK: Final = 0xFFFFFFFF
_PAGE_BYTES_MAX: Final = 65536

Checksum = tuple[int, int]


class CommittedFrames(NamedTuple):
    """What the index of a log says. `salt` names the round of the log, `backfilled` is how many
    frames are in the database file, too."""

    salt: bytes
    frames: int
    backfilled: int


class LogFrames(NamedTuple):
    """What a log contains: the frames up to the last intact commit, the intact ones, and the
    commits of the same round behind those."""

    salt: bytes
    committed: int
    intact: int
    commits_beyond: int
    frame_bytes: int


def committed_frames(index: bytes) -> CommittedFrames | None:
    """None if the index is not complete."""
    first, second = index[: _INDEX.size], index[_INDEX.size : _BACKFILLED_AT]
    if first != second or len(index) < _BACKFILLED_AT + _BACKFILLED.size:
        return None
    *_, is_set, _, _, frames, _, _, salt, one, two = _INDEX.unpack(first)
    if not is_set or _checksum(first[:40], (0, 0), swapped=False) != (one, two):
        return None
    (backfilled,) = _BACKFILLED.unpack_from(index, _BACKFILLED_AT)
    return CommittedFrames(salt, frames, backfilled)


def log_frames(log: bytes) -> LogFrames | None:
    """None if there is no log, or its header is damaged: then SQLite ignores all of it."""
    if len(log) < _HEADER.size:
        return None
    magic, _, page_bytes, _, salt, *checksum = _HEADER.unpack_from(log)
    swapped = bool(magic & 1) != (sys.byteorder == "big")
    is_header = magic & ~1 == _MAGIC and 512 <= page_bytes <= _PAGE_BYTES_MAX
    last = _checksum(log[:24], (0, 0), swapped=swapped) if is_header else (0, 0)
    if not is_header or last != tuple(checksum):
        return None
    frame_bytes = _FRAME.size + page_bytes
    count = (len(log) - _HEADER.size) // frame_bytes
    intact = committed = 0
    for number in range(1, count + 1):
        start = _HEADER.size + (number - 1) * frame_bytes
        page, pages_after, frame_salt, *stored = _FRAME.unpack_from(log, start)
        if frame_salt != salt or not page:
            break
        page_start = start + _FRAME.size
        last = _checksum(log[start : start + 8], last, swapped=swapped)
        last = _checksum(log[page_start : page_start + page_bytes], last, swapped=swapped)
        if last != tuple(stored):
            break
        intact = number
        committed = number if pages_after else committed
    beyond = sum(
        1
        for number in range(intact, count)
        if _is_commit(log, _HEADER.size + number * frame_bytes, salt)
    )
    return LogFrames(salt, committed, intact, beyond, frame_bytes)


def _is_commit(log: bytes, start: int, salt: bytes) -> bool:
    page, pages_after, frame_salt, *_ = _FRAME.unpack_from(log, start)
    return bool(page and pages_after and frame_salt == salt)


def _checksum(data: bytes, last: Checksum, *, swapped: bool) -> Checksum:
    words = array("I", data)
    if swapped:
        words.byteswap()
    one, two = last
    pairs = iter(words)
    for even, odd in zip(pairs, pairs, strict=True):
        one = (one + even + two) & _MASK
        two = (two + odd + one) & _MASK
    return one, two


def missing_writes(log: LogFrames | None, index: CommittedFrames | None) -> str | None:
    """What is missing, as a part of a sentence; None if nothing is known to be."""
    committed = 0 if log is None else log.committed
    if index is not None and (log is None or log.salt == index.salt):
        # A log that nothing is read from does no harm if all of it is in the database file.
        is_all_there = committed >= index.frames or (
            not committed and index.backfilled >= index.frames
        )
        if is_all_there:
            return None
        return f"{index.frames - committed} of {index.frames} committed pages cannot be read"
    if log is not None and log.commits_beyond > 1:
        return f"there are {log.commits_beyond} commits behind a damaged page"
    return None


def check_log(path: Path) -> str | None:
    """What is missing from the log of the database file; else the log is settled. Nobody may have
    the file open. It takes a tenth of a millisecond for each page of the log, after a crash only:
    a server that is stopped leaves no log."""
    data = _read(f"{path}-wal")
    log = log_frames(data)
    missing = missing_writes(log, committed_frames(_read(f"{path}-shm")))
    if missing is None and log is not None and log.intact:
        _settle(f"{path}-wal", data[: _HEADER.size + log.intact * log.frame_bytes])
    return missing


def _settle(path: str, intact: bytes) -> None:
    """Write the intact part of the log once more, and wait for the disk.

    If an fsync failed before the crash, these pages may be in the cache of the system only, marked
    as written: no later fsync would write them.
    """
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(file, intact, 0)
        os.fsync(file)
    finally:
        os.close(file)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return b""
