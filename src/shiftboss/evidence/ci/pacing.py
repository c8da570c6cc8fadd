"""When a forge may be asked again. Times are of a monotonic clock and come in as arguments."""

from __future__ import annotations

from typing import Final

from shiftboss.protocol.policy import Backoff

BACKOFF: Final = Backoff()


class Pacing:
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
