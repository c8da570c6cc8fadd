"""Reads a log of the guardian a page at a time, for readers that come back with a position.

A full log is renamed to NAME.1, see `guardian.output.OutputLog`. The two files are read as one
text. A position names the file by its beginning, so that it is found again after it was renamed.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

from shiftboss.system.json_files import open_regular

PAGE_BYTES_MAX: Final = 1 << 20
# A longer line is cut off, so that a program that prints no line breaks does not fill the memory.
LINE_BYTES_MAX: Final = 8 << 20
_NAME_BYTES: Final = 256
_WHITESPACE: Final = re.compile(rb"[ \t\r\n]*")


class LogPosition(NamedTuple):
    """Behind `offset` bytes of the file that begins with the bytes of this checksum, and behind
    `lines` lines of the log."""

    file: int = 0
    offset: int = 0
    lines: int = 0


class LogLine(NamedTuple):
    """`number` counts from 1. `end` is where the next line begins, in both files together. Blank
    lines that follow each other are one, with the number of the last."""

    number: int
    text: str
    end: int


class LogPages:
    """The log as it is now: later additions are not seen."""

    def __init__(self, path: Path) -> None:
        self._exit = ExitStack()
        self._files: list[IO[bytes]] = []
        # The newer one first: if it is renamed in between, it is found twice and not missed.
        newer, older = open_regular(path), open_regular(path.with_name(f"{path.name}.1"))
        for file in (older, newer):
            if file is not None:
                self._exit.enter_context(file)
        if older is not None and newer is not None and _is_same(older, newer):
            older = None
        self._files = [file for file in (older, newer) if file is not None]
        self._sizes = [os.fstat(file.fileno()).st_size for file in self._files]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    @property
    def size(self) -> int:
        return sum(self._sizes)

    def find(self, position: LogPosition) -> int:
        """Where the position is now. If its file is gone, reading continues at the oldest byte."""
        start = 0
        for file, size in zip(self._files, self._sizes, strict=True):
            if position.offset <= size and _checksum(file, position.offset) == position.file:
                return start + position.offset
            start += size
        return 0

    def position(self, at: int, lines: int) -> LogPosition:
        """In the older file, for as long as nothing of the newer one was read."""
        if self._files and len(self._files) > 1 and at > self._sizes[0]:
            file, offset = self._files[1], at - self._sizes[0]
        elif self._files:
            file, offset = self._files[0], at
        else:
            return LogPosition(lines=lines)
        return LogPosition(_checksum(file, offset), offset, lines)

    def near_end(self, size_max: int) -> tuple[int, int]:
        """The start of a line at most this far from the end, and how many lines are before it."""
        start = max(self.size - size_max, 0)
        if start == 0:
            return 0, 0
        line_break = self._read(start, size_max).find(b"\n")
        start = self.size if line_break < 0 else start + line_break + 1
        return start, self._count_lines(start)

    def lines_from(
        self, at: int, number: int, *, to_end: bool, size_max: int = PAGE_BYTES_MAX
    ) -> Iterator[LogLine]:
        """The lines of one page; those before it are `number`. An unfinished line counts only
        `to_end`."""
        content = self._read(at, size_max)
        end = content.rfind(b"\n") + 1
        if end == 0 and len(content) == size_max < LINE_BYTES_MAX:
            content = self._read(at, LINE_BYTES_MAX)
            end = content.find(b"\n") + 1
        is_last = at + len(content) == self.size
        if (end == 0 and len(content) >= LINE_BYTES_MAX) or (is_last and to_end):
            end = len(content)
        return _lines(content[:end], at, number)

    def lines_before(self, at: int, size_max: int, lines_max: int) -> Iterator[LogLine]:
        """The complete lines that end shortly before this place."""
        start = max(at - size_max, 0)
        content = self._read(start, at - start)
        skipped = 0 if start == 0 else content.find(b"\n") + 1
        newest = content[skipped:].rsplit(b"\n", lines_max + 1)
        if len(newest) > lines_max + 1:
            skipped += len(newest[0]) + 1
        return _lines(content[skipped:], start + skipped, 0)

    def _read(self, at: int, size: int) -> bytes:
        parts = []
        for file, length in zip(self._files, self._sizes, strict=True):
            if at < length and size > 0:
                file.seek(at)
                parts.append(file.read(min(size, length - at)))
                size -= len(parts[-1])
                at = length
            at -= length
        return b"".join(parts)

    def _count_lines(self, end: int) -> int:
        return sum(
            self._read(at, min(PAGE_BYTES_MAX, end - at)).count(b"\n")
            for at in range(0, end, PAGE_BYTES_MAX)
        )


def _lines(content: bytes, at: int, number: int) -> Iterator[LogLine]:
    """One after the other, as a reader takes them: an agent may print a million in a page."""
    start = 0
    while start < len(content):
        end = _end_of_blank_lines(content, start)
        if end > start:
            number += content.count(b"\n", start, end)
            yield LogLine(number, "", at + end)
        else:
            line_break = content.find(b"\n", start)
            stop = len(content) if line_break < 0 else line_break
            end = min(stop + 1, len(content))
            number += 1
            text = content[start:stop].decode(errors="replace").rstrip("\r")
            yield LogLine(number, text, at + end)
        start = end


def _end_of_blank_lines(content: bytes, start: int) -> int:
    """`start`, if no blank line begins there."""
    whitespace = _WHITESPACE.match(content, start)
    end = start if whitespace is None else whitespace.end()
    return max(content.rfind(b"\n", start, end) + 1, start)


def _checksum(file: IO[bytes], offset: int) -> int:
    file.seek(0)
    return zlib.crc32(file.read(min(offset, _NAME_BYTES)))


def _is_same(one: IO[bytes], other: IO[bytes]) -> bool:
    return os.path.sameopenfile(one.fileno(), other.fileno())
