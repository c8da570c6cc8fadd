"""What the operator asks about notifications: the list, the channels, a test, another attempt."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shiftboss.protocol.bus import BusRequest
from shiftboss.protocol.fields import Answer
from shiftboss.protocol.notifications.settings import ChannelName

DeliveryState = Literal["pending", "sent", "failed", "dropped"]


class ListNotificationsRequest(BusRequest):
    """All swarms; `swarm_id` is ignored, as for everything that belongs to the deployment."""

    state: DeliveryState | None = None
    before: Annotated[int, Field(ge=1)] | None = None
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class NotificationView(Answer):
    """One notification on its way to one channel. `message_id` is what the receiver got; those of
    a digest have the same."""

    number: int
    channel: str
    state: DeliveryState
    kind: str
    title: str
    text: str
    command: str | None
    swarm_id: str
    bead_id: str | None
    event_id: int
    at: str
    attempts: int
    due_at: str | None
    ended_at: str | None
    error: str | None
    message_id: str | None


class NotificationList(Answer):
    """The newest first. `next_before` continues with older ones; None: there are no more."""

    notifications: list[NotificationView]
    next_before: int | None


class ListChannelsRequest(BusRequest):
    pass


class ChannelView(Answer):
    """`target` names the host or the program, never the whole address. `problem` is why the channel
    cannot be used now. `pending` and `failed` count to 1,000."""

    name: str
    kind: str
    kinds: list[str]
    target: str
    problem: str | None
    pending: int
    failed: int
    last_error: str | None


class ChannelList(Answer):
    """`source` is the file of the settings; None: there is none. `problem` is why it is not used:
    then the channels are those from before."""

    source: str | None
    problem: str | None
    quiet: str | None
    channels: list[ChannelView]


class SendTestRequest(BusRequest):
    """`channel`: None means all of them."""

    channel: ChannelName | None = None


class ChannelResult(Answer):
    """`error` is None if the channel took it."""

    channel: str
    error: str | None
    milliseconds: int


class SendTestAnswer(Answer):
    success: bool
    results: list[ChannelResult]


class RetryNotificationRequest(BusRequest):
    """Only the deliveries that failed. `channel`: None means all of them."""

    number: Annotated[int, Field(ge=1)]
    channel: ChannelName | None = None


class RetryNotificationAnswer(Answer):
    success: bool
    retried: int
