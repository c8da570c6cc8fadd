"""What so many workers need: queueing, simulated from measured costs.

`python -m bench.scaling [DATABASE]` measures what a cycle of a task and a heartbeat cost a server
and its database, in processor time, and what a commit costs. Then it simulates servers of one core
each, whose writes are committed in groups, for more and more workers, and says which part is busy
first. DATABASE is a file or postgresql://... on this machine; by default a new file.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from bench.growth import Probed
from bench.running import shiftboss

WORKERS: Final = (1_000, 10_000, 30_000, 100_000)
SERVERS: Final = (1, 2, 4, 8)
SAMPLES: Final = 200
REQUESTS_PER_CYCLE: Final = 5
# An agent works ten minutes on a task, and its launcher sends a heartbeat twice a minute.
TASK_SECONDS: Final = 600.0
HEARTBEAT_SECONDS: Final = 30.0
SIMULATED_SECONDS: Final = 10.0
DATABASE_CORES: Final = 8
POLL_BYTES: Final = 15_000
# A queue that grows to this has no end: there is more work than time.
WAITING_MAX: Final = 20_000


class Costs(NamedTuple):
    """Seconds of processor time for a request in the server and in the database, and the time that
    a commit takes."""

    cycle_server: float
    cycle_database: float
    heartbeat_server: float
    heartbeat_database: float
    commit: float


class Load(NamedTuple):
    cycles_per_second: float
    heartbeats_per_second: float

    @staticmethod
    def of(workers: int) -> Load:
        return Load(workers / TASK_SECONDS, workers / HEARTBEAT_SECONDS)

    @property
    def requests_per_second(self) -> float:
        return REQUESTS_PER_CYCLE * self.cycles_per_second + self.heartbeats_per_second


class Outcome(NamedTuple):
    server_share: float
    database_share: float
    p99_ms: float | None  # None: the queue grows without end


def measure(database: str) -> Costs:
    with shiftboss(database) as server:
        probed = Probed(server, database)
        server.post("/bus/register_worker", {"name": "w-1"})
        for _ in range(20):
            _cycle(probed, heartbeats=1)
        plain = _spent(probed, heartbeats=0)
        beating = _spent(probed, heartbeats=REQUESTS_PER_CYCLE)
        probed.close()
    heartbeat = [
        (more - less) / REQUESTS_PER_CYCLE for more, less in zip(beating, plain, strict=True)
    ]
    return Costs(*plain, max(heartbeat[0], 1e-5), max(heartbeat[1], 0.0), _commit_seconds())


def _spent(probed: Probed, heartbeats: int) -> tuple[float, float]:
    server = probed.server.precise_cpu_seconds()
    total = probed.seconds()
    for _ in range(SAMPLES):
        _cycle(probed, heartbeats)
    own = (probed.server.precise_cpu_seconds() - server) / SAMPLES
    return own, (probed.seconds() - total) / SAMPLES - own


def _cycle(probed: Probed, heartbeats: int) -> None:
    server, task = probed.server, probed.new_task()
    held = {"name": "w-1", "bead_id": task}
    server.post("/bus/add_task", {"bead_id": task, "title": "Probe"})
    server.post("/bus/submit_task", {"bead_id": task})
    server.post("/bus/poll_task", {"name": "w-1", "timeout_ms": 5000})
    server.post("/bus/ack_task", held)
    for _ in range(heartbeats):
        server.post("/bus/heartbeat", held)
    server.post("/bus/worker_done", {"bead_id": task})


def _commit_seconds() -> float:
    """What a page takes to the disk of the temporary folder."""
    with tempfile.TemporaryFile() as file:
        times = []
        for _ in range(50):
            began_at = time.perf_counter()
            os.pwrite(file.fileno(), bytes(4096), 0)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began_at)
    return median(times)


def simulate(costs: Costs, workers: int, servers: int, *, seed: int = 1) -> Outcome:
    """Requests arrive at random; each server takes them one after the other, and commits those that
    have come meanwhile together. The database shares its cores between the servers."""
    load = Load.of(workers)
    rate = load.requests_per_second / servers
    is_heartbeat = load.heartbeats_per_second / load.requests_per_second
    chance = random.Random(seed)
    slow_down = max(1.0, servers / DATABASE_CORES)
    now, used, committed = 0.0, 0.0, 0.0
    waiting: list[float] = []
    delays: list[float] = []
    next_arrival = chance.expovariate(rate)
    while now < SIMULATED_SECONDS:
        while next_arrival <= now and len(waiting) < WAITING_MAX:
            waiting.append(next_arrival)
            next_arrival += chance.expovariate(rate)
        if len(waiting) >= WAITING_MAX:
            return _shares(costs, load, servers)
        if not waiting:
            now = next_arrival
            continue
        beats = sum(chance.random() < is_heartbeat for _ in waiting)
        others = len(waiting) - beats
        work = beats * costs.heartbeat_server + others * costs.cycle_server / REQUESTS_PER_CYCLE
        stored = (
            beats * costs.heartbeat_database + others * costs.cycle_database / REQUESTS_PER_CYCLE
        )
        now += work + stored * slow_down + costs.commit
        used, committed = used + work, committed + stored
        delays += [now - arrived for arrived in waiting]
        waiting.clear()
    delays.sort()
    outcome = _shares(costs, load, servers)
    return outcome._replace(p99_ms=delays[int(len(delays) * 0.99)] * 1000)


def _shares(costs: Costs, load: Load, servers: int) -> Outcome:
    cycles, beats = load
    server = (cycles * costs.cycle_server + beats * costs.heartbeat_server) / servers
    database = cycles * costs.cycle_database + beats * costs.heartbeat_database
    return Outcome(server, database / DATABASE_CORES, None)


def show(costs: Costs) -> None:
    console = Console()
    console.print(
        f"a cycle: {costs.cycle_server * 1000:.2f} ms in the server, "
        f"{costs.cycle_database * 1000:.2f} in the database; "
        f"a heartbeat: {costs.heartbeat_server * 1000:.2f} and "
        f"{costs.heartbeat_database * 1000:.2f}; a commit: {costs.commit * 1000:.2f}"
    )
    columns = ("workers", "requests/s", "servers", "memory each", "server", "database", "p99")
    table = Table(*columns)
    for workers in WORKERS:
        for servers in SERVERS:
            outcome = simulate(costs, workers, servers)
            p99 = "grows" if outcome.p99_ms is None else f"{outcome.p99_ms:.1f} ms"
            table.add_row(
                f"{workers:,}",
                f"{Load.of(workers).requests_per_second:,.0f}",
                str(servers),
                f"{60 + workers * POLL_BYTES / servers / 1e6:,.0f} MB",
                f"{outcome.server_share:.0%}",
                f"{outcome.database_share:.0%}",
                p99,
            )
            if outcome.p99_ms is not None and outcome.server_share < 0.5:
                break  # more servers change nothing
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("database", nargs="?", help="a file or postgresql://... on this machine")
    database = parser.parse_args().database
    with tempfile.TemporaryDirectory(prefix="shiftboss-scaling-") as folder:
        show(measure(database or str(Path(folder) / "scaling.db")))


if __name__ == "__main__":
    main()
