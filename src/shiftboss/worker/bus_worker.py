"""BusWorker: a worker on the bus, with the protocol's loop as `async for`."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from shiftboss.client.backoff import backoff_delays
from shiftboss.client.bus_client import POLL_TIMEOUT, BusClient
from shiftboss.client.http_client import validated
from shiftboss.client.servers import Servers
from shiftboss.errors import Conflict, InvalidRequest, UnknownTask, UnknownWorker
from shiftboss.protocol.bus import DEFAULT_SWARM, LEASE_SECONDS_MAX, RegisterWorkerRequest
from shiftboss.worker.bus_task import (
    FINAL_REPORT_SECONDS,
    LEFT_WITHOUT_RESULT,
    BusTask,
    failure_reason,
)
from shiftboss.worker.combined_calls import CombinedCalls
from shiftboss.worker.heartbeats import HEARTBEAT_SECONDS, StartHeartbeats, TaskHeartbeats

log = logging.getLogger(__name__)


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

    `server` is an address, or several of servers that share a database: a list, or a string with
    commas. The worker stays with the one that answers. `token_file` is read again when the server
    refuses the token.
    """

    def __init__(
        self,
        name: str,
        *,
        server: str | Sequence[str] | Servers | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        swarm_id: str | None = None,
        heartbeat_seconds: float | None = None,
    ) -> None:
        request = validated(RegisterWorkerRequest, name=name, swarm_id=swarm_id or DEFAULT_SWARM)
        self.name = request.name
        self.swarm_id = request.swarm_id
        self._heartbeat_seconds = _checked_seconds(heartbeat_seconds)
        self._client = BusClient(Servers.at(server, token, token_file, ca), request.swarm_id)
        self._combined = CombinedCalls(self._heartbeat_seconds)
        self._is_managed = False
        self._sessions: list[BusSession] = []

    def tasks(self) -> Tasks:
        """Tasks without end. Dropping the returned iterator means leaving the loop."""
        session = BusSession(
            self._client,
            self.name,
            self._heartbeat_seconds,
            managed=self._is_managed,
            combined=self._combined,
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
            await session.end(failure_reason(error))


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


class BusSession:
    """Holds one task at a time.

    `managed`: `async with` calls `end` in any case, so that an abandoned loop reports nothing.
    """

    def __init__(
        self,
        client: BusClient,
        worker: str,
        heartbeat_seconds: float,
        *,
        managed: bool,
        heartbeats: StartHeartbeats = TaskHeartbeats,
        combined: CombinedCalls | None = None,
    ) -> None:
        self._client = client
        self._worker = worker
        self._heartbeat_seconds = heartbeat_seconds
        self._is_managed = managed
        self._start_heartbeats = heartbeats
        self._registered = False
        self._combined = combined or CombinedCalls(heartbeat_seconds)
        self._offered: BusTask | None = None
        self._held: BusTask | None = None
        self._last: tuple[str, int] | None = None
        self._delays = backoff_delays()

    async def next(self) -> BusTask:
        """The next task, acknowledged. The previous one is settled first."""
        await self._settle(LEFT_WITHOUT_RESULT)
        while self._held is None:
            try:
                await self._advance()
            except UnknownWorker as error:
                log.info("%s; registering again", error.detail)
                self._registered = False
                self._offered = None
        return self._held

    async def end(self, reason: str) -> None:
        try:
            async with asyncio.timeout(FINAL_REPORT_SECONDS):
                await self._settle(reason)
                await self._return_next()
        except TimeoutError:
            log.warning("the server did not answer the final report: %s", reason)

    def abandon(self, consumer: asyncio.Task[Any] | None) -> None:
        """The loop was left, perhaps without a result for its task. Does not wait: the caller goes
        on."""
        if self._is_managed:
            return
        left = self._taken_along()
        if left is not None:
            threading.Thread(target=left.give_back_now).start()
        if self._held is None or self._held.is_over:
            return
        try:
            # The error that left the loop is known only when the consumer has ended.
            asyncio.get_running_loop().call_soon(_report_abandoned, self._held, consumer)
        except RuntimeError:
            _report_abandoned(self._held, consumer)

    async def _return_next(self) -> None:
        """The task that came with the last report was never begun."""
        left = self._taken_along()
        if left is not None:
            await left.return_unstarted()

    def _taken_along(self) -> BusTask | None:
        polled = self._combined.leave()
        return None if polled is None else self._task(polled["task"])

    async def _settle(self, reason: str) -> None:
        if self._held is not None:
            await self._held.settle(reason)
            self._held = None

    async def _advance(self) -> None:
        """One step towards a task. Each may be cancelled and repeated."""
        if not self._registered:
            await self._client.call("register_worker", {"name": self._worker})
            self._registered = True
        elif self._offered is None:
            polled = self._combined.take()
            await self._receive(await self._poll() if polled is None else polled)
        else:
            await self._acknowledge(self._offered)

    async def _poll(self) -> dict[str, Any]:
        members, key = self._combined.poll(self._worker)
        try:
            polled = await self._client.call("poll_task", members, key=key, timeout=POLL_TIMEOUT)
        except InvalidRequest as error:
            if not self._combined.is_refused(error):
                raise
            return await self._poll()
        if polled["task"] is not None:
            self._combined.note_delivery()
        return polled

    async def _receive(self, polled: dict[str, Any]) -> None:
        delivery = polled["task"]
        if delivery is None:
            return
        if (delivery["bead_id"], delivery["epoch"]) == self._last:
            await self._skip(delivery["bead_id"], "this attempt was already handed out here")
            return
        task = self._task(delivery)
        if not polled.get("acknowledged"):
            self._offered = task
            return
        task.begin(lease_runs=True)
        self._hold(task)

    def _task(self, delivery: dict[str, Any]) -> BusTask:
        return BusTask(
            self._client,
            self._worker,
            delivery,
            self._heartbeat_seconds,
            self._start_heartbeats,
            self._combined,
        )

    def _hold(self, task: BusTask) -> None:
        self._last = (task.bead_id, task.epoch)
        self._delays = backoff_delays()
        self._offered, self._held = None, task

    async def _acknowledge(self, offered: BusTask) -> None:
        try:
            await offered.acknowledge()
        except (Conflict, UnknownTask) as error:
            self._offered = None
            await self._skip(offered.bead_id, error.detail)
            return
        self._hold(offered)

    async def _skip(self, bead_id: str, reason: str) -> None:
        log.warning("cannot take %s: %s; polling again", bead_id, reason)
        await asyncio.sleep(next(self._delays))


def _report_abandoned(task: BusTask, consumer: asyncio.Task[Any] | None) -> None:
    error = None
    if consumer is not None and consumer.done() and not consumer.cancelled():
        error = consumer.exception()
    # Not a daemon thread: the process waits for the final report, the event loop might not.
    threading.Thread(target=task.settle_now, args=(failure_reason(error),)).start()


def _checked_seconds(seconds: float | None) -> float:
    if seconds is None:
        return HEARTBEAT_SECONDS
    if not 0 < seconds <= LEASE_SECONDS_MAX / 3:
        raise InvalidRequest(
            f"heartbeat_seconds: must be above 0 and at most {LEASE_SECONDS_MAX // 3}",
            field="heartbeat_seconds",
        )
    return float(seconds)
