"""How long to wait before the next try."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

FIRST_PAUSE_SECONDS: Final = 0.2
PAUSE_SECONDS_MAX: Final = 5.0


def pauses() -> Iterator[float]:
    """Doubling, and no two workers in step: a server that comes back is not met by all at once."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause * random.uniform(0.5, 1.0)  # noqa: S311 - nothing to guess here
        pause = min(pause * 2, PAUSE_SECONDS_MAX)
