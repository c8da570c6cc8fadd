"""Reads small JSON files that others, such as agents, may have written or replaced.

Such a file may be a pipe, a link, huge, nested too deeply or of another shape. None of that may
stop the command that reads it, or make it wait.

Imports only the standard library: commands load this at every start.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

BYTES_MAX: Final = 1024 * 1024
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def read_json_object(
    path: Path,
    types: Mapping[str, type | tuple[type, ...]] | None = None,
    *,
    bytes_max: int = BYTES_MAX,
    accepts: Callable[[os.stat_result], bool] = lambda _status: True,
) -> dict[str, Any] | None:
    """The JSON object in the file. None if it is not a regular file of this size that `accepts`
    agrees to, or not an object that has all members of `types` with these types."""
    content = _read_regular(path, bytes_max, accepts)
    if content is None:
        return None
    try:
        members = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(members, dict):
        return None
    return members if has_types(members, types or {}) else None


def has_types(members: Mapping[str, Any], types: Mapping[str, type | tuple[type, ...]]) -> bool:
    """A bool does not count as a number."""
    return all(
        name in members
        and isinstance(members[name], expected)
        and (expected is bool or not isinstance(members[name], bool))
        for name, expected in types.items()
    )


def _read_regular(
    path: Path, bytes_max: int, accepts: Callable[[os.stat_result], bool]
) -> bytes | None:
    try:
        file = open_regular(path)
        if file is None:
            return None
        with file:
            content = file.read(bytes_max + 1) if accepts(os.fstat(file.fileno())) else None
    except (OSError, ValueError):  # a ValueError: a path with a null byte
        return None
    return content if content is not None and len(content) <= bytes_max else None


def open_regular(path: Path) -> IO[bytes] | None:
    """None if it is a link, a pipe or a folder. It does not wait for the other end of a pipe."""
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    return None
