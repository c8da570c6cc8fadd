"""Repositories that many tests start from. Git makes each kind once per process, with several
commands that take milliseconds each; then its files are copied."""

from __future__ import annotations

import stat
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import NamedTuple


class _Entry(NamedTuple):
    """`content` is None for a folder."""

    name: str
    mode: int
    content: bytes | None


_made: dict[Hashable, list[_Entry]] = {}


def make_once(key: Hashable, folder: Path, make: Callable[[], object]) -> None:
    """Fill a new folder: with `make`, or with what it has made for the same key before. In a copy,
    git's index has the times of other files, so git compares their contents."""
    if key not in _made:
        make()
        _made[key] = [_entry(folder, path) for path in sorted(folder.rglob("*")) if _counts(path)]
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name, mode, content in _made[key]:
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content)
            (folder / name).chmod(mode)


def _counts(path: Path) -> bool:
    """Git's examples of hooks have no effect."""
    return path.suffix != ".sample"


def _entry(folder: Path, path: Path) -> _Entry:
    mode = stat.S_IMODE(path.stat().st_mode)
    return _Entry(
        str(path.relative_to(folder)), mode, path.read_bytes() if path.is_file() else None
    )
