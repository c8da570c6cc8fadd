"""When a failed task is tried again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`retries_max` further attempts per task, the pause doubling from `first_delay_seconds`."""

    retries_max: int = 2
    first_delay_seconds: int = 30
    multiplier: int = 2

    def delay_seconds(self, retries_made: int) -> int | None:
        """The pause before the next attempt, or None when the task has used up its retries."""
        if retries_made >= self.retries_max:
            return None
        return self.first_delay_seconds * int(self.multiplier**retries_made)
