"""A worker's session on the bus: register, poll, acknowledge, hand out the task, poll again."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

from shiftboss.client.backoff import pauses
from shiftboss.client.bus_client import POLL_MS, POLL_TIMEOUT, BusClient
from shiftboss.errors import Conflict, UnknownTask, UnknownWorker
from shiftboss.worker.bus_task import LAST_WORD_SECONDS, BusTask

log = logging.getLogger(__name__)

LEFT = "left without a result"
REASON_CHARACTERS_MAX = 2_000


def reason_of(error: BaseException | None) -> str:
    if error is None or isinstance(error, asyncio.CancelledError | GeneratorExit):
        return LEFT
    return f"{type(error).__name__}: {error}".replace("\0", "")[:REASON_CHARACTERS_MAX]


class BusSession:
    """Holds one task at a time.

    `managed`: `async with` calls `end` in any case, so that an abandoned loop reports nothing.
    """

    def __init__(
        self, client: BusClient, worker: str, heartbeat_seconds: float, *, managed: bool
    ) -> None:
        self._client = client
        self._worker = worker
        self._heartbeat_seconds = heartbeat_seconds
        self._is_managed = managed
        self._registered = False
        self._offered: BusTask | None = None
        self._held: BusTask | None = None
        self._last: tuple[str, int] | None = None
        self._delays = pauses()

    async def next(self) -> BusTask:
        """The next task, acknowledged. The previous one is settled first."""
        await self._settle(LEFT)
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
            async with asyncio.timeout(LAST_WORD_SECONDS):
                await self._settle(reason)
        except TimeoutError:
            log.warning("the server did not answer the final report: %s", reason)

    def abandon(self, consumer: asyncio.Task[Any] | None) -> None:
        """The loop was left, perhaps without a result for its task. Does not wait: the caller goes
        on."""
        if self._held is None or self._held.is_over or self._is_managed:
            return
        try:
            # The error that left the loop is known only when the consumer has ended.
            asyncio.get_running_loop().call_soon(_report_abandoned, self._held, consumer)
        except RuntimeError:
            _report_abandoned(self._held, consumer)

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
            await self._poll()
        else:
            await self._acknowledge(self._offered)

    async def _poll(self) -> None:
        polled = await self._client.call(
            "poll_task", {"name": self._worker, "timeout_ms": POLL_MS}, timeout=POLL_TIMEOUT
        )
        delivery = polled["task"]
        if delivery is None:
            return
        if (delivery["bead_id"], delivery["epoch"]) == self._last:
            await self._skip(delivery["bead_id"], "this attempt was already handed out here")
            return
        self._offered = BusTask(self._client, self._worker, delivery, self._heartbeat_seconds)

    async def _acknowledge(self, offered: BusTask) -> None:
        try:
            await offered.acknowledge()
        except (Conflict, UnknownTask) as error:
            self._offered = None
            await self._skip(offered.bead_id, error.detail)
            return
        self._last = (offered.bead_id, offered.epoch)
        self._delays = pauses()
        self._offered, self._held = None, offered

    async def _skip(self, bead_id: str, reason: str) -> None:
        log.warning("cannot take %s: %s; polling again", bead_id, reason)
        await asyncio.sleep(next(self._delays))


def _report_abandoned(task: BusTask, consumer: asyncio.Task[Any] | None) -> None:
    error = None
    if consumer is not None and consumer.done() and not consumer.cancelled():
        error = consumer.exception()
    # Not a daemon thread: the process waits for the final report, the event loop might not.
    threading.Thread(target=task.settle_now, args=(reason_of(error),)).start()
