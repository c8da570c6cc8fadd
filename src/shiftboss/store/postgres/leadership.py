"""Which of the servers on one database has the duties that one alone has.

A lock of the database says it, held by a connection of its own: whoever dies lets go of it. The
others try again and again; a call that waits for it would keep PostgreSQL from cleaning up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import psycopg

from shiftboss.store.postgres.notifications import listen

log = logging.getLogger(__name__)

LOCK: Final = 0x5B055
TRY_SECONDS: Final = 1.0
# How often the holder makes sure that its connection, and with it the lock, is still there.
ROUND_SECONDS: Final = 5.0

# A machine that is gone without a word must not keep the lock: PostgreSQL would notice in hours.
_SETTINGS: Final = """
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
"""


class Leadership:
    """Servers that keep their tables in schemas of their own do not know each other."""

    def __init__(self, parameters: dict[str, Any], channel: str) -> None:
        """`channel` is where `call_leader` is heard."""
        self._parameters = parameters
        self._channel = channel

    async def run(self, duties: Callable[[], Awaitable[None]], on_call: Callable[[], None]) -> None:
        """For ever. When the connection is lost, another server may have the lock already."""
        while True:
            try:
                async with await self._connect() as connection:
                    await _wait_for_turn(connection)
                    await self._hold(connection, duties, on_call)
            except psycopg.Error as error:
                log.warning("who has the duties is not known: %s", error)
            await asyncio.sleep(TRY_SECONDS)

    async def _connect(self) -> psycopg.AsyncConnection:
        connection = await psycopg.AsyncConnection.connect(**self._parameters, autocommit=True)
        try:
            await connection.execute(_SETTINGS)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _hold(
        self,
        connection: psycopg.AsyncConnection,
        duties: Callable[[], Awaitable[None]],
        on_call: Callable[[], None],
    ) -> None:
        # Before the duties begin: they look at everything first, so no call is missed.
        await listen(connection, self._channel)
        log.info("this server has the duties")
        doing = asyncio.ensure_future(duties())
        try:
            while True:
                async for _ in connection.notifies(timeout=ROUND_SECONDS, stop_after=1):
                    on_call()
                await connection.execute("SELECT 1")
        finally:
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)


async def _wait_for_turn(connection: psycopg.AsyncConnection) -> None:
    while True:
        found = await connection.execute(
            "SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))", [LOCK]
        )
        if await found.fetchone() == (True,):
            return
        await asyncio.sleep(TRY_SECONDS)
