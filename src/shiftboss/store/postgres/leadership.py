"""Leadership: which of the servers on one database runs the duties that only one may run.

The leader has a lease in the database, measured by the clock of the database, and renews it. If it
stops doing so, dead or not, another server takes over with the next term; if its connection is
gone, at once. What the duties write is fenced: their transactions check the term, so a leader that
was stopped cannot commit anything for its old term when it comes back (`Transaction.hold_term`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import psycopg

from shiftboss.errors import LeadershipLost
from shiftboss.store.postgres.hung_database import AsyncBoundedConnection
from shiftboss.store.postgres.notifications import listen
from shiftboss.store.postgres.session import named_queries
from shiftboss.system.elapsed import elapsed_seconds

log = logging.getLogger(__name__)

RECONNECT_PAUSE_SECONDS: Final = 1.0
# How often the others look whether the leader is gone.
TRY_SECONDS: Final = 2.0
# No server may choose a longer lease.
LEAD_SECONDS_MAX: Final = 300.0
# Shares of the lease: the pause between two renewals, and how long one may take. Their sum is less
# than 1, so a leader without an answer stops before another server may start.
RENEWAL_SHARE: Final = 0.3
ANSWER_SHARE: Final = 0.6
# The payload by which a leader that stops calls the others. A call of the leader has none.
RELEASED: Final = "released"
# How long one attempt to take over waits for a transaction of the previous leader.
_LOCK_SECONDS: Final = 1.0


class Leadership:
    """Servers on different schemas of one database have separate leaders."""

    def __init__(
        self,
        parameters: dict[str, Any],
        node: str,
        channel: str,
        lead_seconds: float,
        elapsed: Callable[[], float] = elapsed_seconds,
    ) -> None:
        """`channel` is where `call_leader` is heard."""
        self._elapsed = elapsed
        self._parameters = parameters
        self._node = node
        self._channel = channel
        self._lead_seconds = min(lead_seconds, LEAD_SECONDS_MAX)
        self._lead_ms = round(self._lead_seconds * 1000)
        self._term: int | None = None
        self._ends_at = 0.0

    @property
    def term(self) -> int:
        """Raises LeadershipLost if this server does not lead, or cannot know that it does."""
        if self._term is None or self._elapsed() >= self._ends_at:
            raise LeadershipLost
        return self._term

    async def run(self, duties: Callable[[], Awaitable[None]], on_call: Callable[[], None]) -> None:
        """Never returns. After a lost connection, another server may have taken over. Duties that
        end with an error are left to another server, or started again."""
        while True:
            try:
                async with await self._connect() as connection:
                    while True:
                        term = await self._wait_for_turn(connection)
                        await self._hold(connection, term, duties, on_call)
                        # Time for another server to take over what has failed here.
                        await asyncio.sleep(RECONNECT_PAUSE_SECONDS)
            except psycopg.Error as error:
                log.warning("leadership is unknown: %s", error)
            await asyncio.sleep(RECONNECT_PAUSE_SECONDS)

    async def _connect(self) -> AsyncBoundedConnection:
        connection = await AsyncBoundedConnection.connect(**self._parameters, autocommit=True)
        connection.answer_seconds = self._lead_seconds * ANSWER_SHARE
        try:
            await connection.execute(f"SET lock_timeout = '{_LOCK_SECONDS:g}s'".encode())
            # Before the lead is taken: the duties read everything first, so no call is missed.
            await listen(connection, self._channel)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _wait_for_turn(self, connection: AsyncBoundedConnection) -> int:
        """Ask when the lease of the leader may be over, or when it is released; the new term."""
        while True:
            self._ends_at = self._elapsed() + self._lead_seconds
            row = await self._try_to_lead(connection)
            if row is not None:
                return int(row[0])
            cursor = await connection.execute(named_queries()["lead_left_ms"])
            (left_ms,) = await cursor.fetchone() or (0,)
            seconds = min(max(left_ms / 1000, 0.1), TRY_SECONDS)
            async for payload in _calls(connection, seconds):
                if payload == RELEASED:
                    break

    async def _try_to_lead(self, connection: AsyncBoundedConnection) -> tuple[int] | None:
        parameters = {
            "node": self._node,
            "lead_ms": self._lead_ms,
            "lead_ms_max": round(LEAD_SECONDS_MAX * 1000),
        }
        try:
            cursor = await connection.execute(named_queries()["take_lead"], parameters)
        except psycopg.errors.LockNotAvailable:
            return None  # a transaction of the previous leader is still open
        return await cursor.fetchone()

    async def _hold(
        self,
        connection: AsyncBoundedConnection,
        term: int,
        duties: Callable[[], Awaitable[None]],
        on_call: Callable[[], None],
    ) -> None:
        """Run the duties as long as the lease is renewed."""
        self._term = term
        log.info("this server is the leader of term %d and runs the duties", term)
        running = asyncio.ensure_future(duties())
        try:
            await self._keep(connection, term, on_call, running)
            if not running.done():
                log.warning("another server leads: this one was silent for too long")
        finally:
            self._term = None
            running.cancel()
            (outcome,) = await asyncio.gather(running, return_exceptions=True)
            if isinstance(outcome, Exception):
                log.error("the duties of the leader ended: the lead is given up", exc_info=outcome)
            await self._release(connection, term)

    async def _keep(
        self,
        connection: AsyncBoundedConnection,
        term: int,
        on_call: Callable[[], None],
        running: asyncio.Future[None],
    ) -> None:
        """Renew the lease until another server leads, or until the duties have ended."""
        while not running.done():
            async for payload in _calls(connection, self._lead_seconds * RENEWAL_SHARE):
                if payload != RELEASED:
                    on_call()
            ends_at = self._elapsed() + self._lead_seconds
            cursor = await connection.execute(
                named_queries()["renew_lead"], {"term": term, "lead_ms": self._lead_ms}
            )
            if cursor.rowcount == 0:
                return
            self._ends_at = ends_at

    async def _release(self, connection: AsyncBoundedConnection, term: int) -> None:
        """Let another server take over at once. If that fails, it does when the lease is over."""
        if connection.closed:
            return
        queries = named_queries()
        try:
            cursor = await connection.execute(queries["release_lead"], {"term": term})
            if cursor.rowcount:
                call = {"channel": self._channel, "payload": RELEASED}
                await connection.execute(queries["announce"], call)
        except psycopg.Error as error:
            log.warning("the lead could not be handed over: %s", error)


async def _calls(connection: AsyncBoundedConnection, seconds: float) -> AsyncIterator[str]:
    """The payloads that arrive in the next `seconds`."""
    ends_at = elapsed_seconds() + seconds
    while (left := ends_at - elapsed_seconds()) > 0:
        # Read to its end: an iterator that is left early keeps the connection locked.
        arrived = [call.payload async for call in connection.notifies(timeout=left, stop_after=1)]
        for payload in arrived:
            yield payload
