"""Fills a store with finished tasks and their events, in bulk.

`python -m bench.full_store DATABASE --tasks 1000000 --days 20 --swarms 1000`, on an empty or
missing database. A real server works through a few tasks; their rows are then copied within the
database, under other names, other numbers and earlier times. So the store is what a server would
have made: `shiftboss fsck` finds nothing.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

import psycopg

from bench.running import Server, shiftboss

TASKS: Final = 1_000_000
EVENTS_PER_TASK: Final = 10
# With what is added, claimed, started and done.
PROGRESS_PER_TASK: Final = EVENTS_PER_TASK - 4
# How many tasks a real server works through. The copies have as many each.
PATTERN: Final = 1_000
SMALL_PATTERN: Final = 20
DAYS: Final = 20.0
DAY_MS: Final = 86_400_000

BIG_SWARM: Final = "default"
SMALL_SWARM: Final = "z000000"
_SWARM_NAME: Final = "z{:06d}"
# Of the same length in every copy, so that the order of the names is that of the copies.
_TASK_NAME: Final = "b{:06d}-"
_EVENT_COLUMNS: Final = "swarm_id, event_id, kind, at_ms, task_id, report_key, data, actor"
_TASK_COLUMNS: Final = (
    "swarm_id, task_id, title, description, priority, status, waits_for, queue_number, epoch, "
    "worker, checkpoint, last_error, created_at_ms, updated_at_ms, failures, contract_version"
)

_COPY_TASKS: Final = f"""
INSERT INTO tasks ({_TASK_COLUMNS})
SELECT :swarm, replace(task_id, :old, :new), title, description, priority, status, waits_for,
    queue_number, epoch, worker, checkpoint, last_error, created_at_ms - :back_ms,
    updated_at_ms - :back_ms, failures, contract_version
FROM pattern_tasks WHERE swarm_id = :pattern ORDER BY task_id
"""
_COPY_EVENTS: Final = f"""
INSERT INTO events ({_EVENT_COLUMNS})
SELECT :swarm, event_id + :shift, kind, at_ms - :back_ms, replace(task_id, :old, :new), report_key,
    replace(data, :old, :new), actor
FROM pattern_events WHERE swarm_id = :pattern ORDER BY event_id
"""
_COPY_SWARM: Final = """
INSERT INTO swarms (swarm_id, feature, manifest_path, auto_merge, notify_on_complete,
    workers_expected, created_at_ms, completed_at_ms)
SELECT :swarm, feature, manifest_path, auto_merge, notify_on_complete, workers_expected,
    created_at_ms - :back_ms, completed_at_ms - :back_ms
FROM swarms WHERE swarm_id = :pattern
"""
_COPY_WORKERS: Final = """
INSERT INTO workers (swarm_id, name, task_id, available, registered_at_ms, last_activity_at_ms)
SELECT :swarm, name, task_id, available, registered_at_ms - :back_ms,
    last_activity_at_ms - :back_ms
