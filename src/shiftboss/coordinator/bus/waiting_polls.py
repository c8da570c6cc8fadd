"""Polls that wait on this server: parked at the hub until an event concerns their worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from pydantic_core import from_json

from shiftboss.coordinator.bus import polls
from shiftboss.coordinator.bus.free_workers import OFFERS_READ_MAX, FreeWorkers
from shiftboss.coordinator.bus.workers import E, Ended
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.deployment.admission import Admissions
from shiftboss.coordinator.event_hub import Hub, ParkedPoll, wake
from shiftboss.errors import InvalidRequest, ShiftbossError
from shiftboss.protocol.bus import (
    POLL_MS_MAX,
    BusRequest,
    Delivery,
    DoneRequest,
    PollAnswer,
    PollRequest,
    TaskFailedRequest,
)
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.tasks.poll_acks import PollAck
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.port import Store

T = TypeVar("T")

TIMED_OUT = PollAnswer(task=None, timeout=True)


class WaitingPolls:
    def __init__(self, store: Store, clock: Clock, hub: Hub, admissions: Admissions) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self._admissions = admissions
        self._free_workers = FreeWorkers()
        hub.listen_to_workers(self._free_workers.on_event)

    async def start(self) -> None:
        """After the first event that comes to the hub could have come."""
        offered = await self._store.read(lambda tx: tx.offered_workers(OFFERS_READ_MAX))
        self._free_workers.know_offers(offered)

    def on_gap(self) -> None:
        """Events of other servers may have been missed."""
        self._free_workers.forget()

    async def poll(self, request: PollRequest, key: str | None = None) -> PollAnswer:
        """Wait until there is something for the worker, or its time is over."""
        ack, ends_at = _ack_of(request, key), poll_end(request.timeout_ms)
        if self._free_workers.take(request.swarm_id, request.name):
            answer = await self._poll_once(request, ack, ends_at, _nothing)
            # News of another server may be under way when a poll ends that has not asked the store.
            if answer is not None and not (self._store.shared and answer is TIMED_OUT):
                return answer
        return await self._poll_until(request, ack, ends_at)

    async def _poll_until(
        self, request: PollRequest, ack: PollAck | None, ends_at: float
    ) -> PollAnswer:
        while True:
            answer = await self._poll_once(
                request, ack, ends_at, lambda: self._write(polls.poll, request, ack)
            )
            if answer is not None:
                return answer

    async def _poll_once(
        self,
        request: PollRequest,
        ack: PollAck | None,
        ends_at: float,
        ask_store: Callable[[], Awaitable[T | None]],
    ) -> PollAnswer | T | None:
        """Ask the store, then wait. None: the store has to be asked again.

        The poll is parked before the store is asked, so that a task that is handed out in between
        wakes it.
        """
        hub = self._hub
        parked = hub.park(request.swarm_id, request.name, ack)
        try:
            answer = await ask_store()
            if answer is not None:
                return answer
            if not parked.done():
                await _wait(parked, ends_at)
            event = parked.result() if parked.done() else None
        finally:
            is_reserved = hub.unpark(request.swarm_id, request.name, parked)
            parked.cancel()
        # A task that was assigned meanwhile goes to another worker when the offer has expired.
        self._admissions.check()
        if event is None and is_reserved and not hub.closed:
            return None  # a task was assigned to this poll at the last moment
        return _answer_of(event, ack)

    async def after_report(
        self,
        use_case: Callable[..., T | Ended[E]],
        request: DoneRequest | TaskFailedRequest,
        key: str | None,
        ends_at: float,
    ) -> T | E:
        """The report is committed before anything waits. A repeat with the same key counts as the
        same report, and waits for the same task."""
        poll, ack = _poll_of(request), _ack_of(request, key)
        ended: list[E] = []

        async def report() -> T | None:
            outcome = await self._write(use_case, request, key, ack)
            if not isinstance(outcome, Ended):
                return outcome
            ended.append(outcome.answer)
            self._free_workers.on_empty_poll(poll.swarm_id, poll.name)
            return None

        try:
            outcome = await self._poll_once(poll, ack, ends_at, report)
        except ShiftbossError:
            if not ended:
                raise
            outcome = TIMED_OUT  # the report counts; the next poll gets the refusal
        if not ended:
            return cast(T, outcome)
        if outcome is not None:
            return ended[0].model_copy(update={"next": outcome})
        return await self.with_next(ended[0], request, key, ends_at)

    async def with_next(
        self, answer: E, request: DoneRequest | TaskFailedRequest, key: str | None, ends_at: float
    ) -> E:
        try:
            polled = await self._poll_until(_poll_of(request), _ack_of(request, key), ends_at)
        except ShiftbossError:
            polled = TIMED_OUT
        return answer.model_copy(update={"next": polled})

    def _write(
        self, use_case: Callable[..., T], request: BusRequest, *arguments: object
    ) -> Awaitable[T]:
        now_ms = self._clock()
        return self._store.write(
            lambda tx: use_case(tx, request, *arguments, now_ms), request.swarm_id
        )


async def _wait(parked: ParkedPoll, ends_at: float) -> None:
    loop = asyncio.get_running_loop()
    if ends_at <= loop.time():
        return
    timer = loop.call_at(ends_at, wake, parked, None)
    try:
        await parked
    finally:
        timer.cancel()


_NEWS = frozenset(
    {
        EventKind.CLAIM_ACCEPTED.value,
        EventKind.CI_FAILED.value,
        EventKind.WORK_PAUSED.value,
        EventKind.WORK_RESUMED.value,
        EventKind.BREAKAGE_FOUND.value,
    }
)


async def _nothing() -> None:
    """In place of the store, which would have nothing for the worker."""


def poll_end(timeout_ms: int) -> float:
    return asyncio.get_running_loop().time() + min(timeout_ms, POLL_MS_MAX) / 1000


def _poll_of(request: DoneRequest | TaskFailedRequest) -> PollRequest:
    if request.name is None:
        raise InvalidRequest("name: is needed with poll", field="name")
    return PollRequest.model_construct(swarm_id=request.swarm_id, name=request.name)


def _ack_of(
    request: PollRequest | DoneRequest | TaskFailedRequest, key: str | None
) -> PollAck | None:
    return PollAck(key, request.lease_seconds, CURRENT_ACTOR.get()) if request.ack else None


def _answer_of(event: Event | None, ack: PollAck | None) -> PollAnswer | None:
    """The answer that an event contains. None: the store has to be asked, because the worker may be
    free, or has an answer or a refusal to get, or the poll has to acknowledge its task."""
    if event is None:
        return TIMED_OUT
    if event.kind == EventKind.TASK_ASSIGNED.value and ack is not None:
        data = from_json(event.data)
        if not data.get("acknowledged"):
            return None
        return PollAnswer(
            task=Delivery.__pydantic_validator__.validate_python(data), acknowledged=True
        )
    if event.kind == EventKind.TASK_ASSIGNED.value:
        return PollAnswer(task=Delivery.__pydantic_validator__.validate_json(event.data))
    if event.kind in _NEWS:
        return PollAnswer(task=None, verdict={"kind": event.kind, **from_json(event.data)})
    if event.kind == EventKind.BUS_WORKER_RESET.value:
        return PollAnswer(task=None, timeout=True, reset=True)
    return None
