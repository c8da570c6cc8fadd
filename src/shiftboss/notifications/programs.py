"""Programs that take a notification: the one of the desktop, and a command of the operator.

They are argv lists, without a shell, and get few variables of the server's environment.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from shiftboss.notifications.channel import ENVIRONMENT, NotSent, OutgoingMessage
from shiftboss.protocol.notifications.settings import ChannelSettings
from shiftboss.rules.notifications.bodies import desktop_text, generic_body, title_of
from shiftboss.system.logs import clean
from shiftboss.system.processes.child_process import exchange, kill_group, start_process

OUTPUT_BYTES_MAX: Final = 4096
ERROR_CHARACTERS_MAX: Final = 200

# The texts are arguments of the script, and never part of it.
_APPLE_SCRIPT: Final = (
    "on run arguments",
    "display notification (item 2 of arguments) with title (item 1 of arguments)",
    "end run",
)


class CommandChannel:
    """See `shiftboss.notifications.channel.Channel`. Exit code 0 means that it was taken."""

    def __init__(self, settings: ChannelSettings) -> None:
        self._argv = tuple(settings.command)
        self._seconds = float(settings.timeout)

    @property
    def has_secret(self) -> bool:
        return False

    @property
    def target(self) -> str:
        return self._argv[0]

    def problem(self) -> str | None:
        return _missing(self._argv[0])

    async def send(self, envelope: OutgoingMessage) -> None:
        message = envelope.message
        first = message.notifications[0]
        variables = {
            "SHIFTBOSS_MESSAGE_ID": message.message_id,
            "SHIFTBOSS_KIND": "digest" if message.is_digest else first.kind,
            "SHIFTBOSS_SWARM": first.swarm_id,
            "SHIFTBOSS_TASK": first.content.task_id or "",
            "SHIFTBOSS_TITLE": title_of(message),
        }
        body = generic_body(message, envelope.address)
        await _run(self._argv, variables, body, self._seconds)

    async def close(self) -> None:
        pass


class Desktop:
    """See `shiftboss.notifications.channel.Channel`."""

    def __init__(self, settings: ChannelSettings) -> None:
        self._seconds = float(settings.timeout)

    @property
    def has_secret(self) -> bool:
        return False

    @property
    def target(self) -> str:
        return desktop_program()

    def problem(self) -> str | None:
        missing = _missing(desktop_program())
        if missing is None and not has_desktop_session(os.environ):
            return "the server was started without a desktop session"
        return missing

    async def send(self, envelope: OutgoingMessage) -> None:
        title, text = desktop_text(envelope.message)
        await _run(desktop_argv(sys.platform, title, text), {}, b"", self._seconds)

    async def close(self) -> None:
        pass


def desktop_program() -> str:
    return "osascript" if sys.platform == "darwin" else "notify-send"


def has_desktop_session(variables: Mapping[str, str]) -> bool:
    return sys.platform == "darwin" or any(
        variables.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )


def desktop_argv(platform: str, title: str, text: str) -> tuple[str, ...]:
    """No title begins with a dash, so none can be an option."""
    if platform == "darwin":
        script = [word for line in _APPLE_SCRIPT for word in ("-e", line)]
        return ("osascript", *script, title, text)
    # Some desktops read the text as markup.
    return ("notify-send", "--app-name=Shiftboss", "--", title, escape(text, quote=False))


def _missing(program: str) -> str | None:
    return None if shutil.which(program) else f"there is no program {program}"


async def _run(
    argv: Sequence[str], variables: Mapping[str, str], stdin: bytes, seconds: float
) -> None:
    """Raises NotSent."""
    inherited = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    try:
        process = await start_process(
            tuple(argv),
            kill_group,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**inherited, **variables},
        )
    except OSError as error:
        raise NotSent(f"{argv[0]} cannot be started: {error.strerror}") from None
    try:
        async with asyncio.timeout(seconds):
            output = await exchange(
                process,
                stdin,
                output_max=OUTPUT_BYTES_MAX,
                error_max=OUTPUT_BYTES_MAX,
                drops_excess=True,
            )
    except TimeoutError:
        raise NotSent(f"{argv[0]} did not end within {seconds:g} s") from None
    finally:
        await kill_group(process)
    if output.code != 0:
        error_text = clean(output.err.decode(errors="replace").strip())[:ERROR_CHARACTERS_MAX]
        ending = f": {error_text}" if error_text else ""
        raise NotSent(f"{argv[0]} ended with code {output.code}{ending}")
