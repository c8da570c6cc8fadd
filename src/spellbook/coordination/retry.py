"""Which errors are retried, and when."""

from shiftboss.rules.tasks.retry import (
    NON_RECOVERABLE_ERRORS,
    RECOVERABLE_ERRORS,
    ErrorCategory,
    RetryPolicy,
    classify_error,
)

__all__ = [
    "NON_RECOVERABLE_ERRORS",
    "RECOVERABLE_ERRORS",
    "ErrorCategory",
    "RetryPolicy",
    "classify_error",
]
