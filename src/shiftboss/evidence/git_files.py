"""What a repository is made of, looked at before git reads it.

Git opens what it finds. A pipe with nobody at its other end in the place of a ref, and it waits for
ever.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_FILES: Final = ("HEAD", "config", "packed-refs", "shallow", "commondir")
_FOLDERS: Final = ("refs", "info", "objects/info", "objects/pack")
# Beyond this it is left to the time limit of git.
_ENTRIES_MAX: Final = 500_000


def strange_file(repository: Path, *, with_objects: bool) -> Path | None:
    """The first thing that git may read and that is neither a file nor a folder."""
    for name in _FILES:
        if _kind(repository / name) == "strange":
            return repository / name
    seen: set[tuple[int, int]] = set()
    waiting = [repository / name for name in (*_FOLDERS, *(["objects"] if with_objects else []))]
    entries = 0
    while waiting and entries < _ENTRIES_MAX:
        folder = waiting.pop()
        if not _is_new(folder, seen):
            continue
        with os.scandir(folder) as found:
            for entry in found:
                entries += 1
                kind = _kind_of_entry(entry)
                if kind == "strange":
                    return Path(entry.path)
                if kind == "folder":
                    waiting.append(Path(entry.path))
    return None


def _is_new(folder: Path, seen: set[tuple[int, int]]) -> bool:
    """Links can make circles."""
    try:
        status = folder.stat()
    except OSError:
        return False
    key = (status.st_dev, status.st_ino)
    if key in seen or not os.access(folder, os.R_OK | os.X_OK):
        return False
    seen.add(key)
    return True


def _kind_of_entry(entry: os.DirEntry[str]) -> str:
    """Without asking the file system again, but for links."""
    if entry.is_symlink():
        return _kind(Path(entry.path))
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "strange"


def _kind(path: Path) -> str:
    """What is not there is no trouble."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "nothing"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "strange"
