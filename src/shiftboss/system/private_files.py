"""Small files that nobody else can read: keys and tokens."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from shiftboss.errors import EvidenceUnavailable

_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def write_once(path: Path, content: bytes) -> None:
    """The file appears under its name complete and on disk, and never replaces another: of several
    servers that start at once, one makes it and all of them get it."""
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
    _sync_folder(path.parent)


def read_private(path: Path, what: str) -> bytes:
    """Refused when others can read it. `what` it is, for the error."""
    try:
        with path.open("rb") as file:
            # Of the open file, so that nobody can swap it between look and read.
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except OSError as exc:
        raise EvidenceUnavailable(f"{what} {path} cannot be read: {exc.strerror}") from exc
    if mode & _OTHERS:
        raise EvidenceUnavailable(
            f"Others can read {what} {path} (mode {mode:04o})",
            hint=f"`chmod 600 {path}`; if somebody may have copied it, move it away, and the next "
            "start makes a new one",
        )
    return content


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
