"""Rate limits of forges: reads their headers, and says when the next request may be sent.

Times are those of a monotonic clock and are passed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from shiftboss.protocol.policy import Backoff

# A wrong clock, or an error of the forge, must not stop us for a day.
HOLD_SECONDS_MAX: Final = 3600.0
DEFAULT_HOLD_SECONDS: Final = 60.0
BACKOFF: Final = Backoff()


def is_rate_limit(status: int, headers: Mapping[str, str], content: bytes) -> bool:
    """GitHub also sends a 403, in some cases without a header that says why."""
    if status == 429:
        return True
    if status != 403:
        return False
    has_header = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    return has_header or b"rate limit" in content[:2000].lower()


def hold_seconds(headers: Mapping[str, str], epoch_seconds: float) -> float:
    """How long to wait after a refusal."""
    seconds = _retry_after(headers.get("retry-after", ""), epoch_seconds)
    if seconds is None:
        seconds = _until_reset(headers, epoch_seconds)
    return min(max(seconds if seconds is not None else DEFAULT_HOLD_SECONDS, 1.0), HOLD_SECONDS_MAX)


def used_up_seconds(headers: Mapping[str, str], epoch_seconds: float) -> float | None:
    """How long to wait after a response that used up the limit; None if it did not."""
    if headers.get("x-ratelimit-remaining") != "0":
        return None
    return hold_seconds(headers, epoch_seconds)


def _retry_after(text: str, epoch_seconds: float) -> float | None:
    """The header has seconds or a date."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - epoch_seconds
    except (ValueError, TypeError):
        return None


def _until_reset(headers: Mapping[str, str], epoch_seconds: float) -> float | None:
    text = headers.get("x-ratelimit-reset", "")
    return float(text) - epoch_seconds if text.isdecimal() else None


class RateLimit:
    """The state of one address and one token, shared by all requests to it."""

    def __init__(self) -> None:
        self._failures = 0
        self._failed_at = float("-inf")
        self._not_before = float("-inf")
        self.reason = ""

    def wait_seconds(self, now: float) -> float:
        return max(0.0, self._not_before - now)

    def failed(self, started_at: float, now: float, chance: float) -> float:
        """How long to wait after a failure; the time doubles with each. Of several concurrent
        requests that fail, only the first counts. `chance`, from 0 to 1, is the jitter."""
        if started_at >= self._failed_at:
            pause = min(BACKOFF.initial * BACKOFF.multiplier**self._failures, BACKOFF.max)
            self._failures += 1
            self._failed_at = now
            self.hold(now + pause * (0.75 + chance / 4), "down")
        return self.wait_seconds(now)

    def hold(self, until: float, reason: str) -> None:
        """Send no request before `until`."""
        if until > self._not_before:
            self._not_before = until
            self.reason = reason

    def answered(self) -> None:
        self._failures = 0
