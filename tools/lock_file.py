"""Reading requirements.lock."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
LOCK_FILE: Final = ROOT / "requirements.lock"
_PACKAGE: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class LockedPackage(NamedTuple):
    name: str
    version: str
    sha256: tuple[str, ...]


def read_lock(text: str) -> list[LockedPackage]:
    """One entry for each requirement; the continued lines of one have its hashes."""
    return [
        LockedPackage(match.group(1), match.group(2), tuple(_HASH.findall(entry)))
        for entry in text.replace("\\\n", " ").splitlines()
        if (match := _PACKAGE.match(entry))
    ]
