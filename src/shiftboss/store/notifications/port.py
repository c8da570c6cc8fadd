"""The part of the port for notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from shiftboss.rules.notifications.records import ChannelDelivery, Letter, Notification

# (channel, state)
DeliveryCounts = Mapping[tuple[str, str], int]


class NotificationTransaction(Protocol):
    """`add_event` puts the events of `NOTIFIED` kinds into the outbox. Writes use the partition
    ""; only the leader takes something from the outbox, or sends."""

    def outbox(self, limit: int) -> list[tuple[str, int]]:
        """(swarm_id, event_id) of events that nobody has made a notification of."""
        ...

    def take_from_outbox(self, swarm_id: str, event_id: int) -> bool:
        """False if somebody else has taken it."""
        ...

    def add_notification(self, notification: Notification) -> int:
        """Its number."""
        ...

    def add_delivery(self, delivery: ChannelDelivery) -> None: ...

    def due_deliveries(self, channel: str, now_ms: int, limit: int) -> list[Letter]:
        """The pending ones of the channel, the longest due first."""
        ...

    def letters_of_message(self, channel: str, message_id: str) -> list[Letter]:
        """The pending ones, in the order of their numbers."""
        ...

    def next_delivery_at_ms(self, channel: str) -> int | None: ...

    def save_delivery(self, delivery: ChannelDelivery) -> bool:
        """False, without a change, if it is not pending."""
        ...

    def retry_delivery(self, number: int, channel: str, now_ms: int) -> bool:
        """Start again with one that has failed. False if it has not."""
        ...

    def deliveries_of(self, number: int) -> list[ChannelDelivery]: ...

    def letters_before(self, number: int, limit: int) -> list[Letter]:
        """The newest first: those of lower numbers."""
        ...

    def letters_in_state(self, state: str, number: int, limit: int) -> list[Letter]:
        """The same, in one state."""
        ...

    def pending_channels(self) -> list[str]:
        """The channels that something is pending for."""
        ...

    def delivery_counts(self, limit: int) -> DeliveryCounts:
        """How many are pending and failed, of the newest `limit` of each state."""
        ...

    def last_delivery_error(self, channel: str) -> str | None:
        """Of the newest delivery that has failed, or will be tried again."""
        ...
