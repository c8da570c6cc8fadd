"""Which errors are tried again, and when."""

from shiftboss.rules.failures import ErrorCategory, classify_error
from shiftboss.rules.retry import RetryPolicy

__all__ = ["ErrorCategory", "RetryPolicy", "classify_error"]
