"""What the disk, the databases and the web server of this machine can do at most."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import psycopg

from bench.peers.results import Limit
from bench.peers.services import postgres
from bench.running import LOAD_SECONDS_MAX, echo

_COMMITS: Final = 1_000
_ECHOES: Final = 4_000
_PAGE: Final = b"x" * 4096
_ECHO_CONNECTIONS: Final = (1, 8)


def limits() -> list[Limit]:
    echoes = [
        Limit(name=f"echo of a bare ASGI application, {_connections(count)}", unit="requests/s")
        for count in _ECHO_CONNECTIONS
    ]
    return [
        Limit(name="`fdatasync` of an appended page of 4 KiB", unit="syncs/s"),
        Limit(name="SQLite, `synchronous=FULL`, one row", unit="commits/s"),
        Limit(name="PostgreSQL, one row, one connection", unit="commits/s"),
        *echoes,
    ]


def measure(limits: list[Limit], folder: Path) -> None:
    """One round."""
    values = [_syncs(folder), _sqlite_commits(folder), _postgres_commits(folder), *_echoes()]
    for limit, value in zip(limits, values, strict=True):
        limit.values.append(value)


def _syncs(folder: Path) -> float:
    with (folder / "synced").open("wb", buffering=0) as file:

        def write() -> None:
            file.write(_PAGE)
            os.fdatasync(file.fileno())

        return _per_second(write)


def _sqlite_commits(folder: Path) -> float:
    connection = sqlite3.connect(folder / "commits.db", isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT)")
        return _per_second(lambda: connection.execute("INSERT INTO jobs (state) VALUES ('done')"))
    finally:
        connection.close()


def _postgres_commits(folder: Path) -> float:
    with postgres(folder) as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE jobs (id bigserial PRIMARY KEY, state text)")
        return _per_second(lambda: connection.execute("INSERT INTO jobs (state) VALUES ('done')"))


def _echoes() -> Iterator[float]:
    with echo() as server:
        for connections in _ECHO_CONNECTIONS:
            load = [sys.executable, "-m", "bench.bus_load", "echo", server.url]
            finished = subprocess.run(
                [*load, str(connections), str(_ECHOES // 4)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
                timeout=LOAD_SECONDS_MAX,
            )
            yield float(json.loads(finished.stdout)["requests_per_second"])


def _per_second(commit: Callable[[], object]) -> float:
    commit()
    started_at = time.perf_counter()
    for _ in range(_COMMITS):
        commit()
    return _COMMITS / (time.perf_counter() - started_at)


def _connections(count: int) -> str:
    return f"{count} connection{'s' if count > 1 else ''}"
