"""When a notification is sent: the quiet time, the pauses between attempts, the rate."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from shiftboss.protocol.notifications.settings import QuietTime
from shiftboss.rules.notifications.records import Letter, Notification, NotificationMessage

FIRST_PAUSE_SECONDS: Final = 5.0
PAUSE_SECONDS_MAX: Final = 3600.0
# The pauses add up to two and a half hours. After that it has failed, until somebody retries it.
ATTEMPTS_MAX: Final = 12
_MINUTE_MS: Final = 60_000


def pause_ms(attempts: int, chance: float, asked_seconds: float = 0.0) -> int:
    """After so many attempts: doubled each time, and a random half of it less, so that channels of
    one receiver do not come back together. `asked_seconds` is what the receiver wants at least."""
    pause = min(FIRST_PAUSE_SECONDS * 2.0 ** (attempts - 1), PAUSE_SECONDS_MAX)
    wanted = min(asked_seconds, PAUSE_SECONDS_MAX)
    return round(max(pause * (1 - chance / 2), wanted) * 1000)


def end_of_quiet_ms(quiet: QuietTime | None, kind: str, at_ms: int) -> int:
    """`at_ms`, or the end of the quiet time if that lies in it and the kind is not urgent."""
    if quiet is None or kind in quiet.urgent or quiet.start == quiet.end:
        return at_ms
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(quiet.zone))
    minute = at.hour * 60 + at.minute
    is_over_midnight = quiet.start > quiet.end
    is_quiet = (
        minute >= quiet.start or minute < quiet.end
        if is_over_midnight
        else quiet.start <= minute < quiet.end
    )
    if not is_quiet:
        return at_ms
    end = at.replace(hour=quiet.end // 60, minute=quiet.end % 60, second=0, microsecond=0, fold=0)
    if is_over_midnight and minute >= quiet.start:
        end += timedelta(days=1)
    # If clocks are set back in between, the end is the first time that they show it.
    return max(round(end.timestamp() * 1000), at_ms)


class Rate:
    """At most so many messages in a minute."""

    def __init__(self, per_minute: int) -> None:
        self._sent_at_ms: deque[int] = deque(maxlen=per_minute)

    def add(self, at_ms: int) -> None:
        self._sent_at_ms.append(at_ms)

    def free_at_ms(self) -> int:
        """When the next message may be sent."""
        is_full = len(self._sent_at_ms) == self._sent_at_ms.maxlen
        return self._sent_at_ms[0] + _MINUTE_MS if is_full else 0


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
