"""BusWorker: a worker on the bus, with the protocol's loop as `async for`."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from shiftboss.client.bus_client import BusClient
from shiftboss.client.requests import validated
from shiftboss.client.server_address import Server
from shiftboss.errors import InvalidRequest
from shiftboss.protocol.bus import DEFAULT_SWARM, LEASE_SECONDS_MAX, RegisterWorkerRequest
from shiftboss.worker.bus_session import BusSession, reason_of
from shiftboss.worker.bus_task import BusTask
from shiftboss.worker.heartbeats import HEARTBEAT_SECONDS


class BusWorker:
    """Takes tasks, one at a time:

        async with BusWorker("z.ai1") as worker:
            async for task in worker.tasks():
                ...
                await task.done()

    It waits for a server that is down, and registers again with one that has forgotten it. While
    the caller holds a task, heartbeats keep its lease. An error that leaves the loop reports the
    task as failed, and so does leaving the loop without a result. Without `async with` the loop
    works as well, but then an error that is caught outside of it is not reported.
    """

    def __init__(
        self,
        name: str,
        *,
        server: str | None = None,
        token: str | None = None,
        swarm_id: str | None = None,
        heartbeat_seconds: float | None = None,
    ) -> None:
        request = validated(RegisterWorkerRequest, name=name, swarm_id=swarm_id or DEFAULT_SWARM)
        self.name = request.name
        self.swarm_id = request.swarm_id
        self._heartbeat_seconds = _checked_seconds(heartbeat_seconds)
        self._client = BusClient(Server.at(server, token), request.swarm_id)
        self._is_managed = False
        self._sessions: list[BusSession] = []

    def tasks(self) -> Tasks:
        """Tasks without end. Dropping the returned iterator means leaving the loop."""
        session = BusSession(
            self._client, self.name, self._heartbeat_seconds, managed=self._is_managed
        )
        if self._is_managed:
            self._sessions.append(session)
        return Tasks(session)

    async def __aenter__(self) -> Self:
        self._is_managed = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_managed = False
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            await session.end(reason_of(error))


class Tasks:
    """The iterator of `async for`. When it is dropped, its session reports the task it holds."""

    def __init__(self, session: BusSession) -> None:
        self._session = session
        self._consumer: asyncio.Task[Any] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BusTask:
        self._consumer = asyncio.current_task()
        return await self._session.next()

    def __del__(self) -> None:
        self._session.abandon(self._consumer)


def _checked_seconds(seconds: float | None) -> float:
    if seconds is None:
        return HEARTBEAT_SECONDS
    if not 0 < seconds <= LEASE_SECONDS_MAX / 3:
        raise InvalidRequest(
            f"heartbeat_seconds: must be above 0 and at most {LEASE_SECONDS_MAX // 3}",
            field="heartbeat_seconds",
        )
    return float(seconds)
