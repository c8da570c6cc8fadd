"""How many examples the tests with generated input try: a few, or many more on demand."""

from __future__ import annotations

import os
from typing import Final

# For a long search: SHIFTBOSS_TEST_EXAMPLES=100 make test.
FACTOR: Final = int(os.environ.get("SHIFTBOSS_TEST_EXAMPLES", "1"))


def examples(count: int) -> int:
    return count * FACTOR
