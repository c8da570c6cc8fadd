"""Receives the commits of other servers on the same database.

PostgreSQL delivers the notifications in the order of the commits. Each names the events of a
commit, which are read from the store and passed on like the events of this server's own commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import psycopg

from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.events import Event
from shiftboss.store.port import CommitListener
from shiftboss.store.postgres.hung_database import AsyncBoundedConnection
from shiftboss.store.postgres.notifications import (
    EventRange,
    listen,
    parse_payload,
    payload_start,
)
from shiftboss.store.postgres.session import PostgresSession

log = logging.getLogger(__name__)

# How soon a call to catch up takes effect when no notification arrives.
ROUND_SECONDS = 1.0
RECONNECT_PAUSE_SECONDS = 1.0
EVENTS_PER_RANGE_MAX = 10_000
SWARMS_PER_CATCH_UP_MAX = 10_000

ReadEvents = Callable[[Callable[[PostgresSession], list[Event]]], Awaitable[list[Event]]]


class Listener:
    """Runs on the event loop, with a connection of its own.

    Notifications of `node`, this server, are skipped, because its events were passed on at the
    commit. Events of this server and of others in one swarm may arrive in the wrong order; event
    streams go by the ids.
    """

    def __init__(
        self,
        parameters: dict[str, Any],
        answer_seconds: float,
        node: str,
        channel: str,
        read: ReadEvents,
        on_commit: CommitListener,
        on_gap: Callable[[], None],
        on_settings: Callable[[], None],
    ) -> None:
        self._parameters = parameters
        self._answer_seconds = answer_seconds
        self._channel = channel
        self._read = read
        self._on_commit = on_commit
        self._on_gap = on_gap
        self._on_settings = on_settings
        self._missed = False
        self._own = payload_start(node)
        # Of other servers, not yet looked at.
        self._payloads: list[bytes] = []

    async def start(self) -> None:
        """From now on nothing is missed. Raises psycopg.Error."""
        connection = await self._connect()
        self._task = asyncio.create_task(self._run(connection))

    def catch_up(self) -> None:
        """Events may have been missed: report the gap soon, and the newest event of each swarm.

        That is enough for an event stream, which reads earlier events from the store.
        """
        self._missed = True

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, connection: psycopg.AsyncConnection) -> None:
        while True:
            try:
                async with connection:
                    await self._receive(connection)
            except (psycopg.Error, StoreUnavailable) as error:
                log.warning("events of other servers are delayed: %s", error)
            except Exception:
                log.exception("events of other servers are delayed")
            connection = await self._reconnect()
            self._missed = True

    async def _connect(self) -> psycopg.AsyncConnection:
        connection = await AsyncBoundedConnection.connect(**self._parameters, autocommit=True)
        connection.answer_seconds = self._answer_seconds
        connection.add_notify_handler(self._note_first)
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
                log.warning("events of other servers are still delayed: %s", error)

    async def _receive(self, connection: psycopg.AsyncConnection) -> None:
        arrivals = _Arrivals(connection, self._note)
        try:
            while True:
                if self._missed:
                    self._missed = False
                    self._on_gap()
                    self._on_settings()
                    await self._publish(_newest_events)
                if not self._payloads:
                    await arrivals.wait(ROUND_SECONDS)
                payloads, self._payloads = self._payloads, []
                announced = [known for each in payloads if (known := parse_payload(each))]
                if any(announcement.settings for announcement in announced):
                    self._on_settings()
                ranges = [events for announcement in announced for events in announcement.ranges]
                if ranges:
                    await self._publish(partial(_announced_events, ranges=ranges))
        finally:
            arrivals.close()

    def _note_first(self, notify: psycopg.Notify) -> None:
        """One that came with the answer to LISTEN."""
        self._note(notify.payload.encode())

    def _note(self, payload: bytes) -> bool:
        """Called for every notification, most of which are of this server itself and are not even
        parsed. Whether it is of another one."""
        if payload.startswith(self._own):
            return False
        self._payloads.append(payload)
        return True

    async def _publish(self, read: Callable[[PostgresSession], list[Event]]) -> None:
        events = await self._read(read)
        if events:
            self._on_commit(events)


class _Arrivals:
    """Reads the notifications of a connection when they arrive, with less effort than psycopg: it
    prepares a wait for each of them, and every commit leads to one."""

    def __init__(self, connection: psycopg.AsyncConnection, note: Callable[[bytes], bool]) -> None:
        self._pgconn = connection.pgconn
        self._note = note
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._error: psycopg.Error | None = None
        self._socket = connection.fileno()
        self._loop.add_reader(self._socket, self._read)
        self._read()

    async def wait(self, seconds: float) -> None:
        """Until another server's notification has arrived. Raises psycopg.Error if the connection
        was lost."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        self._arrived.clear()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._loop.remove_reader(self._socket)

    def _read(self) -> None:
        try:
            self._pgconn.consume_input()
            while (notify := self._pgconn.notifies()) is not None:
                if self._note(notify.extra):
                    self._arrived.set()
        except psycopg.Error as error:
            self._error = error
            self._loop.remove_reader(self._socket)
            self._arrived.set()


def _announced_events(session: PostgresSession, ranges: list[EventRange]) -> list[Event]:
    events: list[Event] = []
    for swarm_id, first, last in ranges:
        limit = min(last - first + 1, EVENTS_PER_RANGE_MAX)
        rows = session.fetch_all(
            "events_after", {"swarm_id": swarm_id, "event_id": first - 1, "limit": limit}
        )
        events += [event for row in rows if (event := Event(*row)).event_id <= last]
    return events


def _newest_events(session: PostgresSession) -> list[Event]:
    rows = session.fetch_all("newest_events", {"limit": SWARMS_PER_CATCH_UP_MAX})
    return [Event(*row) for row in rows]
