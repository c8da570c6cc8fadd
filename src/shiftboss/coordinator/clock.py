"""The clock of the outermost layer. Everything below gets the time as an argument."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]


def system_clock() -> int:
    """Milliseconds since 1970 in UTC."""
    return time.time_ns() // 1_000_000
