"""When a failed task is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


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


# Which errors are worth another try.


class ErrorCategory(Enum):
    RECOVERABLE = "recoverable"
    NON_RECOVERABLE = "non_recoverable"
    UNKNOWN = "unknown"


RECOVERABLE_ERRORS: Final = frozenset(
    {"network_error", "rate_limit", "test_flake", "dependency_timeout"}
)
NON_RECOVERABLE_ERRORS: Final = frozenset(
    {"test_failure", "build_failure", "merge_conflict", "invalid_manifest"}
)


def classify_error(error_type: str) -> ErrorCategory:
    if error_type in RECOVERABLE_ERRORS:
        return ErrorCategory.RECOVERABLE
    if error_type in NON_RECOVERABLE_ERRORS:
        return ErrorCategory.NON_RECOVERABLE
    return ErrorCategory.UNKNOWN


def is_recoverable(error_type: str, reported: bool) -> bool:
    """A known type decides by itself; for an unknown one the worker's flag counts."""
    category = classify_error(error_type)
    if category is ErrorCategory.UNKNOWN:
        return reported
    return category is ErrorCategory.RECOVERABLE
