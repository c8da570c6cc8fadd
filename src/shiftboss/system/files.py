"""Files that survive a crash, and text files that people write for us.

A durable file is written whole or not at all, and is on disk before the call returns.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from shiftboss.errors import InvalidRequest

TEXT_BYTES_MAX: Final = 4 * 1024 * 1024


def make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Replace the file. Only one writer at a time: the temporary name is always the same, so that
    a crash leaves at most one such file."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    move_durably(temporary, path)


def move_durably(path: Path, target: Path) -> None:
    """Rename a file within its folder."""
    path.replace(target)
    sync_folder(target.parent)


def remove_durably(path: Path) -> None:
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new, renamed and removed entries of the folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_if_there(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def read_text(path: Path, field: str, invalid: type[InvalidRequest]) -> str:
    """Read a policy or a plan. Raises `invalid` if it is unreadable, not UTF-8 or too long."""
    try:
        with path.open("rb") as file:
            content = file.read(TEXT_BYTES_MAX + 1)
        text = content.decode()
    except OSError as error:
        raise invalid(f"{path} cannot be read: {error.strerror}", field=field) from error
    except UnicodeDecodeError as error:
        raise invalid(f"{path} is not UTF-8: {error.reason}", field=field) from error
    if len(content) > TEXT_BYTES_MAX:
        raise invalid(f"{path} is longer than {TEXT_BYTES_MAX} bytes", field=field)
    return text
