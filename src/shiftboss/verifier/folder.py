"""The folder of a verifier, for one verifier at a time: it throws away what it finds there."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shiftboss.errors import EvidenceUnavailable


@contextmanager
def held_folder(folder: Path) -> Iterator[Path]:
    """Raises EvidenceUnavailable when another verifier has it, or when it cannot be made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise EvidenceUnavailable(f"cannot use the folder {folder}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EvidenceUnavailable(
                f"another verifier has the folder {folder}", hint="give this one another --folder"
            ) from None
        yield folder
