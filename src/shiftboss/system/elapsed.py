"""Time that passes, whatever happens to the wall clock."""

from __future__ import annotations

import time
from functools import partial
from typing import Final

# It continues while the machine is suspended. Not every system has it.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


# Nanoseconds since some moment in the past. It never goes back.
elapsed_ns: Final = partial(time.clock_gettime_ns, _CLOCK)


def elapsed_seconds() -> float:
    return elapsed_ns() / 1e9
