"""Leadership: which of the servers on one database runs the duties that only one may run.

The leader holds an advisory lock on a connection of its own, so that it loses the lock when it
dies. The others poll for the lock, because a waiting call would keep PostgreSQL from vacuuming.
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
# How often the leader checks that its connection, and with it the lock, still exists.
ROUND_SECONDS: Final = 5.0

# A machine that disappears must not keep the lock; by default PostgreSQL notices after hours.
_SETTINGS: Final = """
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
"""


class Leadership:
    """Servers on different schemas of one database have separate leaders."""

    def __init__(self, parameters: dict[str, Any], channel: str) -> None:
        """`channel` is where `call_leader` is heard."""
        self._parameters = parameters
        self._channel = channel

    async def run(self, duties: Callable[[], Awaitable[None]], on_call: Callable[[], None]) -> None:
        """Never returns. After a lost connection, another server may have the lock."""
        while True:
            try:
                async with await self._connect() as connection:
                    await _wait_for_turn(connection)
                    await self._hold(connection, duties, on_call)
            except psycopg.Error as error:
                log.warning("leadership is unknown: %s", error)
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
        # Before the duties start: they read everything first, so no call is missed.
        await listen(connection, self._channel)
        log.info("this server is the leader and runs the duties")
        running = asyncio.ensure_future(duties())
        try:
            while True:
                async for _ in connection.notifies(timeout=ROUND_SECONDS, stop_after=1):
                    on_call()
                await connection.execute("SELECT 1")
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def _wait_for_turn(connection: psycopg.AsyncConnection) -> None:
    while True:
        cursor = await connection.execute(
            "SELECT pg_try_advisory_lock(%s, hashtext(current_schema()))", [LOCK]
        )
        if await cursor.fetchone() == (True,):
            return
        await asyncio.sleep(TRY_SECONDS)
