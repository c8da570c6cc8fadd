"""Keeps what this server remembers of the deployment's settings equal to the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from shiftboss.errors import ShiftbossError

log = logging.getLogger(__name__)

Load = Callable[[], Awaitable[None]]

RETRY_SECONDS: Final = 1.0


class SharedSettings:
    """Tokens, keys and the policy are read at the start, after every change by this server, and
    when another server announces a change. A part that keeps one of them in
    memory adds its `load`."""

    def __init__(self) -> None:
        self._loads: list[Load] = []
        self._reading = asyncio.Lock()
        self._reloading: asyncio.Task[None] | None = None
        self._is_stale = False

    def add(self, load: Load) -> None:
        self._loads.append(load)

    async def read(self) -> None:
        """Read everything now, in the order in which it was added. An unreadable setting does not
        prevent reading the others: a policy that this server does not understand must not keep a
        revoked token valid."""
        errors: list[Exception] = []
        async with self._reading:
            for load in self._loads:
                try:
                    await load()
                except Exception as error:  # noqa: BLE001 (raised below)
                    errors.append(error)
        if errors:
            raise errors[0]

    async def read_own_change(self) -> None:
        """Read everything before a change is answered. It was committed: if it cannot be read now,
        it is read as soon as possible."""
        try:
            await self.read()
        except ShiftbossError as error:
            log.warning("the settings of the deployment cannot be read: %s", error.detail)
            self.changed()

    def changed(self) -> None:
        """Another server may have changed something: read everything soon."""
        self._is_stale = True
        if self._reloading is None or self._reloading.done():
            self._reloading = asyncio.get_running_loop().create_task(self._read_again())

    async def _read_again(self) -> None:
        while self._is_stale:
            self._is_stale = False
            try:
                await self.read()
            except ShiftbossError as error:
                log.warning("the settings of the deployment cannot be read: %s", error.detail)
                self._is_stale = True
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                log.exception("the settings of the deployment cannot be read")
                self._is_stale = True
                await asyncio.sleep(RETRY_SECONDS)

    async def stop(self) -> None:
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.gather(self._reloading, return_exceptions=True)
