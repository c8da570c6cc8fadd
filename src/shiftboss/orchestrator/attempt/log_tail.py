"""Reads a log of the guardian while it is written, across its rotation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Self

_CHUNK_BYTES: Final = 1 << 20
# A longer line is cut off, so that a program that prints no line breaks does not fill the memory.
_LINE_BYTES_MAX: Final = 8 << 20


class LogTail:
    """A full log is renamed to NAME.1, see `guardian.output.OutputLog`. The rest of the renamed
    file is read before the new one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self._file = _open(path.with_name(f"{path.name}.1")) or _open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def new_lines(self, *, to_end: bool) -> Iterator[str]:
        """The lines since the last call. An unfinished one counts only `to_end`."""
        while (chunk := self._read()) or self._is_renamed():
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if len(self._rest) > _LINE_BYTES_MAX:
                lines, self._rest = [*lines, self._rest], b""
            for line in lines:
                yield line.decode(errors="replace").rstrip("\r")
        if to_end and self._rest:
            line, self._rest = self._rest, b""
            yield line.decode(errors="replace").rstrip("\r")

    def _read(self) -> bytes:
        self._file = self._file or _open(self._path)
        return self._file.read(_CHUNK_BYTES) if self._file is not None else b""

    def _is_renamed(self) -> bool:
        """Whether a new file has taken the place of the one that was read; it is opened then."""
        if self._file is None:
            return False
        newer = _open(self._path)
        if newer is None:
            return False
        if os.path.sameopenfile(newer.fileno(), self._file.fileno()):
            newer.close()
            return False
        self._file.close()
        self._file = newer
        return True


def _open(path: Path) -> IO[bytes] | None:
    try:
        return path.open("rb")
    except OSError:
        return None
