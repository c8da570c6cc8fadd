"""Use cases of notifications: filling the deliveries from the outbox, and the result of attempts.

A message keeps its id and its notifications until it is sent or given up. So what a crash repeats,
a receiver can drop.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from shiftboss.coordinator.notifications.contents import is_pointless, notification_of
from shiftboss.protocol.notifications.settings import NotifySettings, QuietTime
from shiftboss.rules.notifications.records import ChannelDelivery, Letter, NotificationMessage
from shiftboss.rules.notifications.schedule import (
    ATTEMPTS_MAX,
    DIGEST_MAX,
    end_of_quiet_ms,
    new_message,
    next_group,
    pause_ms,
)
from shiftboss.store.port import Transaction

EVENTS_PER_TRANSACTION_MAX: Final = 100
ERROR_CHARACTERS_MAX: Final = 300
# How an attempt to send a message ends: it was taken, it is tried again later, it is given up.
RESULTS: Final = ("sent", "retried", "failed")


class SendResult(NamedTuple):
    """How an attempt to send a message ended. `error` is None if the receiver took it."""

    error: str | None = None
    asked_seconds: float = 0.0


def fill(tx: Transaction, settings: NotifySettings, now_ms: int) -> int:
    """Make notifications of the next events of the outbox; how many events there were."""
    events = tx.outbox(EVENTS_PER_TRANSACTION_MAX)
    for swarm_id, event_id in events:
        if tx.take_from_outbox(swarm_id, event_id) and settings.channels:
            _notify(tx, settings, swarm_id, event_id, now_ms)
    return len(events)


def _notify(
    tx: Transaction, settings: NotifySettings, swarm_id: str, event_id: int, now_ms: int
) -> None:
    notification = notification_of(tx, swarm_id, event_id)
    if notification is None:
        return
    kind = notification.kind
    channels = [name for name, channel in settings.channels.items() if kind in channel.kinds]
    if not channels:
        return
    number = tx.add_notification(notification)
    due_at_ms = end_of_quiet_ms(settings.quiet, kind, now_ms)
    for channel in channels:
        tx.add_delivery(ChannelDelivery(number, channel, "pending", due_at_ms, due_at_ms > now_ms))


def next_message(
    tx: Transaction, channel: str, now_ms: int, *, was_limited: bool = False
) -> NotificationMessage | None:
    """The next message to send; None if nothing is due. One that was tried before comes again as it
    was."""
    letters = tx.due_deliveries(channel, now_ms, DIGEST_MAX)
    due = [letter for letter in letters if not _dropped(tx, letter, now_ms)]
    if not due:
        return None
    message_id = due[0].delivery.message_id
    if message_id is not None:
        whole = tx.letters_of_message(channel, message_id)
        return NotificationMessage(
            message_id, tuple(letter.notification for letter in whole), now_ms
        )
    fresh = [letter for letter in due if letter.delivery.message_id is None]
    group = next_group(fresh, was_limited=was_limited)
    message = new_message(group, now_ms)
    for letter in group:
        tx.save_delivery(letter.delivery._replace(message_id=message.message_id))
    return message


def _dropped(tx: Transaction, letter: Letter, now_ms: int) -> bool:
    """Drop what no longer needs anybody. The content of a digest stays as it was."""
    delivery = letter.delivery
    is_in_digest = delivery.message_id is not None and delivery.message_id.startswith("dig_")
    if is_in_digest or not is_pointless(tx, letter.notification):
        return False
    _end(tx, delivery, "dropped", "it was answered or decided before it was sent", now_ms)
    return True


def _end(
    tx: Transaction, delivery: ChannelDelivery, state: str, error: str | None, now_ms: int
) -> None:
    tx.save_delivery(delivery._replace(state=state, error=error, ended_at_ms=now_ms))


def record_attempt(
    tx: Transaction,
    channel: str,
    message_id: str,
    attempt: SendResult,
    quiet: QuietTime | None,
    now_ms: int,
    chance: float,
) -> str:
    """One of `RESULTS`."""
    letters = tx.letters_of_message(channel, message_id)
    tries = max((letter.delivery.attempts for letter in letters), default=0) + 1
    is_retried = attempt.error is not None and tries < ATTEMPTS_MAX
    error = None if attempt.error is None else attempt.error[:ERROR_CHARACTERS_MAX]
    again_at_ms = now_ms + pause_ms(tries, chance, attempt.asked_seconds)
    kinds = {letter.notification.kind for letter in letters}
    # A digest is sent as a whole, so one that is urgent decides for all.
    due_at_ms = min(
        (end_of_quiet_ms(quiet, kind, again_at_ms) for kind in kinds), default=again_at_ms
    )
    result = "failed" if error is not None else "sent"
    for letter in letters:
        delivery = letter.delivery._replace(attempts=tries)
        if is_retried:
            tx.save_delivery(delivery._replace(error=error, due_at_ms=due_at_ms))
        else:
            _end(tx, delivery, result, error, now_ms)
    return "retried" if is_retried else result


def drop_unknown(tx: Transaction, channels: Collection[str], now_ms: int) -> int:
    """Drop what is pending for channels that the settings no longer have; returns how many."""
    dropped = 0
    for channel in tx.pending_channels():
        if channel in channels:
            continue
        while letters := tx.due_deliveries(channel, _ALL_TIMES_MS, EVENTS_PER_TRANSACTION_MAX):
            for letter in letters:
                reason = f"there is no longer a channel {channel}"
                _end(tx, letter.delivery, "dropped", reason, now_ms)
            dropped += len(letters)
    return dropped


# Later than every time in the store.
_ALL_TIMES_MS: Final = 2**53


def retry(tx: Transaction, number: int, channel: str | None, now_ms: int) -> Mapping[str, bool]:
    """The deliveries of a notification by channel, and whether each starts again."""
    channels = [
        each.channel for each in tx.deliveries_of(number) if channel in (None, each.channel)
    ]
    return {name: tx.retry_delivery(number, name, now_ms) for name in channels}
