"""Notifications and their deliveries, as they are stored."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pydantic_core import from_json, to_json

# Tries a channel out, and is about no swarm.
TEST_KIND: Final = "test"


class Content(NamedTuple):
    """What a notification says, in plain text without control characters. `command` works as
    printed. `question_id` and `review` say what makes it pointless: an answer, a decision."""

    title: str
    text: str
    task_id: str | None = None
    command: str | None = None
    also: tuple[str, ...] = ()
    question_id: int | None = None
    review: str | None = None

    def to_json(self) -> str:
        return to_json(self._asdict()).decode()

    @classmethod
    def from_json(cls, text: str) -> Content:
        """Members of a later version are left out."""
        members: dict[str, Any] = from_json(text)
        members["also"] = tuple(members.get("also", ()))
        return cls(**{name: members[name] for name in cls._fields if name in members})


class Notification(NamedTuple):
    """`number` is 0 until it is stored."""

    number: int
    swarm_id: str
    event_id: int
    kind: str
    at_ms: int
    content: Content


class ChannelDelivery(NamedTuple):
    """The way of a notification to one channel. See the migration for the columns."""

    number: int
    channel: str
    state: str
    due_at_ms: int
    held: bool
    message_id: str | None = None
    attempts: int = 0
    error: str | None = None
    ended_at_ms: int | None = None


class Letter(NamedTuple):
    """A delivery with its notification."""

    delivery: ChannelDelivery
    notification: Notification


class NotificationMessage(NamedTuple):
    """What is sent at once: one notification, or a digest of several. Repeats have the same id."""

    message_id: str
    notifications: tuple[Notification, ...]
    at_ms: int

    @property
    def is_digest(self) -> bool:
        return len(self.notifications) > 1
