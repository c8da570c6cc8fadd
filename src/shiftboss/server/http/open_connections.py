"""The open connections: how many there may be, and how long each may take for what it does.

Every few seconds each connection is checked. One that has been in the same phase of the same
request for longer than the phase may take is ended. Nothing has to be noted per request for that.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol

from shiftboss.defaults import CONNECTIONS_MAX
from shiftboss.errors import RequestTimeout

log = logging.getLogger(__name__)

# For the database, keys, git and the other processes of the server.
DESCRIPTORS_RESERVED: Final = 128
# One line per interval, however many connections are refused.
LOG_SECONDS: Final = 30.0
LISTED_PER_SECOND: Final = 20_000
# When descriptors run out, so many of the waiting connections are closed at a time.
FREED_AT_ONCE: Final = 100

ConnectionFactory = Callable[..., asyncio.Protocol]


class Phase(Enum):
    NEW = "no request yet"
    IDLE = "between two requests"
    HEAD = "the headers are arriving"
    BODY = "the body is arriving"
    BUSY = "the request is being answered"
    STALLED = "the client does not read the reply"
    CLOSING = "the last bytes are being sent"


class ConnectionLimits(NamedTuple):
    connections_max: int = CONNECTIONS_MAX
    head_seconds: float = 20.0
    body_seconds: float = 30.0
    idle_seconds: float = 75.0
    stalled_seconds: float = 120.0
    closing_seconds: float = 10.0

    def seconds(self, phase: Phase) -> float:
        return {
            Phase.NEW: self.head_seconds,
            Phase.IDLE: self.idle_seconds,
            Phase.HEAD: self.head_seconds,
            Phase.BODY: self.body_seconds,
            Phase.BUSY: float("inf"),
            Phase.STALLED: self.stalled_seconds,
            Phase.CLOSING: self.closing_seconds,
        }[phase]

    @property
    def check_seconds(self) -> float:
        return min(5.0, self.head_seconds / 4)

    @property
    def connections_usable(self) -> int:
        """Not more than the limit of open files allows."""
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return max(1, min(self.connections_max, files - DESCRIPTORS_RESERVED))


class WatchedConnection(Protocol):
    @property
    def phase(self) -> Phase: ...

    @property
    def progress(self) -> int:
        """Changes when the connection has got on with its phase, or is in it again."""

    def refuse(self, error: RequestTimeout) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class _Seen(NamedTuple):
    phase: Phase
    progress: int
    since: float


_LATE: Final = {
    Phase.HEAD: "the headers took too long to arrive",
    Phase.BODY: "the body took too long to arrive",
}


# In which order connections make room. A body counts as well, as nobody has to show a token to
# begin one (of a webhook); an honest one is complete within milliseconds.
_WAITING: Final = {Phase.NEW: 0, Phase.HEAD: 1, Phase.IDLE: 2, Phase.BODY: 3}


class OpenConnections:
    def __init__(self, limits: ConnectionLimits, clock: Callable[[], float]) -> None:
        self.limits = limits
        self._clock = clock
        self._seen: dict[WatchedConnection, _Seen | None] = {}
        self._closable: list[WatchedConnection] = []
        self._listed = self._logged = float("-inf")

    @property
    def count(self) -> int:
        return len(self._seen)

    def admit(self, connection: WatchedConnection) -> bool:
        """Whether there is room for it. A connection that nothing happens on makes room."""
        if len(self._seen) >= self.limits.connections_usable:
            is_room_made = self._close_waiting()
            what = "idle ones are closed" if is_room_made else "further ones are refused"
            self._log(f"%d connections are open, as many as may be: {what}", len(self._seen))
            if not is_room_made:
                return False
        self._seen[connection] = None
        return True

    def remove(self, connection: WatchedConnection) -> None:
        self._seen.pop(connection, None)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(self.limits.check_seconds)
            try:
                self.check()
            except Exception:
                log.exception("the open connections could not be checked, will try again")

    def check(self) -> None:
        now = self._clock()
        for connection, seen in list(self._seen.items()):
            phase, progress = connection.phase, connection.progress
            if seen is None or (phase, progress) != seen[:2]:
                self._seen[connection] = _Seen(phase, progress, now)
            elif now - seen.since >= self.limits.seconds(phase):
                _end(connection, phase)
        self._check_descriptors()

    def _check_descriptors(self) -> None:
        """Without a free descriptor the event loop closes new connections without a word."""
        try:
            os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            self._log("no more files can be opened (%s): no new connections", error.strerror)
            for _ in range(FREED_AT_ONCE):
                if not self._close_waiting():
                    return

    def _close_waiting(self) -> bool:
        """Close a connection that the server waits for, if there is one."""
        # Looking at all connections must not become the work that keeps the server busy.
        pause = len(self._seen) / LISTED_PER_SECOND
        if not self._closable and self._clock() - self._listed >= pause:
            self._listed = self._clock()
            closable = [each for each in self._seen if each.phase in _WAITING]
            # The list is used from its end: first those without a request, oldest first.
            self._closable = sorted(closable, key=lambda each: _WAITING[each.phase])[::-1]
        while self._closable:
            connection = self._closable.pop()
            if connection in self._seen and connection.phase in _WAITING:
                self.remove(connection)
                connection.abort()
                return True
        return False

    def _log(self, message: str, argument: object) -> None:
        if self._clock() - self._logged >= LOG_SECONDS:
            self._logged = self._clock()
            log.warning(message, argument)


def _end(connection: WatchedConnection, phase: Phase) -> None:
    if phase in _LATE:
        connection.refuse(RequestTimeout(_LATE[phase]))
    elif phase in (Phase.NEW, Phase.IDLE):
        connection.close()
    else:
        connection.abort()


class _RefusedConnection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.abort()


def always_accepting(create: ConnectionFactory) -> ConnectionFactory:
    """Refuse a connection for which there is no memory. If the factory raised, libuv would wait
    until the connection is accepted, and would never accept another one."""
    refused = _RefusedConnection()

    def create_or_refuse(**arguments: Any) -> asyncio.Protocol:
        try:
            return create(**arguments)
        except MemoryError:
            return refused

    return create_or_refuse
