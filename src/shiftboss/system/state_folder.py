"""The state folder: the database, the keys and the logs of a server and of its runs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

STATE_FOLDER: Final = ".shiftboss"
_IGNORE_ALL: Final = b"*\n"


def make_state_folder(path: Path) -> Path:
    """Create the folder unless it exists, readable by its owner only, with a `.gitignore` of its
    own: a `git add .` must never stage the signing key.

    A folder of another name that was there before belongs to somebody else, and gets none.
    """
    is_ours = path.name == STATE_FOLDER or not path.exists()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_ours:
        _ignore_everything(path / ".gitignore")
    return path


def _ignore_everything(file: Path) -> None:
    with suppress(FileExistsError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(_IGNORE_ALL)
