"""The server's feed of changes, across lost connections, read in a thread of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from shiftboss.cli.common.client import NoServer, NotShiftboss, RequestRefused
from shiftboss.cli.common.command import ServerSession
from shiftboss.cli.common.event_stream import (
    PAUSE_SECONDS_FIRST,
    PAUSE_SECONDS_MAX,
    read_frames,
)
from shiftboss.defaults import STREAM_SILENCE_SECONDS
from shiftboss.errors import ShiftbossError

# How often the database is read while no server is running.
OFFLINE_SECONDS: Final = 2.0


class Connected(NamedTuple):
    """Everything is loaded anew, because earlier changes are unknown. `session` replaces the one
    that was used: a server that was started again may have another address."""

    session: ServerSession


class Changed(NamedTuple):
    """`swarms` as the feed sends them: `tasks` are the changed ones, or None for all."""

    swarms: Mapping[str, Mapping[str, Any]]


class Reload(NamedTuple):
    """The reader was too slow, and the server has left out changes, or the changes are not
    counted."""


class Lost(NamedTuple):
    error: ShiftbossError


FeedEvent = Connected | Changed | Reload | Lost


class Feed(threading.Thread):
    """Calls `on_event` from this thread, until it is stopped."""

    def __init__(self, session: ServerSession, on_event: Callable[[FeedEvent], None]) -> None:
        super().__init__(name="changes", daemon=True)
        self._session = session
        self._on_event = on_event
        self._stop_requested = threading.Event()

    def stop(self) -> None:
        """It ends with the next thing that it reads. It does not keep the process alive."""
        self._stop_requested.set()

    def run(self) -> None:
        pause = PAUSE_SECONDS_FIRST
        while not self._stop_requested.wait(0):
            try:
                was_connected = self._follow(self._session)
            except (NoServer, NotShiftboss, RequestRefused) as error:
                was_connected = False
                self._on_event(Lost(error))
            pause = PAUSE_SECONDS_FIRST if was_connected else min(pause * 2, PAUSE_SECONDS_MAX)
            self._stop_requested.wait(pause)
            self._session = self._session.renewed()

    def _follow(self, session: ServerSession) -> bool:
        """Until the connection ends. Returns whether there was one."""
        if session.is_offline:
            self._follow_database(session)
            return True
        response = session.client.open("/changes", silence_seconds=STREAM_SILENCE_SECONDS)
        is_connected = False
        try:
            for frame in read_frames(session.client, response):
                if self._stop_requested.is_set():
                    return True
                is_connected = True
                self._report(session, frame)
        except NoServer as error:
            session.client.move_on()
            self._on_event(Lost(error))
        else:
            self._on_event(Lost(NoServer("the server closed the connection")))
        return is_connected

    def _report(self, session: ServerSession, frame: Mapping[str, str]) -> None:
        kind = frame.get("event")
        if kind == "hello":
            self._on_event(Connected(session))
        elif kind == "changes":
            self._on_event(Changed(json.loads(frame["data"])["swarms"]))
        elif kind == "reload":
            self._on_event(Reload())

    def _follow_database(self, session: ServerSession) -> None:
        """Until a server is running."""
        self._on_event(Connected(session))
        while not self._stop_requested.wait(OFFLINE_SECONDS):
            if not session.renewed().is_offline:
                return
            self._on_event(Reload())
