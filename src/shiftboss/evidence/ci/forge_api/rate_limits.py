"""What the head of an answer says about how often one may ask."""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

from shiftboss.protocol.policy import Backoff

# A clock that is off, or a mistake of the forge's, must not stop us for a day.
HOLD_SECONDS_MAX: Final = 3600.0
UNSAID_SECONDS: Final = 60.0


def is_rate_limit(status: int, headers: Mapping[str, str], content: bytes) -> bool:
    """GitHub says it with a 403 as well; some of those have no header that tells."""
    if status == 429:
        return True
    if status != 403:
        return False
    has_header = "retry-after" in headers or headers.get("x-ratelimit-remaining") == "0"
    return has_header or b"rate limit" in content[:2000].lower()


def hold_seconds(headers: Mapping[str, str], epoch_seconds: float) -> float:
    """How long to stay away after a refusal."""
    said = _retry_after(headers.get("retry-after", ""), epoch_seconds)
    if said is None:
        said = _until_reset(headers, epoch_seconds)
    return min(max(said if said is not None else UNSAID_SECONDS, 1.0), HOLD_SECONDS_MAX)


def used_up_seconds(headers: Mapping[str, str], epoch_seconds: float) -> float | None:
    """Of an answer that was the last one for now: how long until there are more."""
    if headers.get("x-ratelimit-remaining") != "0":
        return None
    return hold_seconds(headers, epoch_seconds)


def _retry_after(text: str, epoch_seconds: float) -> float | None:
    """Seconds, or a date."""
    if text.strip().isdecimal():
        return float(text)
    try:
        return parsedate_to_datetime(text).timestamp() - epoch_seconds
    except (ValueError, TypeError):
        return None


def _until_reset(headers: Mapping[str, str], epoch_seconds: float) -> float | None:
    text = headers.get("x-ratelimit-reset", "")
    return float(text) - epoch_seconds if text.isdecimal() else None


# When a forge may be asked again. Times are of a monotonic clock and come in as arguments.


BACKOFF: Final = Backoff()


class RateLimit:
    """Of one address and one token, shared by all who ask there."""

    def __init__(self) -> None:
        self._failures = 0
        self._failed_at = float("-inf")
        self._not_before = float("-inf")
        self.reason = ""

    def wait_seconds(self, now: float) -> float:
        return max(0.0, self._not_before - now)

    def failed(self, started_at: float, now: float, chance: float) -> float:
        """How long to stay away, doubling with each failure. Of many who asked at the same time,
        the first one counts. `chance`, from 0 to 1, keeps several servers out of step."""
        if started_at >= self._failed_at:
            pause = min(BACKOFF.initial * BACKOFF.multiplier**self._failures, BACKOFF.max)
            self._failures += 1
            self._failed_at = now
            self.hold(now + pause * (0.75 + chance / 4), "down")
        return self.wait_seconds(now)

    def hold(self, until: float, reason: str) -> None:
        """The forge said when to come back, or a failure did."""
        if until > self._not_before:
            self._not_before = until
            self.reason = reason

    def answered(self) -> None:
        self._failures = 0
