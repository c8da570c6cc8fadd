"""Starts servers and load generators as processes, and prepares servers over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

from bench.load import TASKS, Load, Result

LOAD_SECONDS_MAX = 900
ANSWER_SECONDS = 150.0


class Server:
    """A running server, and the memory and processor time that it uses."""

    def __init__(self, url: str, process: psutil.Process) -> None:
        self.url = url
        self._process = process
        self._http = httpx2.Client(base_url=url, trust_env=False, timeout=ANSWER_SECONDS)

    def prepare(self, swarm_id: str, packets: int) -> None:
        self.post("/swarm/create", {"swarm_id": swarm_id})
        for packet_id in range(1, packets + 1):
            self.post(f"/swarm/{swarm_id}/register", registration(packet_id))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self._http.post(path, json=body).raise_for_status().json()
        return answer

    def get(self, path: str) -> None:
        self._http.get(path).raise_for_status()

    def memory_megabytes(self) -> float:
        return float(self._process.memory_info().rss) / 1e6

    def cpu_seconds(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def precise_cpu_seconds(self) -> float:
        """In nanoseconds instead of ticks of 10 ms, for a server that does next to nothing."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def registration(packet_id: int) -> dict[str, Any]:
    return {
        "packet_id": packet_id,
        "packet_name": f"packet-{packet_id}",
        "tasks_total": TASKS,
        "worktree": "/path/to/worktree",
    }


@contextmanager
def shiftboss(database: Path | str, *options: str) -> Iterator[Server]:
    arguments = ["spellbook.coordination.server", "--port", "0", "--db", str(database), *options]
    with _serving(arguments) as server:
        yield server


@contextmanager
def echo() -> Iterator[Server]:
    with _serving(["bench.echo"]) as server:
        yield server


@contextmanager
def forge() -> Iterator[str]:
    with _serving(["bench.forge"]) as server:
        yield server.url


@contextmanager
def _serving(arguments: list[str]) -> Iterator[Server]:
    # The load comes from one address; the limit is checked, and never met.
    environment = os.environ | {"SHIFTBOSS_RATE_LIMIT": "10000000"}
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        first_line = process.stdout.readline().split()
        url = next(word for word in first_line if word.startswith("http")).rstrip(";")
        yield Server(url, psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


def run_load(load: Load) -> Result:
    arguments = [str(value) for value in load]
    process = subprocess.run(
        [sys.executable, "-m", "bench.load", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=LOAD_SECONDS_MAX,
    )
    return Result(**json.loads(process.stdout))
