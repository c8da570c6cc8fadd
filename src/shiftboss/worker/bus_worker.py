"""BusWorker: a worker on the bus, with the protocol's loop as `async for`."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from shiftboss.client.bus_client import BusClient
from shiftboss.client.exchange import checked
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

    A server that is away is waited for, one that has forgotten the worker is told of it again.
    While the caller has a task, heartbeats keep its lease. An error that leaves the loop reports
    the task as failed and goes on; so does leaving it without a result. Without `async with` the
    loop works as well, but an error that is caught outside of it is not told to the server.
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
        said = checked(RegisterWorkerRequest, name=name, swarm_id=swarm_id or DEFAULT_SWARM)
        self.name = said.name
        self.swarm_id = said.swarm_id
        self._heartbeat_seconds = _checked_seconds(heartbeat_seconds)
        self._line = BusClient(Server.at(server, token), said.swarm_id)
        self._attended = False
        self._shifts: list[BusSession] = []

    def tasks(self) -> Tasks:
        """The tasks that come, without end. To drop what this returns is to leave the loop."""
        shift = BusSession(self._line, self.name, self._heartbeat_seconds, attended=self._attended)
        if self._attended:
            self._shifts.append(shift)
        return Tasks(shift)

    async def __aenter__(self) -> Self:
        self._attended = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._attended = False
        shifts, self._shifts = self._shifts, []
        for shift in shifts:
            await shift.end(reason_of(error))


class Tasks:
    """What `async for` goes over. One that is dropped tells the server what it had in hand."""

    def __init__(self, shift: BusSession) -> None:
        self._shift = shift
        self._consumer: asyncio.Task[Any] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> BusTask:
        self._consumer = asyncio.current_task()
        return await self._shift.next()

    def __del__(self) -> None:
        self._shift.abandon(self._consumer)


def _checked_seconds(seconds: float | None) -> float:
    if seconds is None:
        return HEARTBEAT_SECONDS
    if not 0 < seconds <= LEASE_SECONDS_MAX / 3:
        raise InvalidRequest(
            f"heartbeat_seconds: must be above 0 and at most {LEASE_SECONDS_MAX // 3}",
            field="heartbeat_seconds",
        )
    return float(seconds)
