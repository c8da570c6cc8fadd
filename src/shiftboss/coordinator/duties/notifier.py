"""Sends notifications: one duty of the leader, with a task of its own for every channel.

The outbox is in the store, so a restart or another leader continues where this one ended. A
receiver that hangs holds up its own channel only.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar, Final

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.timer import DUE_PER_ROUND_MAX, Timer
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.notifications import outbox
from shiftboss.coordinator.notifications.active_channels import ActiveChannels
from shiftboss.coordinator.notifications.outbox import SendResult
from shiftboss.errors import ShiftbossError
from shiftboss.notifications.channel import Channel, NotSent, OutgoingMessage
from shiftboss.rules.notifications.kinds import NOTIFIED
from shiftboss.rules.notifications.records import NotificationMessage
from shiftboss.rules.notifications.schedule import Rate
from shiftboss.store.port import Transactions
from shiftboss.system.logs import clean

log = logging.getLogger(__name__)

# A server that stops gives its last notifications this long: the end of a run is one of them.
FLUSH_SECONDS: Final = 5.0
CAUSE_CHARACTERS_MAX: Final = 200


class OutboxReader(Timer):
    """Makes notifications of the events in the outbox, and wakes the channels."""

    def __init__(
        self,
        store: Transactions,
        clock: Clock,
        hub: Hub,
        active: ActiveChannels,
        on_filled: Callable[[], None],
    ) -> None:
        super().__init__(store, clock, hub, *NOTIFIED)
        self._active = active
        self._on_filled = on_filled

    async def act(self, now_ms: int) -> None:
        fill = partial(outbox.fill, settings=self._active.settings, now_ms=now_ms)
        while await self.store.read(lambda tx: tx.outbox(1)):
            await self.store.write(fill, "")
            self._on_filled()

    async def next_at_ms(self) -> int | None:
        return None


class ChannelSender(Timer):
    """Sends the messages of one channel, one after the other."""

    def __init__(
        self,
        store: Transactions,
        clock: Clock,
        hub: Hub,
        active: ActiveChannels,
        name: str,
        attempts: Counter[str],
    ) -> None:
        super().__init__(store, clock, hub)
        self._active = active
        self._name = name
        self._attempts = attempts
        self._rate = Rate(active.settings.channels[name].per_minute)
        self._was_limited = False

    @property
    def _channel(self) -> Channel:
        return self._active.by_name[self._name]

    async def act(self, now_ms: int) -> None:
        for _ in range(DUE_PER_ROUND_MAX):
            if self._rate.free_at_ms() > now_ms:
                self._was_limited = True
                return
            take = partial(
                outbox.next_message,
                channel=self._name,
                now_ms=now_ms,
                was_limited=self._was_limited,
            )
            message = await self.store.write(take, "")
            if message is None:
                self._was_limited = False
                return
            self._rate.add(now_ms)
            await self._deliver(message)
            now_ms = self.clock()

    async def next_at_ms(self) -> int | None:
        at_ms = await self.store.read(lambda tx: tx.next_delivery_at_ms(self._name))
        return None if at_ms is None else max(at_ms, self._rate.free_at_ms())

    async def _deliver(self, message: NotificationMessage) -> None:
        attempt = await attempt_to_send(self._channel, self._active.envelope(message))
        record = partial(
            outbox.record_attempt,
            channel=self._name,
            message_id=message.message_id,
            attempt=attempt,
            quiet=self._active.settings.quiet,
            now_ms=self.clock(),
            chance=random.random(),  # noqa: S311 - jitter, not a secret
        )
        result = await self.store.write(record, "")
        self._attempts[result] += 1
        if attempt.error is not None:
            log.warning("notification %s by %s: %s", message.message_id, self._name, attempt.error)


async def attempt_to_send(channel: Channel, envelope: OutgoingMessage) -> SendResult:
    try:
        await channel.send(envelope)
    except NotSent as error:
        return SendResult(error.text, error.asked_seconds)
    except Exception as error:
        # A channel that fails with an unexpected error is tried again, too.
        log.exception("a notification could not be sent")
        return SendResult(_unexpected(channel, error))
    return SendResult()


def _unexpected(channel: Channel, error: Exception) -> str:
    if channel.has_secret:
        return f"unexpected error ({type(error).__name__}), see the log of the server"
    cause = clean(f"{type(error).__name__}: {error}")[:CAUSE_CHARACTERS_MAX]
    return f"unexpected error ({cause})"


class Notifier:
    """`attempts` counts the attempts to send a message, by result."""

    on_every_server: ClassVar[bool] = False

    def __init__(
        self,
        store: Transactions,
        clock: Clock,
        hub: Hub,
        active: ActiveChannels,
        leads: Callable[[], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._hub = hub
        self._active = active
        self._leads = leads
        self._senders: list[ChannelSender] = []
        self._reader = OutboxReader(store, clock, hub, active, self.wake)
        # A channel may fail for long because of its receiver, which is no fault of the duty.
        self.record = self._reader.record
        self.attempts: Counter[str] = Counter(dict.fromkeys(outbox.RESULTS, 0))

    def wake(self) -> None:
        """Something may be due in the channels."""
        for sender in self._senders:
            sender.wake()

    def catch_up(self) -> None:
        """Events of other servers may have been missed."""
        self._reader.wake()

    async def run(self) -> None:
        """With the settings that are in force; again when they have changed."""
        while True:
            self._active.changed.clear()
            self._senders = self._new_senders()
            await self._until_changed([self._reader, *self._senders])

    def _new_senders(self) -> list[ChannelSender]:
        return [
            ChannelSender(self._store, self._clock, self._hub, self._active, name, self.attempts)
            for name in self._active.settings.channels
        ]

    async def _until_changed(self, timers: Iterable[Timer]) -> None:
        running = [
            asyncio.create_task(self._active.changed.wait()),
            asyncio.create_task(self._drop_unknown()),
            *(asyncio.create_task(timer.run()) for timer in timers),
        ]
        try:
            await running[0]
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _drop_unknown(self) -> None:
        names = [*self._active.settings.channels]
        drop = partial(outbox.drop_unknown, channels=names, now_ms=self._clock())
        try:
            await self._store.write(drop, "")
        except ShiftbossError as error:
            log.warning("notifications of former channels stay: %s", error)

    async def flush(self) -> None:
        """Send what is due before the server ends. The next leader sends messages that were not
        sent in time."""
        if not self._leads() or not self._active.settings.channels:
            return
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._reader.act(self._clock())
                senders = self._senders or self._new_senders()
                await asyncio.gather(*(sender.act(self._clock()) for sender in senders))
        except TimeoutError:
            log.warning("some notifications will be sent by the next server")
        except ShiftbossError as error:
            log.warning("some notifications will be sent by the next server: %s", error)
