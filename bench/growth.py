"""What a large store costs: the same requests to a server on a full and on a small store.

`python -m bench.growth FULL SMALL` compares two stores that `bench.full_store` has filled, both
SQLite or both PostgreSQL on this machine; `python -m bench` compares two SQLite files. Compared is
the processor time of the server and of the database processes that serve it: it says what a request
costs, whatever else the machine does.
"""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import psycopg

from bench import full_store
from bench.figures import Figure, show
from bench.running import Server, shiftboss

ROUNDS: Final = 9
CYCLES_PER_ROUND: Final = 100
# Many small ones, so that the smallest difference counts.
READS_PER_ROUND: Final = 40
FULL_TASKS: Final = 200_000
SMALL_TASKS: Final = 1_000
GROWTH_MAX: Final = 1.1

_BACKENDS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""

Probe = Callable[["Probed"], None]


class Probed:
    """A server on one of the two stores."""

    def __init__(self, server: Server, database: str) -> None:
        self.server = server
        self._database = psycopg.connect(database, autocommit=True) if "://" in database else None
        self.run = secrets.token_hex(4)
        self._count = 0

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def new_task(self) -> str:
        self._count += 1
        return f"probe-{self.run}-{self._count}"

    def seconds(self) -> float:
        return self.server.precise_cpu_seconds() + sum(map(_cpu_seconds, self._backends()))

    def _backends(self) -> list[int]:
        if self._database is None:
            return []
        return [int(pid) for (pid,) in self._database.execute(_BACKENDS)]


def _cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def _cycle(probed: Probed) -> None:
    """Add, submit, deliver, acknowledge, done."""
    server, task, worker = probed.server, probed.new_task(), "w-1"
    server.post("/bus/add_task", {"bead_id": task, "title": "Probe"})
    server.post("/bus/submit_task", {"bead_id": task})
    delivered = server.post("/bus/poll_task", {"name": worker, "timeout_ms": 5000})
    assert delivered["task"]["bead_id"] == task, delivered
    server.post("/bus/ack_task", {"name": worker, "bead_id": task})
    server.post("/bus/worker_done", {"bead_id": task})


def _call(operation: str, **members: Any) -> Probe:
    def probe(probed: Probed) -> None:
        probed.server.post(f"/bus/{operation}", members)

    return probe


def _get(path: str) -> Probe:
    def probe(probed: Probed) -> None:
        probed.server.get(path)

    return probe


# What, and how many in a round.
PROBES: Final[dict[str, tuple[Probe, int]]] = {
    "a cycle of a task": (_cycle, CYCLES_PER_ROUND),
    "bus status": (_call("get_status"), READS_PER_ROUND),
    "status of the swarm": (_get("/swarm/default/status"), READS_PER_ROUND),
    "list of swarms": (_get("/swarms?limit=5"), READS_PER_ROUND),
    "list of tasks": (_call("list_tasks", limit=50), READS_PER_ROUND),
    "cards of the page": (_call("list_cards", swarm_id="default", limit=50), READS_PER_ROUND),
    "inbox of the page": (_call("list_inbox"), READS_PER_ROUND),
    "list of events": (_call("list_events", swarm_id="default", limit=50), READS_PER_ROUND),
    "metrics": (_get("/metrics"), READS_PER_ROUND),
    "health": (_get("/health"), READS_PER_ROUND),
}


def compare(full: str, small: str, rounds: int = ROUNDS) -> list[Figure]:
    starts: list[tuple[float, float]] = []
    for _ in range(3):
        with shiftboss(full) as one, shiftboss(small) as other:
            starts.append((one.precise_cpu_seconds(), other.precise_cpu_seconds()))
    figures = [_figure("start of a server", starts)]
    with _probed(full) as one, _probed(small) as other:
        for probed in (one, other):
            probed.server.post("/bus/register_worker", {"name": "w-1"})
            _cycle(probed)
        for name, (probe, count) in PROBES.items():
            figures.append(_figure(name, _costs((one, other), probe, count, rounds)))
    return figures


@contextmanager
def _probed(database: str) -> Iterator[Probed]:
    with shiftboss(database) as server:
        probed = Probed(server, database)
        try:
            yield probed
        finally:
            probed.close()


def _costs(
    both: tuple[Probed, Probed], probe: Probe, count: int, rounds: int
) -> list[tuple[float, float]]:
    """In turns, so that conditions are equal; the first round, with cold caches, does not count."""
    costs = []
    for _ in range(rounds + 1):
        full, small = (_cost(probed, probe, count) for probed in both)
        costs.append((full, small))
    return costs[1:]


def _cost(probed: Probed, probe: Probe, count: int) -> float:
    before = probed.seconds()
    for _ in range(count):
        probe(probed)
    return (probed.seconds() - before) / count


def _figure(name: str, costs: list[tuple[float, float]]) -> Figure:
    full, small = (median(each) for each in zip(*costs, strict=True))
    label = f"{name}: full / small store ({full * 1000:.2f} / {small * 1000:.2f} ms)"
    return Figure(label, full / small, "", at_most=GROWTH_MAX)


def run(folder: Path, tasks: int = FULL_TASKS, rounds: int = ROUNDS) -> list[Figure]:
    full, small = str(folder / "full.db"), str(folder / "few.db")
    full_store.fill(full, tasks, swarms=tasks // 1000)
    full_store.fill(small, SMALL_TASKS, swarms=5)
    return compare(full, small, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("full", help="a file or postgresql://..., as `bench.full_store` left it")
    parser.add_argument("small", help="the same, with a thousandth of the tasks")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    show(compare(chosen.full, chosen.small, chosen.rounds))


if __name__ == "__main__":
    main()
