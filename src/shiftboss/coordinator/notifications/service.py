"""The operator's calls about notifications."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.duties.notifier import Notifier, attempt_to_send
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.notifications import outbox
from shiftboss.coordinator.notifications.active_channels import ActiveChannels
from shiftboss.errors import InvalidRequest, StoreUnavailable, UnknownNotification
from shiftboss.protocol.fields import optional_wire_time, wire_time
from shiftboss.protocol.notifications.calls import (
    ChannelList,
    ChannelResult,
    ChannelView,
    ListChannelsRequest,
    ListNotificationsRequest,
    NotificationList,
    NotificationView,
    RetryNotificationAnswer,
    RetryNotificationRequest,
    SendTestAnswer,
    SendTestRequest,
)
from shiftboss.protocol.notifications.settings import QuietTime
from shiftboss.rules.deployment.readiness import ReadinessProblem
from shiftboss.rules.documents.wording import did_you_mean, pluralize
from shiftboss.rules.notifications.records import (
    TEST_KIND,
    Content,
    Letter,
    Notification,
    NotificationMessage,
)
from shiftboss.rules.notifications.settings_file import InvalidNotifySettings
from shiftboss.store.leader_store import LeaderStore
from shiftboss.store.notifications.port import DeliveryCounts
from shiftboss.store.port import Store, Transaction
from shiftboss.system.elapsed import elapsed_seconds

COUNTED_MAX: Final = 1000
# So many channels can have a delivery of one notification.
CHANNELS_MAX: Final = 20
_FIRST_PAGE: Final = 2**53


class NotificationService:
    """`leading` is the store as a duty of the leader sees it. The duty itself is `notifier`."""

    def __init__(
        self, store: Store, leading: LeaderStore, clock: Clock, hub: Hub, channels: ActiveChannels
    ) -> None:
        self._store = store
        self._clock = clock
        self.channels = channels
        self.notifier = Notifier(leading, clock, hub, channels, leading.leads)

    async def list_notifications(
        self, request: ListNotificationsRequest, _key: str | None = None
    ) -> NotificationList:
        letters = await self._store.read(partial(_page, request=request))
        shown = _whole_notifications(letters, request.limit)
        has_more = len(shown) < len(letters) or len(letters) >= request.limit + CHANNELS_MAX
        return NotificationList(
            notifications=[_view(letter) for letter in shown],
            next_before=shown[-1].delivery.number if has_more and shown else None,
        )

    async def list_channels(
        self, _request: ListChannelsRequest, _key: str | None = None
    ) -> ChannelList:
        names = [*self.channels.settings.channels]
        counts, errors = await self._store.read(partial(_numbers, names=names))
        views = await asyncio.to_thread(self._channel_views, counts, errors)
        source = self.channels.loaded.source
        return ChannelList(
            source=None if source is None else str(source),
            problem=self.channels.problem,
            quiet=_quiet_text(self.channels.settings.quiet),
            channels=views,
        )

    def _channel_views(
        self, counts: DeliveryCounts, errors: dict[str, str | None]
    ) -> list[ChannelView]:
        return [
            ChannelView(
                name=name,
                kind=settings.kind,
                kinds=list(settings.kinds),
                target=self.channels.by_name[name].target,
                problem=self.channels.by_name[name].problem(),
                pending=counts.get((name, "pending"), 0),
                failed=counts.get((name, "failed"), 0),
                last_error=errors.get(name),
            )
            for name, settings in self.channels.settings.channels.items()
        ]

    async def send_test_notification(
        self, request: SendTestRequest, _key: str | None = None
    ) -> SendTestAnswer:
        """Sent at once, by this server, whatever the hour. It is not in the list."""
        names = self._tested(request.channel)
        results = await asyncio.gather(*(self._test(name) for name in names))
        is_taken = bool(results) and all(result.error is None for result in results)
        return SendTestAnswer(success=is_taken, results=results)

    def _tested(self, channel: str | None) -> list[str]:
        names = [*self.channels.by_name]
        wanted = names if channel is None else [channel]
        if self.channels.problem is not None and (not names or wanted[0] not in names):
            raise InvalidNotifySettings(
                f"the settings are not used: {self.channels.problem}",
                hint="correct it, then: systemctl reload shiftboss, or start the server again",
            )
        if wanted and wanted[0] not in names:
            raise InvalidRequest(
                f"there is no channel {wanted[0]}{did_you_mean(wanted[0], names)}",
                field="channel",
                hint="`shiftboss notify channels` lists them",
            )
        return wanted

    async def _test(self, name: str) -> ChannelResult:
        now_ms = self._clock()
        content = Content(
            "Shiftboss: test", f"the channel {name} works", command="shiftboss notify channels"
        )
        notification = Notification(0, "test", 0, TEST_KIND, now_ms, content)
        message = NotificationMessage(f"test_{now_ms:x}_{name}", (notification,), now_ms)
        started = elapsed_seconds()
        attempt = await attempt_to_send(
            self.channels.by_name[name], self.channels.envelope(message)
        )
        milliseconds = round((elapsed_seconds() - started) * 1000)
        return ChannelResult(channel=name, error=attempt.error, milliseconds=milliseconds)

    async def retry_notification(
        self, request: RetryNotificationRequest, _key: str | None = None
    ) -> RetryNotificationAnswer:
        use_case = partial(
            outbox.retry, number=request.number, channel=request.channel, now_ms=self._clock()
        )
        retried = await self._store.write(use_case, "")
        if not retried:
            raise UnknownNotification(request.number)
        self.notifier.wake()
        return RetryNotificationAnswer(success=True, retried=sum(retried.values()))

    async def warning(self) -> ReadinessProblem | None:
        """One line for `status`, if the channels need attention."""
        if self.channels.problem is not None:
            return ReadinessProblem(
                "notifications", self.channels.problem, "shiftboss notify channels"
            )
        try:
            counts = await self._store.read(lambda tx: tx.delivery_counts(COUNTED_MAX))
        except StoreUnavailable:
            return None  # which is said elsewhere
        failed = {channel: count for (channel, state), count in counts.items() if state == "failed"}
        if not failed:
            return None
        what = pluralize(sum(failed.values()), "notification")
        text = f"{what} could not be sent by {', '.join(failed)}"
        return ReadinessProblem("notifications", text, "shiftboss notify list --state failed")


def _page(tx: Transaction, request: ListNotificationsRequest) -> list[Letter]:
    before, limit = request.before or _FIRST_PAGE, request.limit + CHANNELS_MAX
    if request.state is None:
        return tx.letters_before(before, limit)
    return tx.letters_in_state(request.state, before, limit)


def _whole_notifications(letters: list[Letter], limit: int) -> list[Letter]:
    """At least `limit`, and all deliveries of the last notification: the next page starts with
    another one."""
    if len(letters) <= limit:
        return letters
    last = letters[limit - 1].delivery.number
    return [letter for letter in letters if letter.delivery.number >= last]


def _numbers(tx: Transaction, names: list[str]) -> tuple[DeliveryCounts, dict[str, str | None]]:
    errors = {name: tx.last_delivery_error(name) for name in names}
    return tx.delivery_counts(COUNTED_MAX), errors


def _quiet_text(quiet: QuietTime | None) -> str | None:
    if quiet is None:
        return None
    start, end = (f"{each // 60:02}:{each % 60:02}" for each in (quiet.start, quiet.end))
    return f"{start} to {end} in {quiet.zone}"


def _view(letter: Letter) -> NotificationView:
    delivery, notification = letter
    content = notification.content
    is_pending = delivery.state == "pending"
    return NotificationView(
        number=delivery.number,
        channel=delivery.channel,
        state=delivery.state,
        kind=notification.kind,
        title=content.title,
        text=content.text,
        command=content.command,
        swarm_id=notification.swarm_id,
        bead_id=content.task_id,
        event_id=notification.event_id,
        at=wire_time(notification.at_ms),
        attempts=delivery.attempts,
        due_at=wire_time(delivery.due_at_ms) if is_pending else None,
        ended_at=optional_wire_time(delivery.ended_at_ms),
        error=delivery.error,
        message_id=delivery.message_id,
    )
