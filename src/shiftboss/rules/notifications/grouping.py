"""Which of the waiting notifications go into the next message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from shiftboss.rules.notifications.records import Letter, Notification, NotificationMessage

# As many as these at once are a digest.
DIGEST_FROM: Final = 4
DIGEST_MAX: Final = 50


def next_group(fresh: Sequence[Letter], *, was_limited: bool) -> Sequence[Letter]:
    """Of letters that no attempt has been made for. `was_limited`: the rate kept them waiting. What
    had to wait comes as one digest."""
    waited = was_limited or any(letter.delivery.held for letter in fresh)
    is_digest = len(fresh) >= DIGEST_FROM or (len(fresh) > 1 and waited)
    return fresh[:DIGEST_MAX] if is_digest else fresh[:1]


def new_message(group: Sequence[Letter], now_ms: int) -> NotificationMessage:
    """The id of one notification is always the same. That of a digest has the time in it: after a
    failure, its first notification may be in another one."""
    first = group[0].notification
    if len(group) == 1:
        return NotificationMessage(single_id(first), (first,), now_ms)
    message_id = f"dig_{now_ms:x}_{first.number}"
    return NotificationMessage(message_id, tuple(letter.notification for letter in group), now_ms)


def single_id(notification: Notification) -> str:
    """The time tells it from one of the same number that a restored backup did not have."""
    return f"msg_{notification.at_ms:x}_{notification.number}"
