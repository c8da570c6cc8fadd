"""Small files that only their owner can read: keys, tokens, and what agents are started with."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from shiftboss.errors import EvidenceUnavailable
from shiftboss.system.files import sync_folder

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def is_private(status: os.stat_result) -> bool:
    """Whether it is a file of this user that nobody else can read."""
    is_own_file = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
    return is_own_file and not status.st_mode & _OTHERS


def write_once(path: Path, content: bytes) -> None:
    """Create the file, complete and on disk, unless it exists: of several servers that start at
    once, one creates it and all of them use it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
    sync_folder(path.parent)


def write_private(path: Path, text: str) -> Path:
    """Replace a file by one that only its owner can read, at any moment."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return partial.replace(path)


def read_private(path: Path, what: str) -> bytes:
    """Read the file. Raises EvidenceUnavailable, with `what` it is, if other users can read it."""
    try:
        with path.open("rb") as file:
            # The mode of the open file: the path may be replaced at any time.
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except OSError as exc:
        raise EvidenceUnavailable(f"{what} {path} cannot be read: {exc.strerror}") from exc
    if mode & _OTHERS:
        raise EvidenceUnavailable(
            f"Other users can read {what} {path} (mode {mode:04o})",
            hint=f"`chmod 600 {path}`; if it may have been copied, move it away, and the next "
            "start creates a new one",
        )
    return content
