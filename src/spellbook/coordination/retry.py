"""Which errors are retried, and when."""

from shiftboss.rules.tasks.retry import ErrorCategory, RetryPolicy, classify_error

__all__ = ["ErrorCategory", "RetryPolicy", "classify_error"]
