"""How long one waits for a server and for an everyday command.

From the start of its process to the first answer, and to its end. The goals are for a quiet
machine; on a busy one, look at the processor time.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

from bench.figures import Figure
from bench.running import shiftboss

ROUNDS = 10
_ENTRY = "import sys; from shiftboss.cli.entry import main; main()"
_COMMAND = (sys.executable, "-c", _ENTRY)
_SWARM = "startup"


class Start(NamedTuple):
    """In milliseconds."""

    waited: float
    processor: float


def run(folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    """Each is tried once before, so that its bytecode is there and the files are in memory."""
    folder.mkdir(parents=True)
    database = folder / "shiftboss.db"
    new = [_server(folder / f"{number}.db") for number in range(rounds + 1)][1:]
    again = [_server(database) for _ in range(rounds + 1)][1:]
    figures = [
        *_figures("start of a server, new database", new),
        *_figures("start of a server", again, at_most=400),
    ]
    with shiftboss(database) as server:
        server.post("/swarm/create", {"swarm_id": _SWARM})
        task = {"swarm_id": _SWARM, "bead_id": "t1", "title": "a task"}
        server.post("/bus/add_task", task)
        for arguments in (("status", _SWARM), ("why", "t1", "--swarm", _SWARM)):
            argv = (*_COMMAND, *arguments, "--server", server.url)
            taken = [_command(argv) for _ in range(rounds + 1)][1:]
            figures += _figures(f"shiftboss {arguments[0]}", taken, at_most=120)
    return figures


def _figures(name: str, starts: Sequence[Start], at_most: float | None = None) -> list[Figure]:
    waited = median(start.waited for start in starts)
    processor = median(start.processor for start in starts)
    return [
        Figure(name, waited, "ms", at_most=at_most),
        Figure(f"{name}, processor time", processor, "ms"),
    ]


def _server(database: Path) -> Start:
    """Until it has answered a request."""
    started = time.perf_counter()
    process = subprocess.Popen(
        (*_COMMAND, "serve", "--port", "0", "--db", str(database), "--json"),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        _ask(f"{address}/health")
        waited = time.perf_counter() - started
        used = psutil.Process(process.pid).cpu_times()
        return Start(waited * 1000, (used.user + used.system) * 1000)
    finally:
        process.terminate()
        process.wait()


def _ask(url: str) -> Any:
    with urllib.request.urlopen(url) as reply:
        return json.load(reply)


def _command(argv: Sequence[str]) -> Start:
    started, used_before = time.perf_counter(), _used_by_children()
    process = subprocess.run(argv, capture_output=True, check=False)
    waited, used = time.perf_counter() - started, _used_by_children() - used_before
    assert process.returncode == 0, process.stderr
    return Start(waited * 1000, used * 1000)


def _used_by_children() -> float:
    """Seconds of those that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
