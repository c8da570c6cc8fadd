"""Notifications for the tests of what is made of them."""

from __future__ import annotations

from shiftboss.rules.notifications.records import (
    ChannelDelivery,
    Content,
    Letter,
    Notification,
    NotificationMessage,
)

AT_MS = 1_800_000_000_000


def notification(number: int = 1, kind: str = "question", **content: object) -> Notification:
    members = {
        "title": f"Question: task-{number} in login",
        "text": "w asks question 3: which database?",
        "task_id": f"task-{number}",
        "command": "shiftboss questions answer 3 'your answer' --swarm login",
    }
    return Notification(number, "login", 10 + number, kind, AT_MS, Content(**(members | content)))  # type: ignore[arg-type]


def message(*notifications: Notification) -> NotificationMessage:
    return NotificationMessage("msg_1", notifications or (notification(),), AT_MS)


def letter(number: int, *, held: bool = False, message_id: str | None = None) -> Letter:
    delivery = ChannelDelivery(number, "phone", "pending", AT_MS, held, message_id)
    return Letter(delivery, notification(number))
