"""Where the service of a system is: set by the program that measures."""

from __future__ import annotations

import os
from typing import Final

PLACE_VARIABLE: Final = "BENCH_PEERS_PLACE"


def place() -> str:
    """An address, or the path of a database file."""
    return os.environ[PLACE_VARIABLE]
