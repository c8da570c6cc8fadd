"""The hub: passes committed events to event streams, parked polls and duties, without a query.

It is used on the event loop only, so it needs no locks. The exception is what use cases ask about
parked polls (`ParkedPolls`), on the threads of the store.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any, Final

from pydantic_core import from_json

from shiftboss.coordinator.event_subscriptions import ReaderQueue, Subscription
from shiftboss.protocol.events import Event, EventKind
from shiftboss.rules.tasks.poll_acks import PollAck

# A subscriber this far behind is cut off; it can reconnect with the last event id it saw.
BEHIND_EVENTS_MAX: Final = 10_000
SWARMS_MAX: Final = 100_000

# The events that end the wait of a parked poll. Each names its worker.
WAKING_KINDS: Final = frozenset(
    {
        EventKind.TASK_ASSIGNED.value,
        EventKind.QUESTION_ANSWERED.value,
        EventKind.BUS_WORKER_RESET.value,
        EventKind.ATTEMPT_ENDED.value,
        EventKind.CLAIM_ACCEPTED.value,
        EventKind.CLAIM_REFUSED.value,
        EventKind.CI_FAILED.value,
        EventKind.WORK_PAUSED.value,
        EventKind.WORK_RESUMED.value,
        EventKind.BREAKAGE_FOUND.value,
    }
)
_WORKER_KINDS: Final = WAKING_KINDS | {EventKind.TASK_DONE.value}
# A poll gets this in place of an event when it has to ask the store what happened.
RECHECK: Final = Event("", 0, "", 0, "{}")

# Another server may have a poll of a worker that does not poll here. Other workers leave it this
# much time to receive its offer.
OFFER_GRACE_SECONDS: Final = 1.0
# How many parked polls ask for an offer that no poll has received. More than one, because the
# worker of a parked poll may be busy.
OFFERED_POLLS_MAX: Final = 20
# How many waiting workers a server names to the others: a row with all of 10,000 would be too long.
TOLD_WORKERS_MAX: Final = 2_000

# The result is None when the time is over or the server shuts down.
ParkedPoll = asyncio.Future[Event | None]
# Gets the event and its data as a dictionary.
WorkerListener = Callable[[Event, dict[str, Any]], None]


class Hub:
    """`is_alone`: no other server uses the database, so events arrive completely and in order."""

    def __init__(
        self, behind_events_max: int = BEHIND_EVENTS_MAX, *, is_alone: bool = True
    ) -> None:
        # In the order in which they are woken.
        self._subscriptions: dict[str, dict[Subscription, None]] = {}
        self._readers = ReaderQueue()
        # The polls of a worker, in the order in which they are woken, and how each acknowledges
        # what it gets.
        self._parked: dict[str, dict[str, dict[ParkedPoll, PollAck | None]]] = {}
        # The workers (with their swarm) that a use case assigned a task because they poll here, and
        # the poll that it counted on.
        self._reserved_polls: dict[tuple[str, str], ParkedPoll | None] = {}
        self._listeners: dict[str, list[Callable[[Event], None]]] = {}
        self._worker_listeners: list[WorkerListener] = []
        self._watcher: Callable[[list[Event]], None] | None = None
        self._close_listeners: list[Callable[[], None]] = []
        self._is_alone = is_alone
        self._last_event_ids: dict[str, int] = {}
        self._offer_timers: dict[str, asyncio.TimerHandle] = {}
        self._behind_events_max = behind_events_max
        self.closed = False
        # A command answers from the database; there is no server that workers could reach.
        self.is_offline = False
        # The workers that wait for a task at other servers, by swarm, as those servers last said.
        self.polling_elsewhere: Mapping[str, frozenset[str]] = {}

    def subscribe(self, swarm_id: str) -> Subscription:
        subscription = Subscription(self._behind_events_max)
        if self.closed:
            subscription.end()
        self._subscriptions.setdefault(swarm_id, {})[subscription] = None
        return subscription

    def unsubscribe(self, swarm_id: str, subscription: Subscription) -> None:
        subscriptions = self._subscriptions.get(swarm_id, {})
        subscriptions.pop(subscription, None)
        self._readers.remove(subscription)
        if not subscriptions:
            self._subscriptions.pop(swarm_id, None)

    def listen(self, kind: EventKind, listener: Callable[[Event], None]) -> None:
        """Call `listener` with the events of one kind in every swarm. It must not block."""
        self._listeners.setdefault(kind.value, []).append(listener)

    def listen_to_workers(self, listener: WorkerListener) -> None:
        """Call `listener` with every event that names a worker, before it wakes any poll."""
        self._worker_listeners.append(listener)

    def watch(self, watcher: Callable[[list[Event]], None]) -> None:
        """Call `watcher` with the events of every commit. There is one at most: it is for the
        change feed, while somebody reads it. It must not block."""
        self._watcher = watcher

    def unwatch(self) -> None:
        self._watcher = None

    def on_close(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the server shuts down, so that it can end waiting requests."""
        self._close_listeners.append(listener)

    def publish(self, events: list[Event]) -> None:
        for event in events:
            for listener in self._listeners.get(event.kind, ()):
                listener(event)
            if event.kind in _WORKER_KINDS:
                self._publish_to_worker(event)
            subscriptions = self._subscriptions.get(event.swarm_id)
            if subscriptions:
                frame = event.to_sse()
                for subscription in tuple(subscriptions):
                    if subscription.offer(event.event_id, frame):
                        self._readers.add(subscription)
        if self._watcher is not None:
            self._watcher(events)

    def park(self, swarm_id: str, worker: str, ack: PollAck | None = None) -> ParkedPoll:
        """A future for the next event that concerns the worker. Remove it with `unpark`.

        All polls of the same worker are woken, so none of them can swallow a task.
        """
        poll: ParkedPoll = asyncio.get_running_loop().create_future()
        self._parked.setdefault(swarm_id, {}).setdefault(worker, {})[poll] = ack
        if self.closed:
            poll.set_result(None)
        return poll

    def unpark(self, swarm_id: str, worker: str, poll: ParkedPoll) -> bool:
        """True if a use case counted on a poll of the worker, and this was the last one: if it got
        no event, the store has to be asked again."""
        workers = self._parked[swarm_id]
        workers[worker].pop(poll, None)
        if workers[worker]:
            return False
        del workers[worker]
        if not workers:
            del self._parked[swarm_id]
        # Last: a reservation from now on sees that no poll is parked.
        was_reserved = (swarm_id, worker) in self._reserved_polls
        self._reserved_polls.pop((swarm_id, worker), None)
        return was_reserved

    @property
    def parked_polls(self) -> int:
        """How many workers have a poll parked here."""
        return sum(map(len, self._parked.values()))

    @property
    def event_streams(self) -> int:
        return sum(map(len, self._subscriptions.values()))

    def parked_workers(self, swarm_id: str) -> Collection[str]:
        return self._parked.get(swarm_id, {}).keys()

    def reserve_poll(self, swarm_id: str, worker: str) -> bool:
        # First: a poll that ends after the look at the parked ones finds the reservation.
        self._reserved_polls[(swarm_id, worker)] = None
        polls = self._parked.get(swarm_id, {}).get(worker)
        if polls:
            # Of several polls, the last one: the others may be repeats that nobody waits for.
            parked = list(polls)
            self._reserved_polls[(swarm_id, worker)] = parked[-1] if parked else None
            return True
        self._reserved_polls.pop((swarm_id, worker), None)
        return False

    def reserved_ack(self, swarm_id: str, worker: str) -> PollAck | None:
        """How the poll that `reserve_poll` counted on acknowledges what it gets."""
        poll = self._reserved_polls.get((swarm_id, worker))
        if self.closed or poll is None:
            return None
        return self._parked.get(swarm_id, {}).get(worker, {}).get(poll)

    def polling(self, swarm_id: str) -> frozenset[str] | None:
        """The names of the workers whose polls are parked, here or at another server. None if there
        is no server: then no worker is at work either."""
        if self.is_offline:
            return None
        here = frozenset(self._parked.get(swarm_id, ()))
        return here | self.polling_elsewhere.get(swarm_id, frozenset())

    def polling_here(self) -> dict[str, list[str]]:
        """By swarm, for the other servers. Beyond a number of names, the rest is left out."""
        names: dict[str, list[str]] = {}
        left = TOLD_WORKERS_MAX
        for swarm_id, workers in self._parked.items():
            if left <= 0:
                break
            names[swarm_id] = list(islice(workers, left))
            left -= len(names[swarm_id])
        return names

    def polling_workers(self) -> Callable[[str], frozenset[str] | None]:
        """The same for every swarm, as it is now."""
        polling = {
            swarm_id: self.polling(swarm_id)
            for swarm_id in self._parked.keys() | self.polling_elsewhere.keys()
        }
        nobody = None if self.is_offline else frozenset[str]()
        return lambda swarm_id: polling.get(swarm_id, nobody)

    def recheck(self) -> None:
        """Make every parked poll ask the store: events of other servers may have been missed."""
        self._wake_all(RECHECK)

    def close(self) -> None:
        """End every stream cleanly, and answer every parked poll."""
        self.closed = True
        for listener in self._close_listeners:
            listener()
        for timer in self._offer_timers.values():
            timer.cancel()
        self._wake_all(None)
        for subscriptions in self._subscriptions.values():
            for subscription in subscriptions:
                subscription.end()

    def _publish_to_worker(self, event: Event) -> None:
        data: dict[str, Any] = from_json(event.data)
        for listener in self._worker_listeners:
            listener(event, data)
        if not self._is_alone:
            self._note_event_id(event)
        parked = self._parked.get(event.swarm_id)
        # The reset of a worker has an event of its own.
        if parked is None or event.kind not in WAKING_KINDS or data.get("reason") == "reset":
            return
        # An offer that was not made to a poll may be taken over: the store knows whose it is.
        news = RECHECK if self._is_late(event) or not data.get("received", True) else event
        polls = parked.get(data["worker"], {})
        reserved = self._reserved_polls.get((event.swarm_id, data["worker"]))
        for poll in polls:
            # An attempt that one poll has started is not for the others. One of them may even come
            # with the report about it: an answer can reach its worker before the event comes here.
            is_for_it = not data.get("acknowledged") or poll is reserved
            wake(poll, news if is_for_it else RECHECK)
        if not polls and not data.get("received", True):
            self._offer_to_others(event.swarm_id)

    def _offer_to_others(self, swarm_id: str) -> None:
        """Let other workers whose polls are parked ask the store for an offer to a worker that may
        be gone."""
        if self._is_alone:
            self._recheck_some(swarm_id)
        elif swarm_id not in self._offer_timers:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(OFFER_GRACE_SECONDS, self._recheck_some, swarm_id)
            self._offer_timers[swarm_id] = timer

    def _recheck_some(self, swarm_id: str) -> None:
        self._offer_timers.pop(swarm_id, None)
        parked = self._parked.get(swarm_id, {})
        for worker in random.sample(sorted(parked), min(len(parked), OFFERED_POLLS_MAX)):
            for poll in parked[worker]:
                wake(poll, RECHECK)

    def _is_late(self, event: Event) -> bool:
        """An event of another server can arrive after later ones of this server. What it says may
        no longer be true."""
        return event.event_id < self._last_event_ids.get(event.swarm_id, 0)

    def _note_event_id(self, event: Event) -> None:
        if len(self._last_event_ids) >= SWARMS_MAX:
            self._last_event_ids.clear()
        last = self._last_event_ids.get(event.swarm_id, 0)
        self._last_event_ids[event.swarm_id] = max(last, event.event_id)

    def _wake_all(self, event: Event | None) -> None:
        for workers in self._parked.values():
            for polls in workers.values():
                for poll in polls:
                    wake(poll, event)


def wake(poll: ParkedPoll, event: Event | None) -> None:
    if not poll.done():
        poll.set_result(event)
