"""The server and the workers of one demo, and the folder that they live in."""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from shiftboss.demo.plan import FLAKY, FLAKY_TASK, PACE_SECONDS, PACKETS, TASKS_PER_PACKET, Packet
from shiftboss.demo.processes import Process
from shiftboss.demo.record import Record
from shiftboss.demo.repos import make_repo


class Crew:
    """Whoever is still there at the end of the `with` is stopped."""

    def __init__(self, folder: Path, record: Record) -> None:
        self.folder = folder
        self.database = folder / "shiftboss.db"
        self.address = ""
        self._record = record
        self._server: Process | None = None
        self._workers: dict[Packet, Process] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self._workers.values():
            worker.stop()
        self.stop_server()

    def repo(self, packet: Packet) -> Path:
        return self.folder / "repos" / packet.name

    def make_repos(self) -> None:
        for packet in PACKETS:
            make_repo(self.repo(packet), packet.name)

    def start_server(self) -> None:
        """The second time on the same port and the same database."""
        port = urlsplit(self.address).port or 0
        self._server = Process(
            "shiftboss.cli.main",
            ["serve", "--host=127.0.0.1", f"--port={port}", f"--db={self.database}", "--json"],
            self.folder / "server.log",
        )
        self.address = json.loads(self._server.first_line())["address"]

    def kill_server(self) -> int:
        assert self._server is not None
        code = self._server.kill()
        self.stop_server()
        return code

    def stop_server(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None

    def wait_for_server(self) -> None:
        """Until it ends by itself."""
        if self._server is not None:
            self._server.wait()

    def start_worker(self, packet: Packet, swarm_id: str) -> None:
        arguments = [
            f"--server={self.address}",
            f"--swarm={swarm_id}",
            f"--packet={packet.packet_id}",
            f"--name={packet.name}",
            f"--worktree={self.repo(packet)}",
            f"--tasks={TASKS_PER_PACKET}",
            f"--pace={PACE_SECONDS}",
        ]
        if packet == FLAKY:
            arguments.append(f"--flaky-task={FLAKY_TASK}")
        worker = Process("shiftboss.demo.worker", arguments, self.folder / f"{packet.name}.log")
        self._workers[packet] = worker
        worker.follow(self._record.add_word, lambda code: self._ended(packet, worker, code))

    def kill_worker(self, packet: Packet) -> int:
        worker = self._workers.pop(packet)
        code = worker.kill()
        worker.stop()
        return code

    def all_workers_ended(self) -> bool:
        return all(worker.exit_code == 0 for worker in self._workers.values())

    def _ended(self, packet: Packet, worker: Process, code: int) -> None:
        if self._workers.get(packet) is worker and code != 0:
            self._record.fail(f"worker {packet.name} ended with {code}; see {worker.log}")
        self._record.notice()
