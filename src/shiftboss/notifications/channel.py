"""The port of a channel, and how one is made from its settings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from shiftboss.rules.notifications.records import NotificationMessage

# What programs of channels are started with; the environment of a server has secrets.
ENVIRONMENT = frozenset(
    {
        "DBUS_SESSION_BUS_ADDRESS",
        "DISPLAY",
        "HOME",
        "LANG",
        "LOGNAME",
        "PATH",
        "TMPDIR",
        "TZ",
        "USER",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
    }
)


class NotSent(Exception):
    """The receiver did not take the message. The text has no secret, and no part of an address but
    the host. `asked_seconds`: how long the receiver wants to be left alone."""

    def __init__(self, text: str, asked_seconds: float = 0.0) -> None:
        super().__init__(text)
        self.text = text
        self.asked_seconds = asked_seconds


class OutgoingMessage(NamedTuple):
    """A message on its way. `address` is where people reach the page, `at_seconds` is now."""

    message: NotificationMessage
    address: str
    at_seconds: int


class Channel(Protocol):
    """One way to a person. A receiver may get a message more than once."""

    @property
    def has_secret(self) -> bool:
        """Whether the text of an error that nobody expected may have a secret in it."""
        ...

    @property
    def target(self) -> str:
        """The host or the program, for people."""
        ...

    def problem(self) -> str | None:
        """Why nothing can be sent: a secret that is missing, a program. Reads files."""
        ...

    async def send(self, envelope: OutgoingMessage) -> None:
        """Returns when the receiver has taken it. Raises NotSent."""
        ...

    async def close(self) -> None: ...


def below(folder: Path, file: str | None) -> Path | None:
    """Files that the settings name are relative to the folder of the settings."""
    return None if file is None else folder / Path(file).expanduser()
