"""Finding the server, or else the database, that a command in this folder is about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from shiftboss.defaults import STATE_FOLDER


def find_state_folder() -> Path | None:
    """The state folder of this folder or of the nearest parent folder; None if there is none."""
    return next(state_folders(), None)


def state_folders() -> Iterator[Path]:
    """The state folders that commands look in, the nearest first.

    SHIFTBOSS_DB names one, as it does for servers and runs. Those of other users are left out: a
    command sends its tokens to the server that it finds there.
    """
    database = os.environ.get("SHIFTBOSS_DB", "")
    if database and "://" not in database:
        yield from filter(_is_own, [Path(database).absolute().parent])
        return
    here = Path.cwd()
    yield from filter(_is_own, (folder / STATE_FOLDER for folder in (here, *here.parents)))


def _is_own(folder: Path) -> bool:
    try:
        return folder.is_dir() and folder.stat().st_uid == os.getuid()
    except OSError:
        return False
