"""Which errors are retried, and when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Up to `retries_max` retries. The delay starts at `first_delay_seconds` and doubles."""

    retries_max: int = 2
    first_delay_seconds: int = 30
    multiplier: int = 2

    def delay_seconds(self, retries_made: int) -> int | None:
        """The delay before the next retry, or None if there are no retries left."""
        if retries_made >= self.retries_max:
            return None
        return self.first_delay_seconds * int(self.multiplier**retries_made)


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
    """Known error types decide. For unknown ones, the flag that the worker reported counts."""
    category = classify_error(error_type)
    if category is ErrorCategory.UNKNOWN:
        return reported
    return category is ErrorCategory.RECOVERABLE
