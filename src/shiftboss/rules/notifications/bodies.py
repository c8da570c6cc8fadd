"""What receivers get: the generic body, that of Slack, and the text for a desktop."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import quote

from pydantic_core import to_json

from shiftboss.protocol.fields import wire_time
from shiftboss.rules.documents.wording import pluralize
from shiftboss.rules.notifications.records import TEST_KIND, Notification, NotificationMessage
from shiftboss.rules.notifications.schedule import single_id

# Slack refuses longer texts in a block.
SLACK_CHARACTERS_MAX: Final = 2900
DESKTOP_LINES_MAX: Final = 6


class DesktopText(NamedTuple):
    title: str
    text: str


def title_of(message: NotificationMessage) -> str:
    if not message.is_digest:
        return message.notifications[0].content.title
    return f"Shiftboss: {pluralize(len(message.notifications), 'notification')}"


def page_link(address: str, notification: Notification) -> str:
    """The page of the task or the swarm. It has no token: a person who follows it has to log in."""
    if notification.kind == TEST_KIND:
        return f"{address.rstrip('/')}/"
    task_id = notification.content.task_id
    swarm = quote(notification.swarm_id, safe="")
    view = "board" if task_id is None else f"task/{quote(task_id, safe='')}"
    return f"{address.rstrip('/')}/#/s/{swarm}/{view}"


def generic_body(message: NotificationMessage, address: str) -> bytes:
    """Of a webhook, and the input of a command."""
    views = [_view(notification, address) for notification in message.notifications]
    data: dict[str, Any] = views[0]
    kind = message.notifications[0].kind
    if message.is_digest:
        kind = "digest"
        data = {"title": title_of(message), "count": len(views), "notifications": views}
    document = {
        "type": f"shiftboss.{kind}",
        "timestamp": wire_time(message.at_ms),
        "data": {"message_id": message.message_id} | data,
    }
    return to_json(document)


def _view(notification: Notification, address: str) -> dict[str, Any]:
    content = notification.content
    return {
        "id": single_id(notification),
        "kind": notification.kind,
        "at": wire_time(notification.at_ms),
        "swarm_id": notification.swarm_id,
        "task_id": content.task_id,
        "event_id": notification.event_id,
        "title": content.title,
        "text": content.text,
        "command": content.command,
        "also": list(content.also),
        "link": page_link(address, notification),
    }


def slack_body(message: NotificationMessage, address: str) -> bytes:
    """`text` is for the notification of the client, `blocks` for the channel."""
    blocks: list[dict[str, Any]] = []
    if message.is_digest:
        blocks.append(_block(f"*{_escaped(title_of(message))}*"))
    # Slack refuses a message with more than 50 blocks.
    blocks += [_block(_slack_text(each, address)) for each in message.notifications[:49]]
    text = f"{title_of(message)}: {message.notifications[0].content.text}"
    return to_json({"text": _escaped(text)[:SLACK_CHARACTERS_MAX], "blocks": blocks})


def _block(text: str) -> dict[str, Any]:
    """`verbatim`: Slack makes no links of addresses and names of channels in what agents write."""
    shown = {"type": "mrkdwn", "text": text[:SLACK_CHARACTERS_MAX], "verbatim": True}
    return {"type": "section", "text": shown}


def _slack_text(notification: Notification, address: str) -> str:
    content = notification.content
    lines = [f"*{_escaped(content.title)}*", _escaped(content.text)]
    if content.command is not None:
        lines.append(f"`{_escaped(content.command)}`")
    lines.append(f"<{_escaped(page_link(address, notification))}|Open the page>")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Nothing of it is a link, a mention or markup: Slack knows these by < and >, and formats by
    characters that are next to a word."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("`", "'").replace("*", "∗")


def desktop_text(message: NotificationMessage) -> DesktopText:
    if not message.is_digest:
        content = message.notifications[0].content
        lines = [content.text, *([content.command] if content.command else [])]
        return DesktopText(content.title, "\n".join(lines))
    titles = [notification.content.title for notification in message.notifications]
    shown = titles[:DESKTOP_LINES_MAX]
    if len(titles) > len(shown):
        shown.append(f"and {len(titles) - len(shown)} more: shiftboss notify list")
    return DesktopText(title_of(message), "\n".join(shown))
