"""Runs the duties of a server, and starts them again if one of them ends with an error.

A duty handles what it expects by itself. An unexpected error must not leave a server that seems to
work but no longer ends leases.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Protocol

from shiftboss.coordinator.duties.duty_record import DutyRecord

log = logging.getLogger(__name__)

RESTART_SECONDS: Final = 5.0
# Duties that have run for this long count as well again.
WELL_SECONDS: Final = 30.0


class Duty(Protocol):
    """A background job. `on_every_server`: every server on a database runs it; else one does."""

    on_every_server: ClassVar[bool]
    record: DutyRecord

    async def run(self) -> None: ...


class DutyGroup:
    """Duties that run together. `failure` says what ended them last, until they run well again."""

    def __init__(self, duties: Sequence[Duty], elapsed: Callable[[], float]) -> None:
        self.duties = list(duties)
        self._elapsed = elapsed
        self._failed: tuple[float, str] | None = None

    @property
    def failure(self) -> str | None:
        if self._failed is None or self._elapsed() - self._failed[0] > WELL_SECONDS:
            return None
        return self._failed[1]

    async def run(self) -> None:
        """Ends, with an error, when one of them ends with one."""
        if not self.duties:
            await asyncio.Event().wait()
        try:
            async with asyncio.TaskGroup() as group:
                for duty in self.duties:
                    group.create_task(duty.run(), name=type(duty).__name__)
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
            self._failed = (self._elapsed(), f"{type(first).__name__}: {first}")
            raise
        finally:
            for duty in self.duties:
                duty.record.stopped()

    async def run_for_ever(self) -> None:
        while True:
            try:
                await self.run()
            except ExceptionGroup:
                log.exception("a duty ended; all of them start again in %g s", RESTART_SECONDS)
            await asyncio.sleep(RESTART_SECONDS)
