"""The clock of the outermost layer. Everything below gets the time as an argument."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from shiftboss.system.elapsed import elapsed_ns

log = logging.getLogger(__name__)

Clock = Callable[[], int]

_MS: Final = 1_000_000
# A thousandth: a lease of half an hour changes by less than two seconds.
SLEW_DIVISOR: Final = 1000
# How often it is compared with the wall clock, at most.
CHECK_NS: Final = 1000 * _MS
# A larger difference to the wall clock is logged: it takes weeks to go away.
TOLD_NS: Final = 60_000 * _MS


def system_clock() -> int:
    """The wall clock: milliseconds since 1970 in UTC."""
    return time.time_ns() // _MS


class MachineClocks(NamedTuple):
    """The clocks of the machine: the wall clock, and one that only measures time."""

    wall_ns: Callable[[], int] = time.time_ns
    elapsed_ns: Callable[[], int] = elapsed_ns


class ServerClock:
    """The time of one server: the wall clock at the start, plus the time that has passed since.

    It never goes back and never jumps. If the wall clock is set, leases, retries and pauses take as
    long as before. From then on this clock is a thousandth slower or faster than time, until it
    agrees with the wall clock again. A restart corrects it at once.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        elapsed_ns: Callable[[], int] = elapsed_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self._elapsed_ns = elapsed_ns
        self._checked_at_ns = elapsed_ns()
        self._now_ns = wall_ns()
        # By how much it was ahead of the wall clock, and how fast it runs, in thousandths.
        self._ahead_ns = 0
        self._rate = SLEW_DIVISOR
        self._has_told = False
        self._reference = "this machine's clock"

    def __call__(self) -> int:
        """Milliseconds since 1970 in UTC."""
        passed_ns = self._elapsed_ns() - self._checked_at_ns
        if passed_ns < CHECK_NS:
            return (self._now_ns + passed_ns * self._rate // SLEW_DIVISOR) // _MS
        return self._check(passed_ns)

    def _check(self, passed_ns: int) -> int:
        """Compare with the wall clock."""
        slew_ns = min(passed_ns // SLEW_DIVISOR, abs(self._ahead_ns))
        self._now_ns += passed_ns + slew_ns * (self._rate - SLEW_DIVISOR)
        self._checked_at_ns += passed_ns
        self._compare()
        return self._now_ns // _MS

    def _compare(self) -> None:
        self._ahead_ns = ahead_ns = self._now_ns - self._wall_ns()
        self._rate = SLEW_DIVISOR
        if abs(ahead_ns) > CHECK_NS // SLEW_DIVISOR:
            self._rate += -1 if ahead_ns > 0 else 1
        if abs(ahead_ns) > TOLD_NS:
            self._tell(ahead_ns)
        else:
            self._has_told = False

    def follow(self, reference_ns: Callable[[], int], reference: str) -> None:
        """Take another clock for the wall clock, from now on: the database's, which all its
        servers share. Call it before anything is stored by this clock: it may set the time back."""
        self._wall_ns, self._reference = reference_ns, reference
        self._checked_at_ns = self._elapsed_ns()
        self._now_ns = reference_ns()
        self._compare()

    def continue_after(self, at_ms: int) -> None:
        """`at_ms` is the latest time in the store: times stored from now on are not earlier."""
        if at_ms > self():
            self._checked_at_ns = self._elapsed_ns()
            self._now_ns = at_ms * _MS
            self._compare()

    def _tell(self, ahead_ns: int) -> None:
        if not self._has_told:
            self._has_told = True
            log.warning(
                "the server's time is %.0f s %s of %s, and approaches it slowly: "
                "the clock was set, or the stored times are from a wrong clock",
                abs(ahead_ns) / 1e9,
                "ahead" if ahead_ns > 0 else "behind",
                self._reference,
            )
