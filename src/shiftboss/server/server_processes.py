"""Several server processes on one machine behind one port (`serve --workers`).

The process that was started listens for all, starts the others as its children, and starts one
again that has ended. It serves nothing and reads no database. Each child is a server like any other
on the database. It listens on the port of all, where the system shares out the connections, and on
a port of its own, where it can be asked for its metrics.

The sockets stay open here: while a child is started again, its connections wait.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Final, NamedTuple

from shiftboss.coordinator.clock import system_clock
from shiftboss.errors import InvalidRequest
from shiftboss.server.http.certificates import certificates_at
from shiftboss.server.listening import (
    address_of,
    listen_again,
    listen_beside,
    local_address_of,
    note_record,
)
from shiftboss.server.reloading import has_terminal
from shiftboss.server.settings import ServerSettings
from shiftboss.store.open_store import is_postgres
from shiftboss.system.state_folder import (
    ServerRecord,
    make_state_folder,
    remove_server_file,
)

log = logging.getLogger(__name__)

# The first pause before a process is started again; it doubles up to the last.
PAUSE_SECONDS: Final = 0.5
PAUSE_SECONDS_MAX: Final = 30.0
# One that has served for so long had not failed to start.
STEADY_SECONDS: Final = 60.0
# Longer than a server takes to finish the requests that it has accepted.
STOP_SECONDS: Final = 20.0
_READY: Final = b"r"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class ServingProcess(NamedTuple):
    """One of several, and what it listens on. `started_at` is that of all."""

    number: int
    shared: socket.socket
    own: socket.socket
    started_at: str
    on_ready: Callable[[], None]


@dataclass
class _Child:
    number: int
    shared: socket.socket
    own: socket.socket
    pid: int = 0
    # Where it says that it is ready.
    ready: int = -1
    is_ready: bool = False
    began_at: float = 0.0
    pause: float = PAUSE_SECONDS
    start_at: float | None = 0.0


def one_of_several(
    settings: ServerSettings, count: int, on_listening: Callable[[str], None]
) -> ServingProcess:
    """Returns in each of the server processes. The process that starts them ends here. Call it
    before other threads are started."""
    if not is_postgres(settings.database):
        raise InvalidRequest(
            "workers: a SQLite file has one server process",
            field="workers",
            hint="use --db postgresql://..., or leave --workers out",
        )
    return _Parent(settings, count, on_listening).run()


class _Parent:
    def __init__(
        self, settings: ServerSettings, count: int, on_listening: Callable[[str], None]
    ) -> None:
        certificates = certificates_at(settings.tls_cert, settings.tls_key)
        shared = listen_again(settings, count)
        self._on_listening = on_listening
        self._children = [
            _Child(number, each, listen_beside(settings, each, number))
            for number, each in enumerate(shared, start=1)
        ]
        host, port = shared[0].getsockname()[:2]
        self._address = address_of(host, port, certificates)
        started_at = datetime.fromtimestamp(system_clock() / 1000, UTC)
        self._started_at = started_at.isoformat(timespec="milliseconds")
        self._folder: Path = make_state_folder(settings.state_folder)
        local_address = local_address_of(host, port, certificates)
        self._record = ServerRecord(local_address, os.getpid(), self._started_at)
        self._has_terminal = has_terminal()
        self._is_announced = False
        self._stopped_at: float | None = None
        self._exit_code = 0
        # Children notice at its other end that this process is gone.
        self._alive_reader, self._alive_writer = os.pipe()
        self._woken_reader, self._woken_writer = os.pipe()
        os.set_blocking(self._woken_writer, False)
        os.set_blocking(self._woken_reader, False)

    def run(self) -> ServingProcess:
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)
        signal.set_wakeup_fd(self._woken_writer, warn_on_full_buffer=False)
        while self._stopped_at is None or any(child.pid for child in self._children):
            started = self._start_due()
            if started is not None:
                return started
            self._wait()
            self._reap()
        remove_server_file(self._folder, self._record)
        sys.exit(self._exit_code)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGHUP and not (self._has_terminal and not has_terminal()):
            self._send(signal.SIGHUP)
        else:
            self._stop()

    def _stop(self, exit_code: int = 0) -> None:
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            self._exit_code = exit_code
            remove_server_file(self._folder, self._record)
        self._send(signal.SIGTERM)

    def _send(self, number: signal.Signals) -> None:
        for child in self._children:
            if child.pid:
                with suppress(ProcessLookupError):
                    os.kill(child.pid, number)

    def _start_due(self) -> ServingProcess | None:
        """The first alone: it migrates the database, and says what is wrong with the settings."""
        if self._stopped_at is not None:
            return None
        now = time.monotonic()
        for child in self._children:
            is_due = child.start_at is not None and child.start_at <= now
            if is_due and (child.number == 1 or self._is_announced):
                started = self._start(child, now)
                if started is not None:
                    return started
        return None

    def _start(self, child: _Child, now: float) -> ServingProcess | None:
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        # A signal waits until this process knows the child, and the child is not this process.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                return self._in_child(child, writer)
            os.close(writer)
            child.pid, child.ready, child.is_ready = pid, reader, False
            child.began_at, child.start_at = now, None
            return None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)

    def _in_child(self, child: _Child, ready: int) -> ServingProcess:
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        for descriptor in (self._alive_writer, self._woken_reader, self._woken_writer):
            os.close(descriptor)
        for other in self._children:
            if other is not child:
                other.shared.close()
                other.own.close()
            if other.ready >= 0:
                os.close(other.ready)
        threading.Thread(target=_end_with, args=[self._alive_reader], daemon=True).start()

        def on_ready() -> None:
            os.write(ready, _READY)
            os.close(ready)

        return ServingProcess(child.number, child.shared, child.own, self._started_at, on_ready)

    def _wait(self) -> None:
        """Until a signal came, a child is ready, or one has to be started or killed."""
        now = time.monotonic()
        due = [child.start_at for child in self._children if child.start_at is not None]
        if not self._is_announced:
            due = due[:0]
        if self._stopped_at is not None:
            due = [self._stopped_at + STOP_SECONDS]
        waiting = {child.ready: child for child in self._children if child.ready >= 0}
        seconds = max(min(due) - now, 0.0) if due else None
        readable, _, _ = select.select([self._woken_reader, *waiting], [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self._woken_reader, 4096)
        for child in (waiting[number] for number in readable if number in waiting):
            self._note_ready(child)
        if self._stopped_at is not None and time.monotonic() >= self._stopped_at + STOP_SECONDS:
            self._send(signal.SIGKILL)

    def _note_ready(self, child: _Child) -> None:
        child.is_ready = os.read(child.ready, 1) == _READY
        os.close(child.ready)
        child.ready = -1
        if child.is_ready:
            log.info("server process %d (pid %d) is ready", child.number, child.pid)
        if child.is_ready and not self._is_announced:
            self._is_announced = True
            note_record(self._folder, self._record)
            self._on_listening(self._address)

    def _reap(self) -> None:
        for child in self._children:
            if not child.pid:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                self._note_end(child, os.waitstatus_to_exitcode(status))

    def _note_end(self, child: _Child, exit_code: int) -> None:
        pid, child.pid = child.pid, 0
        if child.ready >= 0:
            self._note_ready(child)
        if self._stopped_at is not None:
            return
        if not child.is_ready and not any(other.pid for other in self._children):
            # It has said why. No other one serves, so this is an error of the whole.
            self._stop(max(exit_code, 1))
            return
        now = time.monotonic()
        if now - child.began_at >= STEADY_SECONDS:
            child.pause = PAUSE_SECONDS
        child.start_at = now + child.pause
        log.warning(
            "server process %d (pid %d) ended (%s); it is started again in %g s",
            child.number,
            pid,
            f"code {exit_code}" if exit_code >= 0 else signal.Signals(-exit_code).name,
            child.pause,
        )
        child.pause = min(2 * child.pause, PAUSE_SECONDS_MAX)


def _end_with(alive: int) -> None:
    """The parent holds the other end: when it is killed, the server stops."""
    while os.read(alive, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
