"""The clock of the database, which all servers on it go by, and the skew of this machine's clock.

If every server went by its own clock, one that is ahead would end the leases and the offers of the
others.
"""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar, Final, Literal

from shiftboss.coordinator.clock import MachineClocks
from shiftboss.coordinator.duties.duty_record import DutyRecord
from shiftboss.errors import ShiftbossError
from shiftboss.store.port import ClockReading, Store

log = logging.getLogger(__name__)

MEASURE_SECONDS: Final = 30.0
# The answer that took the shortest time says the most: half of that time is its error.
READINGS_AT_START: Final = 5
READINGS_LATER: Final = 3
WARN_SKEW_MS: Final = 1000

_NS_PER_MS: Final = 1_000_000
_SET_IT: Final = (
    "set the clock of this machine (chronyc makestep, or timedatectl set-ntp true), or that of the "
    "database; `serve --clock-skew-max 0` accepts any difference"
)

SkewLevel = Literal["fine", "warning", "too large"]


class ClockSkewed(ShiftbossError):
    code = "clock_skewed"
    status = 503
    title = "The clocks of this machine and of the database differ too much"


class DatabaseClock:
    """Call it for the time of the database in nanoseconds: the time when it was measured, plus the
    time that has passed on this machine. A duty measures it again."""

    on_every_server: ClassVar = True

    def __init__(self, store: Store, machine: MachineClocks, skew_max_seconds: float) -> None:
        """`skew_max_seconds`: a larger skew is refused; 0: none is."""
        self._store = store
        self._machine = machine
        self._skew_max_ms = skew_max_seconds * 1000
        # The database's clock minus the one that measures time.
        self._offset_ns: int | None = None
        self._skew_ms: int | None = None
        self._told: SkewLevel = "fine"
        self.record = DutyRecord(type(self).__name__)

    def __call__(self) -> int:
        assert self._offset_ns is not None, "it was not measured yet"
        return self._machine.elapsed_ns() + self._offset_ns

    @property
    def skew_ms(self) -> int | None:
        """How far the wall clock of this machine is ahead of the database's, when it was measured
        last; None if it was not, as for a database that has no clock of its own."""
        return self._skew_ms

    async def start(self) -> bool:
        """Whether the database has a clock of its own. Raises ClockSkewed."""
        await self._measure(READINGS_AT_START)
        if self._skew_ms is None:
            return False
        problem = self.problem()
        if problem is not None:
            raise problem
        self._tell()
        return True

    async def run(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_SECONDS)
            try:
                with self.record.round():
                    await self.measure_again()
            except ShiftbossError as error:
                log.info("the clock of the database cannot be read: %s", error.detail)

    async def measure_again(self) -> None:
        await self._measure(READINGS_LATER)
        self._tell()

    def problem(self) -> ClockSkewed | None:
        """Why this server should get no requests; None if its clock is near the database's."""
        if self._level() != "too large":
            return None
        return ClockSkewed(
            f"the clock of this machine is {_difference(self._skew_ms or 0)} the clock of the "
            f"database; up to {self._skew_max_ms / 1000:g} s is accepted",
            field="clock_skew_max",
            hint=_SET_IT,
        )

    async def _measure(self, readings: int) -> None:
        best: ClockReading | None = None
        for _ in range(readings):
            reading = await self._store.read_clock(self._machine.elapsed_ns)
            if reading is None:
                return
            if best is None or _took_ns(reading) < _took_ns(best):
                best = reading
        if best is not None:
            self._offset_ns = best.database_ns - (best.before_ns + best.after_ns) // 2
            self._skew_ms = round((self._machine.wall_ns() - self()) / _NS_PER_MS)

    def _level(self) -> SkewLevel:
        skew_ms = abs(self._skew_ms or 0)
        if self._skew_max_ms and skew_ms > self._skew_max_ms:
            return "too large"
        return "warning" if skew_ms > WARN_SKEW_MS else "fine"

    def _tell(self) -> None:
        """Log what has changed since the last measurement."""
        level = self._level()
        if level == self._told:
            return
        self._told = level
        problem = self.problem()
        difference = _difference(self._skew_ms or 0)
        if problem is not None:
            log.error("%s: no longer ready for requests; %s", problem.detail, problem.hint)
        elif level == "warning":
            log.warning(
                "the clock of this machine is %s the clock of the database. Leases and deadlines "
                "go by the database's; certificates, logs and other programs by this one",
                difference,
            )
        else:
            log.warning("the clock of this machine agrees with the clock of the database again")


def _took_ns(reading: ClockReading) -> int:
    return reading.after_ns - reading.before_ns


def _difference(skew_ms: int) -> str:
    return f"{abs(skew_ms) / 1000:.1f} s {'ahead of' if skew_ms > 0 else 'behind'}"
