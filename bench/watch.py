"""`shiftboss watch` with 1,000 workers and 10,000 tasks, on a terminal of its own.

`python -m bench.watch` runs it alone.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

from bench.figures import Figure, show
from bench.page_swarm import SWARM, LargeSwarm
from bench.running import shiftboss

STARTS = 3
UPDATES = 20
CYCLES_PER_UPDATE = 3
# As many events as ten per second are in an hour.
CYCLES_OF_AN_HOUR = 6000
START_SECONDS = 60.0
# The board is drawn when the titles of its cards are.
_CARD = b"Move module"


def run(folder: Path, cycles: int = CYCLES_OF_AN_HOUR) -> list[Figure]:
    with shiftboss(folder / "watch.db") as server:
        swarm = LargeSwarm(server.url)
        swarm.fill()
        starts = []
        for _ in range(STARTS):
            with _watch(server.url) as terminal:
                starts.append(terminal.first_view())
        with _watch(server.url) as terminal:
            terminal.first_view()
            terminal.settle()
            return [
                Figure("watch: first view, 10,000 tasks", min(starts), "ms", at_most=1000),
                *_updates(terminal, swarm),
                *_hour(terminal, swarm, cycles),
            ]


class Terminal:
    """A terminal on which the command runs. What it writes is read all the time."""

    def __init__(self, process: psutil.Process, descriptor: int) -> None:
        self._process = process
        self._descriptor = descriptor
        self._has_cards = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        tail = b""
        while part := _part(self._descriptor):
            tail = tail[-len(_CARD) :] + part
            if _CARD in tail:
                self._has_cards.set()

    def first_view(self) -> float:
        """Milliseconds of processor time from the start to the first cards."""
        assert self._has_cards.wait(START_SECONDS), "there are no cards"
        return self._cpu_seconds("*") * 1000

    def settle(self) -> None:
        """Until it has loaded everything, and does no more than to let ages grow."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            before = self._cpu_seconds("*")
            time.sleep(2)
            if self._cpu_seconds("*") - before < 0.1:
                return

    def main_thread_seconds(self) -> float:
        return self._cpu_seconds(str(self._process.pid))

    def memory_megabytes(self) -> float:
        return float(self._process.memory_info().rss) / 1e6

    def _cpu_seconds(self, thread: str) -> float:
        files = Path(f"/proc/{self._process.pid}/task").glob(f"{thread}/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def _updates(terminal: Terminal, swarm: LargeSwarm) -> list[Figure]:
    spent = []
    for _ in range(UPDATES):
        before = terminal.main_thread_seconds()
        swarm.work(CYCLES_PER_UPDATE)
        time.sleep(0.5)
        spent.append((terminal.main_thread_seconds() - before) * 1000)
    return [
        Figure("watch: main thread per update, median", median(spent), "ms", at_most=50),
        Figure("watch: main thread per update, most", max(spent), "ms"),
    ]


def _hour(terminal: Terminal, swarm: LargeSwarm, cycles: int) -> list[Figure]:
    before = terminal.memory_megabytes()
    events = swarm.work(cycles)
    terminal.settle()
    after = terminal.memory_megabytes()
    return [
        Figure("watch: memory at first", before, "MB", at_most=150),
        Figure(f"watch: memory after {events:,} events", after, "MB", at_most=150),
    ]


def _part(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # Linux reports a closed terminal this way
        return b""


@contextmanager
def _watch(url: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 160))
    process = subprocess.Popen(
        [sys.executable, "-m", "shiftboss.cli.main", "watch", SWARM],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"SHIFTBOSS_URL": url, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    try:
        yield Terminal(psutil.Process(process.pid), ours)
    finally:
        process.terminate()
        process.wait()
        os.close(ours)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="shiftboss-bench-") as name:
        show(run(Path(name)))


if __name__ == "__main__":
    main()
