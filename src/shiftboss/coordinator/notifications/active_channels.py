"""The channels in force: read from the operator's file at the start, and again on SIGHUP."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from shiftboss.coordinator.clock import Clock
from shiftboss.notifications.channel import Channel, OutgoingMessage
from shiftboss.notifications.settings_source import (
    LoadedSettings,
    SettingsSource,
    channels_of,
)
from shiftboss.protocol.notifications.settings import NotifySettings
from shiftboss.rules.notifications.records import NotificationMessage
from shiftboss.rules.notifications.settings_file import InvalidNotifySettings

log = logging.getLogger(__name__)


class ActiveChannels:
    """`problem` is why the file is not used; then the channels are those from before. `changed` is
    set when there are others. Without a `source` there are none."""

    def __init__(
        self, source: SettingsSource | None, address: Callable[[], str], clock: Clock
    ) -> None:
        """`address` is where people reach the page."""
        self._source = source
        self._clock = clock
        self._address = address
        self.loaded = LoadedSettings()
        self.by_name: dict[str, Channel] = {}
        self.problem: str | None = None
        self.changed = asyncio.Event()

    @property
    def settings(self) -> NotifySettings:
        return self.loaded.settings

    def envelope(self, message: NotificationMessage) -> OutgoingMessage:
        return OutgoingMessage(message, self._address(), self._clock() // 1000)

    async def start(self) -> None:
        """A mistake in the file does not keep the server from its work."""
        try:
            await self.reload()
        except InvalidNotifySettings as error:
            log.error("there are no notifications: %s", error.detail)  # noqa: TRY400

    async def reload(self) -> Sequence[str]:
        """The changes, one line each. Raises InvalidNotifySettings."""
        if self._source is None:
            return ()
        try:
            loaded = await asyncio.to_thread(self._source.load)
        except InvalidNotifySettings as error:
            self.problem = error.detail
            raise
        self.problem = None
        if loaded == self.loaded:
            return ()
        former, self.loaded = self.by_name, loaded
        self.by_name = channels_of(loaded)
        self.changed.set()
        for channel in former.values():
            await channel.close()
        return [f"channels: {', '.join(self.by_name) or 'none'}"]

    async def close(self) -> None:
        for channel in self.by_name.values():
            await channel.close()
