"""Reads a log of the guardian while it is written, across its rotation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Self

from shiftboss.system.json_files import open_regular

_CHUNK_BYTES: Final = 1 << 20
# A longer line is cut off, so that a program that prints no line breaks does not fill the memory.
_LINE_BYTES_MAX: Final = 8 << 20


class LogTail:
    """A full log is renamed to NAME.1, see `guardian.output.OutputLog`. The rest of the renamed
    file is read before the new one: it may have grown between our last read and its renaming."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next: IO[bytes] | None = None
        self._rest = b""
        self._file = open_regular(path.with_name(f"{path.name}.1")) or open_regular(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._file, self._next):
            if file is not None:
                file.close()

    def new_lines(self, *, to_end: bool) -> Iterator[str]:
        """The lines since the last call. An unfinished one counts only `to_end`."""
        while chunk := self._read():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > _LINE_BYTES_MAX:
                lines, self._rest = [*lines, self._rest], b""
            for line in lines:
                yield line.decode(errors="replace").rstrip("\r")
        if to_end and self._rest:
            line, self._rest = self._rest, b""
            yield line.decode(errors="replace").rstrip("\r")

    def _read(self) -> bytes:
        self._file = self._file or open_regular(self._path)
        while self._file is not None:
            if chunk := self._file.read(_CHUNK_BYTES):
                return chunk
            if self._next is not None:
                self._file.close()
                self._file, self._next = self._next, None
            elif (newer := self._newer(self._file)) is not None:
                self._next = newer
            else:
                break
        return b""

    def _newer(self, file: IO[bytes]) -> IO[bytes] | None:
        """The file that has taken the place of the one that is read."""
        newer = open_regular(self._path)
        if newer is not None and os.path.sameopenfile(newer.fileno(), file.fileno()):
            newer.close()
            return None
        return newer
