"""Faults of two servers on one PostgreSQL, of that, and of the network to it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from random import Random

import psutil

from tests.client import Client
from tests.faults.byte_relay import ByteRelay
from tests.faults.ledger import History
from tests.faults.sqlite_world import FAULT_SECONDS, REPORTS
from tests.faults.workers import Workers
from tests.postgres import Postgres, postgres_for_tests
from tests.running import RunningServer
from tests.waiting import wait_until


class PostgresWorld:
    """The first server reaches the database over a network that can freeze."""

    name = "two servers, PostgreSQL"

    def __init__(self, folder: Path, random: Random) -> None:
        self._random = random
        self._open = ExitStack()
        self._postgres: Postgres = self._open.enter_context(postgres_for_tests())
        url = self._open.enter_context(self._postgres.database())
        database = url.partition("@/")[2].partition("?")[0]
        self._network = self._open.enter_context(ByteRelay(self._postgres.socket))
        remote = f"postgresql://postgres@127.0.0.1:{self._network.port}/{database}"
        self._servers = [
            RunningServer(address, state=str(folder / f"state-{number}"))
            for number, address in enumerate((remote, url))
        ]
        self._workers = []
        for number, server in enumerate(self._servers):
            self._open.callback(server.close)
            server.start()
            if number == 0:
                self._client = Client(server.url)
                self._open.callback(self._client.close)
                self._client.create_swarm(swarm_id="faults")
            workers = Workers(server.url, folder, number + 1)
            self._workers.append(workers)
            self._open.callback(workers.close)
            workers.start()
        self.history = History()
        self.faults: Mapping[str, Callable[[], None]] = {
            "kill a server": self._kill_server,
            "stop and continue a server": self._stop_server,
            "kill the workers of a server": self._kill_workers,
            "kill PostgreSQL": self._kill_postgres,
            "kill a process of PostgreSQL": self._kill_backend,
            "freeze the network to PostgreSQL": self._freeze_network,
        }

    def round(self, kind: str) -> None:
        for workers in self._workers:
            workers.go_on(self._random.randint(*REPORTS))
        self.faults[kind]()
        for workers in self._workers:
            workers.go_on(1)
        self.check()

    def check(self) -> None:
        self.history.check(self._client, *(workers.ledger for workers in self._workers))

    def close(self) -> None:
        self._open.close()

    def _kill_server(self) -> None:
        server = self._random.choice(self._servers)
        server.kill()
        self._last()
        server.start()

    def _stop_server(self) -> None:
        pid = self._random.choice(self._servers).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            self._last()
        finally:
            os.kill(pid, signal.SIGCONT)

    def _kill_workers(self) -> None:
        self._random.choice(self._workers).kill_and_restart()

    def _kill_postgres(self) -> None:
        """All of its processes. It recovers from its log when it is started again."""
        processes = psutil.Process(self._postgres.pid).children(recursive=True)
        self._postgres.stop(signal.SIGKILL)
        for process in processes:
            _kill(process)
        wait_until(lambda: not any(map(_lives, processes)), "its processes have ended", 30)
        self._postgres.start()

    def _kill_backend(self) -> None:
        """PostgreSQL then ends all connections and recovers by itself."""
        _kill(self._random.choice(psutil.Process(self._postgres.pid).children()))
        self._last()

    def _freeze_network(self) -> None:
        self._network.freeze()
        try:
            self._last()
        finally:
            self._network.thaw()

    def _last(self) -> None:
        time.sleep(self._random.uniform(*FAULT_SECONDS))


def _kill(process: psutil.Process) -> None:
    try:
        process.kill()
    except psutil.NoSuchProcess:
        pass


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
