"""Hears of the commits of other servers on the same database.

PostgreSQL delivers the announcements in the order of the commits. Each names the events that a
commit brought; they are read from the store and told to this server as its own commits are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import psycopg

from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.events import Event
from shiftboss.store.port import CommitListener
from shiftboss.store.postgres.notifications import EventRange, listen, parse_payload
from shiftboss.store.postgres.session import PostgresSession

log = logging.getLogger(__name__)

# How soon a call to catch up is heeded when nobody else says anything.
ROUND_SECONDS = 1.0
RECONNECT_PAUSE_SECONDS = 1.0
EVENTS_PER_RANGE_MAX = 10_000
SWARMS_PER_CATCH_UP_MAX = 10_000

ReadEvents = Callable[[Callable[[PostgresSession], list[Event]]], Awaitable[list[Event]]]


class Listener:
    """Lives on the event loop, with a connection of its own.

    What `node`, this server, announces is skipped: it was told at its commit. Between the events
    of this server and those of others in one swarm the order can be swapped; event streams go by
    the ids.
    """

    def __init__(
        self,
        parameters: dict[str, Any],
        node: str,
        channel: str,
        read: ReadEvents,
        on_commit: CommitListener,
        on_gap: Callable[[], None],
    ) -> None:
        self._parameters = parameters
        self._node = node
        self._channel = channel
        self._read = read
        self._on_commit = on_commit
        self._on_gap = on_gap
        self._missed = False

    async def start(self) -> None:
        """From here on nothing is missed. Raises psycopg.Error."""
        connection = await self._connect()
        self._task = asyncio.create_task(self._run(connection))

    def catch_up(self) -> None:
        """Something may have been missed: say so soon, and tell the newest event of each swarm.

        Enough for an event stream: it reads from the store what lies before it.
        """
        self._missed = True

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, connection: psycopg.AsyncConnection) -> None:
        while True:
            try:
                async with connection:
                    await self._hear(connection)
            except (psycopg.Error, StoreUnavailable) as error:
                log.warning("events of other servers wait: %s", error)
            except Exception:
                log.exception("events of other servers wait")
            connection = await self._reconnect()
            self._missed = True

    async def _connect(self) -> psycopg.AsyncConnection:
        connection = await psycopg.AsyncConnection.connect(**self._parameters, autocommit=True)
        try:
            await listen(connection, self._channel)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _reconnect(self) -> psycopg.AsyncConnection:
        while True:
            await asyncio.sleep(RECONNECT_PAUSE_SECONDS)
            try:
                return await self._connect()
            except psycopg.Error as error:
                log.warning("events of other servers still wait: %s", error)

    async def _hear(self, connection: psycopg.AsyncConnection) -> None:
        while True:
            if self._missed:
                self._missed = False
                self._on_gap()
                await self._tell(_newest_events)
            notices = connection.notifies(timeout=ROUND_SECONDS, stop_after=1)
            ranges = self._of_others([notice.payload async for notice in notices])
            if ranges:
                await self._tell(partial(_announced_events, ranges=ranges))

    async def _tell(self, read: Callable[[PostgresSession], list[Event]]) -> None:
        events = await self._read(read)
        if events:
            self._on_commit(events)

    def _of_others(self, payloads: list[str]) -> list[EventRange]:
        announcements = [parse_payload(payload) for payload in payloads]
        return [
            event_range
            for announcement in announcements
            if announcement is not None and announcement.node != self._node
            for event_range in announcement.ranges
        ]


def _announced_events(session: PostgresSession, ranges: list[EventRange]) -> list[Event]:
    found: list[Event] = []
    for swarm_id, first, last in ranges:
        limit = min(last - first + 1, EVENTS_PER_RANGE_MAX)
        rows = session.fetch_all(
            "events_after", {"swarm_id": swarm_id, "event_id": first - 1, "limit": limit}
        )
        found += [event for row in rows if (event := Event(*row)).event_id <= last]
    return found


def _newest_events(session: PostgresSession) -> list[Event]:
    rows = session.fetch_all("newest_events", {"limit": SWARMS_PER_CATCH_UP_MAX})
    return [Event(*row) for row in rows]
