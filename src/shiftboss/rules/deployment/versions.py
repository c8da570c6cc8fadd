"""Which versions of Shiftboss work together on one database."""

from __future__ import annotations

import re
from typing import Final

# Two servers may differ by so many minor versions: one is upgraded after the other.
MINOR_VERSIONS_APART_MAX: Final = 1
_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.", re.ASCII)


def work_together(version: str, other: str) -> bool:
    """Whether servers of these versions may use one database at the same time. A version that
    cannot be read works with its equals only."""
    first, second = _VERSION.match(version), _VERSION.match(other)
    if first is None or second is None:
        return version == other
    if first[1] != second[1]:
        return False
    return abs(int(first[2]) - int(second[2])) <= MINOR_VERSIONS_APART_MAX
