"""The record of a duty since it was started here: for metrics, and to notice one that is stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from shiftboss.system.elapsed import elapsed_seconds

# Five of the longest pauses of a timer. A duty without a success for so long is stuck: it hangs in
# a round, or every round fails.
STUCK_SECONDS: Final = 300.0


class DutyRecord:
    """A duty that has nothing to do is not stuck, however long it waits."""

    def __init__(
        self,
        name: str,
        stuck_seconds: float = STUCK_SECONDS,
        elapsed: Callable[[], float] = elapsed_seconds,
    ) -> None:
        self.name = name
        self.runs = 0
        self.failures = 0
        self.last_error = ""
        self._stuck_seconds = stuck_seconds
        self._elapsed = elapsed
        self._succeeded_at: float | None = None
        # When the first round began that was not followed by a success.
        self._at_it_since: float | None = None

    @contextmanager
    def round(self) -> Iterator[None]:
        """One round of the duty. Its errors are noted, and raised as before."""
        self.runs += 1
        if self._at_it_since is None:
            self._at_it_since = self._elapsed()
        try:
            yield
        except Exception as error:
            self.failures += 1
            self.last_error = str(error) or type(error).__name__
            raise
        self._at_it_since = None
        self._succeeded_at = self._elapsed()

    def stopped(self) -> None:
        """This server no longer runs the duty, until its next round."""
        self._at_it_since = self._succeeded_at = None

    @property
    def seconds_since_success(self) -> float | None:
        """None if there was none yet, or the duty does not run here."""
        return None if self._succeeded_at is None else self._elapsed() - self._succeeded_at

    @property
    def stuck_for_seconds(self) -> float | None:
        """None if it is not stuck."""
        if self._at_it_since is None:
            return None
        seconds = self._elapsed() - self._at_it_since
        return seconds if seconds > self._stuck_seconds else None
