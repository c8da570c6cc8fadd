"""Faults of one server with a database file, and of its workers."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random
from urllib.parse import urlsplit

import psutil

from tests.client import Client
from tests.faults.ledger import History
from tests.faults.workers import Workers
from tests.running import RunningServer

FAULT_SECONDS = (0.2, 2.0)
REPORTS = (20, 150)
# What is left to the server.
SPARE_DESCRIPTORS = 2


class SqliteWorld:
    name = "one server, SQLite"

    def __init__(self, folder: Path, random: Random) -> None:
        self._random = random
        self._server = RunningServer(folder / "faults.db").start()
        self._client = Client(self._server.url)
        self._client.create_swarm(swarm_id="faults")
        self._workers = Workers(self._server.url, folder, 1)
        self._workers.start()
        self.history = History()
        self.faults: Mapping[str, Callable[[], None]] = {
            "kill the server": self._kill_server,
            "stop and continue the server": self._stop_server,
            "kill the workers": self._workers.kill_and_restart,
            "stop and continue the workers": self._stop_workers,
            "no file descriptors": self._exhaust_descriptors,
            "no memory": self._exhaust_memory,
        }

    def round(self, kind: str) -> None:
        """Let the workers report, strike, let them report again, compare."""
        self._workers.go_on(self._random.randint(*REPORTS))
        self.faults[kind]()
        self._workers.go_on(1)
        self.check()

    def check(self) -> None:
        self.history.check(self._client, self._workers.ledger)

    def close(self) -> None:
        self._workers.close()
        self._client.close()
        self._server.close()

    def _kill_server(self) -> None:
        self._server.kill()
        self._server.start()

    def _stop_server(self) -> None:
        os.kill(self._server.pid, signal.SIGSTOP)
        try:
            self._last()
        finally:
            os.kill(self._server.pid, signal.SIGCONT)

    def _stop_workers(self) -> None:
        self._workers.freeze()
        try:
            self._last()
        finally:
            self._workers.thaw()

    def _exhaust_descriptors(self) -> None:
        """More connections than the server has descriptors for, which then are closed."""
        pid = self._server.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        few = psutil.Process(pid).num_fds() + SPARE_DESCRIPTORS
        with ExitStack() as connections:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (few, limits[1]))
            try:
                for _ in range(SPARE_DESCRIPTORS + 20):
                    connections.enter_context(self._connection())
                self._last()
            finally:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    def _exhaust_memory(self) -> None:
        """No further page. The server may end: then it is started again, as a service manager
        would."""
        pid = self._server.pid
        limits = resource.prlimit(pid, resource.RLIMIT_AS)
        resource.prlimit(pid, resource.RLIMIT_AS, (0, limits[1]))
        try:
            self._last()
            resource.prlimit(pid, resource.RLIMIT_AS, limits)
        except ProcessLookupError:
            self._server.kill()
            self._server.start()
        self._workers.go_on(1)
        self.history.excused = len(self._workers.ledger.read().failed)

    def _connection(self) -> socket.socket:
        address = urlsplit(self._server.url)
        return socket.create_connection((address.hostname, address.port))

    def _last(self) -> None:
        """The fault lasts a while."""
        time.sleep(self._random.uniform(*FAULT_SECONDS))
