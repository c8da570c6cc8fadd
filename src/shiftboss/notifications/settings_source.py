"""Finds and reads `notify.yaml`: beside the operator's token, or that of the user.

`SHIFTBOSS_NOTIFY` names another file, or is `off`. Without a file there are no channels, except
that a run in a terminal notifies the desktop that it was started from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

from shiftboss.errors import EvidenceUnavailable
from shiftboss.notifications.channel import Channel
from shiftboss.notifications.programs import CommandChannel, Desktop
from shiftboss.protocol.notifications.settings import ChannelSettings, NotifySettings
from shiftboss.rules.notifications.settings_file import InvalidNotifySettings, read_notify_settings
from shiftboss.system.loopback import is_loopback
from shiftboss.system.private_files import read_private

NOTIFY_FILE: Final = "notify.yaml"
NOTIFY_VARIABLE: Final = "SHIFTBOSS_NOTIFY"
OFF: Final = "off"

_DESKTOP_ONLY: Final = NotifySettings(channels={"desktop": ChannelSettings(kind="desktop")})


class LoadedSettings(NamedTuple):
    """`source` is the file that they are from; None: there is none."""

    settings: NotifySettings = NotifySettings()
    source: Path | None = None


class SettingsSource:
    """`desktop`: notify the desktop if there is no file."""

    def __init__(self, folder: Path, *, desktop: bool = False) -> None:
        self._folder = folder
        self._desktop = desktop

    def load(self) -> LoadedSettings:
        """Raises InvalidNotifySettings."""
        if os.environ.get(NOTIFY_VARIABLE, "").strip() == OFF:
            return LoadedSettings()
        path = find_settings(self._folder, os.environ)
        if path is None:
            return LoadedSettings(_DESKTOP_ONLY if self._desktop else NotifySettings())
        return LoadedSettings(_read(path), path)


def find_settings(folder: Path, variables: Mapping[str, str]) -> Path | None:
    named = variables.get(NOTIFY_VARIABLE, "").strip()
    if named:
        return Path(named).expanduser().absolute()
    config = variables.get("XDG_CONFIG_HOME") or f"{variables.get('HOME', '')}/.config"
    places = [folder / NOTIFY_FILE]
    if Path(config).is_absolute():
        places.append(Path(config) / "shiftboss" / NOTIFY_FILE)
    return next((place.absolute() for place in places if place.exists()), None)


def _read(path: Path) -> NotifySettings:
    """It names commands that are run, and addresses that are secrets: nobody else may read it."""
    try:
        text = read_private(path, "the settings of the notifications").decode()
    except EvidenceUnavailable as error:
        # A hint means that it can be read, but by others, too; that of a key is about copies.
        command = f"; `chmod 600 {quote(str(path))}` helps" if error.hint else ""
        raise InvalidNotifySettings(f"{error.detail}{command}") from None
    except UnicodeDecodeError:
        raise InvalidNotifySettings(f"{path} is not UTF-8") from None
    return read_notify_settings(text, str(path), is_loopback)


def channels_of(loaded: LoadedSettings) -> dict[str, Channel]:
    """The channels by their names."""
    folder = loaded.source.parent if loaded.source is not None else Path()
    return {name: _channel(each, folder) for name, each in loaded.settings.channels.items()}


def _channel(settings: ChannelSettings, folder: Path) -> Channel:
    if settings.kind == "desktop":
        return Desktop(settings)
    if settings.kind == "command":
        return CommandChannel(settings)
    # Its HTTP client takes long to import, and most servers have no webhook.
    from shiftboss.notifications.webhook import WebhookChannel

    return WebhookChannel(settings, folder)
