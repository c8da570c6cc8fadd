"""Which errors are retried, and when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Up to `max_retries` retries. The first delay is `backoff_base` seconds, and each further one
    is `backoff_multiplier` times as long."""

    max_retries: int = 2
    backoff_base: int = 30
    backoff_multiplier: int = 2

    def delay_seconds(self, retries_made: int) -> int | None:
        """The delay before the next retry, or None if there are no retries left."""
        if retries_made >= self.max_retries:
            return None
        return self.backoff_base * int(self.backoff_multiplier**retries_made)

    def get_retry_delay(self, attempt: int) -> int:
        """The delay in seconds before the retry with this number, counted from 1. 0 if there is no
        such retry."""
        return self.delay_seconds(attempt - 1) or 0


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
