"""The rows of notifications."""

from __future__ import annotations

from typing import Final

from shiftboss.rules.notifications.records import ChannelDelivery, Content, Letter, Notification
from shiftboss.store.notifications.port import DeliveryCounts
from shiftboss.store.transaction_part import Row, TransactionPart

_COLUMNS: Final = len(ChannelDelivery._fields)


class NotificationRows(TransactionPart):
    """Implements `shiftboss.store.notifications.port.NotificationTransaction`."""

    def outbox(self, limit: int) -> list[tuple[str, int]]:
        rows = self._session.fetch_all("outbox", {"limit": limit})
        return [(row[0], row[1]) for row in rows]

    def take_from_outbox(self, swarm_id: str, event_id: int) -> bool:
        key = {"swarm_id": swarm_id, "event_id": event_id}
        return self._change("take_from_outbox", key) == 1

    def add_notification(self, notification: Notification) -> int:
        self.wrote = True
        parameters = notification._asdict() | {"content": notification.content.to_json()}
        del parameters["number"]
        row = self._session.fetch_one("add_notification", parameters)
        assert row is not None, "INSERT ... RETURNING gives a row"
        return int(row[0])

    def add_delivery(self, delivery: ChannelDelivery) -> None:
        self._write("add_delivery", delivery._asdict())

    def due_deliveries(self, channel: str, now_ms: int, limit: int) -> list[Letter]:
        parameters = {"channel": channel, "now_ms": now_ms, "limit": limit}
        return [_letter(row) for row in self._session.fetch_all("due_deliveries", parameters)]

    def letters_of_message(self, channel: str, message_id: str) -> list[Letter]:
        parameters = {"channel": channel, "message_id": message_id}
        return [_letter(row) for row in self._session.fetch_all("letters_of_message", parameters)]

    def next_delivery_at_ms(self, channel: str) -> int | None:
        row = self._session.fetch_one("next_delivery_at_ms", {"channel": channel})
        return None if row is None else row[0]

    def save_delivery(self, delivery: ChannelDelivery) -> bool:
        parameters = delivery._asdict()
        del parameters["held"]
        return self._change("save_delivery", parameters) == 1

    def retry_delivery(self, number: int, channel: str, now_ms: int) -> bool:
        parameters = {"number": number, "channel": channel, "now_ms": now_ms}
        return self._change("retry_delivery", parameters) == 1

    def deliveries_of(self, number: int) -> list[ChannelDelivery]:
        rows = self._session.fetch_all("deliveries_of", {"number": number})
        return [_delivery(row) for row in rows]

    def letters_before(self, number: int, limit: int) -> list[Letter]:
        rows = self._session.fetch_all("letters_before", {"number": number, "limit": limit})
        return [_letter(row) for row in rows]

    def letters_in_state(self, state: str, number: int, limit: int) -> list[Letter]:
        parameters = {"state": state, "number": number, "limit": limit}
        return [_letter(row) for row in self._session.fetch_all("letters_in_state", parameters)]

    def pending_channels(self) -> list[str]:
        return [row[0] for row in self._session.fetch_all("pending_channels", {})]

    def delivery_counts(self, limit: int) -> DeliveryCounts:
        counts: dict[tuple[str, str], int] = {}
        for state in ("pending", "failed"):
            parameters = {"state": state, "limit": limit}
            for channel, count in self._session.fetch_all("delivery_counts", parameters):
                counts[channel, state] = count
        return counts

    def last_delivery_error(self, channel: str) -> str | None:
        row = self._session.fetch_one("last_delivery_error", {"channel": channel})
        return None if row is None else row[0]


def _delivery(row: Row) -> ChannelDelivery:
    return ChannelDelivery._make((*row[:4], bool(row[4]), *row[5:_COLUMNS]))


def _letter(row: Row) -> Letter:
    swarm_id, event_id, kind, at_ms, content = row[_COLUMNS:]
    notification = Notification(row[0], swarm_id, event_id, kind, at_ms, Content.from_json(content))
    return Letter(_delivery(row), notification)
