"""The operations on notifications, which only the operator may use."""

from __future__ import annotations

from operator import attrgetter

from shiftboss.coordinator.notifications.service import NotificationService
from shiftboss.protocol.notifications import calls
from shiftboss.rules.access.roles import Permission
from shiftboss.server.operations.operation import Operation

_service = attrgetter("notifications")

NOTIFICATION_OPERATIONS: dict[str, Operation] = {
    "list_notifications": Operation(
        calls.ListNotificationsRequest,
        calls.NotificationList,
        NotificationService.list_notifications,
        "List the notifications of all swarms, the newest first, with the state of each delivery.",
        Permission.OPERATE,
        reads=True,
        service=_service,
        is_tool=False,
    ),
    "list_channels": Operation(
        calls.ListChannelsRequest,
        calls.ChannelList,
        NotificationService.list_channels,
        "List the channels of the answering server, and what is wrong with them.",
        Permission.OPERATE,
        reads=True,
        service=_service,
        is_tool=False,
    ),
    "send_test_notification": Operation(
        calls.SendTestRequest,
        calls.SendTestAnswer,
        NotificationService.send_test_notification,
        "Send a test by one channel or by all, from the answering server, and tell the result.",
        Permission.OPERATE,
        service=_service,
        is_tool=False,
    ),
    "retry_notification": Operation(
        calls.RetryNotificationRequest,
        calls.RetryNotificationAnswer,
        NotificationService.retry_notification,
        "Send a notification again that could not be sent.",
        Permission.OPERATE,
        service=_service,
        is_tool=False,
    ),
}
