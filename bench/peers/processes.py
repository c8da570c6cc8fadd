"""The producer and worker processes of one measurement."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench.peers.adapters.place import PLACE_VARIABLE
from bench.peers.records import PIPE_VARIABLE
from bench.peers.systems import System

REPOSITORY: Final = Path(__file__).parents[2]
PEERS_PYTHON: Final = REPOSITORY / ".venv-peers" / "bin" / "python"
_STOP_SECONDS: Final = 10.0
_LOG_CHARACTERS: Final = 2_000


class Processes:
    """Each in a process group of its own, which is ended as a whole."""

    def __init__(self, system: System, place: str, pipe: Path, folder: Path) -> None:
        self._system = system
        self._python = sys.executable if system.is_ours else str(PEERS_PYTHON)
        self._environment = os.environ | {
            PLACE_VARIABLE: place,
            PIPE_VARIABLE: str(pipe),
            "PYTHONPATH": str(REPOSITORY),
        }
        self._log = folder / "processes.log"
        self._started: list[subprocess.Popen[bytes]] = []
        self._producers: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for how in (signal.SIGTERM, signal.SIGKILL):
            for process in self._started:
                _signal_group(process, how)
            for process in self._started:
                _wait(process)

    def start_producer(self) -> None:
        number = str(len(self._producers))
        self._producers.append(self._start("producer", [self._system.adapter, number]))

    def start_workers(self, count: int) -> None:
        if self._system.has_pool:
            self._start("worker", [self._system.adapter, "pool", str(count)])
            return
        for number in range(count):
            self._start("worker", [self._system.adapter, "one", str(number)])

    def send(self, producer: int, first: int, stop: int) -> None:
        """Tell a producer to enqueue the jobs with these numbers."""
        pipe = self._producers[producer].stdin
        assert pipe is not None
        pipe.write(f"{first} {stop}\n".encode())
        pipe.flush()

    def ended(self) -> str | None:
        """What a process wrote that has ended before its time."""
        if all(process.poll() is None for process in self._started):
            return None
        return self.log()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-_LOG_CHARACTERS:].strip() or "no message"

    def _start(self, module: str, arguments: list[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                [self._python, "-m", f"bench.peers.{module}", *arguments],
                stdin=subprocess.PIPE if module == "producer" else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        self._started.append(process)
        return process


def _signal_group(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    try:
        os.killpg(process.pid, how)
    except ProcessLookupError:
        pass


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass  # killed next