FROM workers WHERE swarm_id = :pattern
"""
# The rows of the pattern itself are replaced by the oldest copy.
_TAKE_PATTERN: Final = (
    "CREATE TEMP TABLE pattern_tasks AS SELECT * FROM tasks",
    "CREATE TEMP TABLE pattern_events AS SELECT * FROM events WHERE kind <> 'bus_worker_joined'",
    "DELETE FROM tasks",
    "DELETE FROM events WHERE kind <> 'bus_worker_joined'",
)
# Times and statistics are those of a store that has grown slowly.
_AGE_FIRST_EVENTS: Final = "UPDATE events SET at_ms = at_ms - :back_ms"
_AGE_FIRST_SWARMS: Final = "UPDATE swarms SET created_at_ms = created_at_ms - :back_ms"


class Database(Protocol):
    def execute(self, statement: str, parameters: dict[str, Any] | None = None) -> list[Any]: ...

    def commit(self) -> None: ...

    def finish(self) -> None:
        """What a store that has grown slowly has done meanwhile."""
        ...


class _Sqlite:
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path)
        self._connection.execute("PRAGMA synchronous = OFF")
        self._connection.execute("PRAGMA cache_size = -200000")

    def execute(self, statement: str, parameters: dict[str, Any] | None = None) -> list[Any]:
        return self._connection.execute(statement, parameters or {}).fetchall()

    def commit(self) -> None:
        self._connection.commit()

    def finish(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._connection.close()


class _Postgres:
    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url)
        self._connection.execute("SET synchronous_commit = off")

    def execute(self, statement: str, parameters: dict[str, Any] | None = None) -> list[Any]:
        for name in parameters or ():
            statement = statement.replace(f":{name}", f"%({name})s")
        cursor = self._connection.execute(statement.encode(), parameters or None)
        return cursor.fetchall() if cursor.description is not None else []

    def commit(self) -> None:
        self._connection.commit()

    def finish(self) -> None:
        self._connection.autocommit = True
        self._connection.execute("VACUUM (ANALYZE)")
        self._connection.execute("CHECKPOINT")

    def close(self) -> None:
        self._connection.close()


class Contents(NamedTuple):
    tasks: int
    events: int
    swarms: int
    seconds: float


def fill(
    database: str, tasks: int = TASKS, days: float = DAYS, swarms: int = 1, until_ms: int = 0
) -> Contents:
    """`swarms`: small ones beside the default swarm, which has all the other tasks. The events end
    `until_ms` before now, and began `days` earlier."""
    started_at = time.monotonic()
    copies = max(tasks // PATTERN, 1)
    with shiftboss(database) as server:
        _work(server, BIG_SWARM, PATTERN)
        _work(server, SMALL_SWARM, SMALL_PATTERN)
    with _opened(database) as store:
        _multiply(store, copies, int(days * DAY_MS), swarms, until_ms)
        ((count_tasks,),) = store.execute("SELECT count(*) FROM tasks")
        ((count_events,),) = store.execute("SELECT count(*) FROM events")
    return Contents(count_tasks, count_events, swarms, time.monotonic() - started_at)


@contextmanager
def _opened(database: str) -> Iterator[Database]:
    opened: Callable[[str], Any] = _Postgres if "://" in database else _Sqlite
    with closing(opened(database)) as store:
        yield store


def _work(server: Server, swarm: str, tasks: int) -> None:
    """From adding a task to its end, with progress reports, one after the other."""
    names = {"swarm_id": swarm, "name": "w-1"}
    if swarm != BIG_SWARM:
        server.post("/swarm/create", {"swarm_id": swarm})
    server.post("/bus/register_worker", names)
    for number in range(tasks):
        task = {"swarm_id": swarm, "bead_id": _TASK_NAME.format(0) + f"{number:04d}"}
        server.post("/bus/add_task", task | {"title": "Make it faster"})
        server.post("/bus/submit_task", task)
        server.post("/bus/poll_task", names | {"timeout_ms": 1000})
        server.post("/bus/ack_task", task | names)
        for step in range(PROGRESS_PER_TASK):
            server.post("/bus/send_message", {"swarm_id": swarm, "message": _progress(task, step)})
        server.post("/bus/worker_done", task)


def _progress(task: dict[str, str], step: int) -> dict[str, Any]:
    return {
        "type": "progress",
        "worker_id": "w-1",
        "timestamp": datetime.now(UTC).isoformat(),
        "payload": {"task_id": task["bead_id"], "step": f"step {step}", "percent": 10 * step},
    }


def _multiply(store: Database, copies: int, span_ms: int, swarms: int, until_ms: int) -> None:
    for statement in _TAKE_PATTERN:
        store.execute(statement)
    oldest = {"back_ms": span_ms + until_ms}
    store.execute(_AGE_FIRST_EVENTS, oldest)
    store.execute(_AGE_FIRST_SWARMS, oldest)
    ((events,),) = store.execute(
        "SELECT count(*) FROM pattern_events WHERE swarm_id = :pattern", {"pattern": BIG_SWARM}
    )
    for number in range(copies):
        back_ms = until_ms + span_ms - span_ms * (number + 1) // copies
        _copy(store, BIG_SWARM, BIG_SWARM, number, number * events, back_ms)
        store.commit()
    _copy(store, SMALL_SWARM, SMALL_SWARM, 0, 0, until_ms + span_ms)
    for number in range(1, swarms):
        back_ms = until_ms + span_ms - span_ms * number // swarms
        swarm = _SWARM_NAME.format(number)
        times = {"swarm": swarm, "pattern": SMALL_SWARM, "back_ms": back_ms - until_ms - span_ms}
        store.execute(_COPY_SWARM, times)
        store.execute(_COPY_WORKERS, times)
        _copy_first_events(store, times)
        _copy(store, SMALL_SWARM, swarm, 0, 0, back_ms)
        store.commit()
    store.commit()
    store.finish()


def _copy(store: Database, pattern: str, swarm: str, number: int, shift: int, back_ms: int) -> None:
    names = {"old": _TASK_NAME.format(0), "new": _TASK_NAME.format(number)}
    names |= {"pattern": pattern, "swarm": swarm}
    store.execute(_COPY_TASKS, names | {"back_ms": back_ms})
    store.execute(_COPY_EVENTS, names | {"back_ms": back_ms, "shift": shift})


def _copy_first_events(store: Database, times: dict[str, Any]) -> None:
    store.execute(
        f"INSERT INTO events ({_EVENT_COLUMNS}) SELECT :swarm, event_id, kind, "
        "at_ms - :back_ms, task_id, report_key, data, actor FROM events "
        "WHERE swarm_id = :pattern AND kind = 'bus_worker_joined'",
        times,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.full_store", description=__doc__)
    parser.add_argument("database", help="a file, or postgresql://...")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--days", type=float, default=DAYS, help="how far back the history goes")
    parser.add_argument("--swarms", type=int, default=1, help="small swarms beside the default one")
    chosen = parser.parse_args()
    contents = fill(chosen.database, chosen.tasks, chosen.days, chosen.swarms)
    print(
        f"{contents.tasks:,} tasks, {contents.events:,} events in {contents.swarms + 1:,} swarms; "
        f"{contents.seconds:.0f} s"
    )


if __name__ == "__main__":
    main()
