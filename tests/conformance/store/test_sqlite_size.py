"""A SQLite file uses the room of what was deleted again, and its log stays small."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import cycle
from pathlib import Path

import pytest

from shiftboss.protocol.events import EventKind
from shiftboss.store.port import Transaction
from shiftboss.store.sqlite import log_size, session
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.rows import SWARM

pytestmark = pytest.mark.anyio

EVENTS = 300
EVENT_BYTES = 4000


def pages(path: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (count,) = connection.execute("PRAGMA page_count").fetchone()
        return int(count)


def log_bytes(path: str) -> int:
    return Path(f"{path}-wal").stat().st_size


async def fill(store: OpenStore) -> None:
    def add(tx: Transaction) -> None:
        tx.take_swarm(SWARM)
        for number in range(EVENTS):
            data = {"text": "x" * EVENT_BYTES}
            tx.add_event(SWARM, EventKind.TASK_PROGRESS, number, data)

    await store.write(add)


async def test_the_room_of_deleted_rows_is_used_again(sqlite_path: str) -> None:
    async with opened(sqlite_path) as store:
        await store.add_swarm()
        await fill(store)
        full = pages(sqlite_path)
        for _ in range(5):
            await store.write(lambda tx: tx.delete_events(SWARM, EVENTS))
            await fill(store)
        assert pages(sqlite_path) < 1.1 * full


async def test_a_log_that_a_long_reader_made_grow_is_cut(
    sqlite_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "WAL_PAGES_MAX", 50)
    monkeypatch.setattr(session, "WAL_BYTES_KEPT", 1 << 20)
    async with opened(sqlite_path) as store:
        await store.add_swarm()
        with closing(sqlite3.connect(sqlite_path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM swarms").fetchone()
            for _ in range(3):
                await fill(store)
            assert log_bytes(sqlite_path) > 2 << 20
        for _ in range(3):
            await store.write(lambda tx: tx.set_swarm_completed(SWARM, 1))
        assert log_bytes(sqlite_path) <= 1 << 20


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looked at after every commit."""
    monkeypatch.setattr(session, "WAL_PAGES_MAX", 50)
    monkeypatch.setattr(log_size, "LOG_BYTES_MAX", 1 << 20)
    monkeypatch.setattr(log_size, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(log_size, "PAUSE_SECONDS", 0.0)


@contextmanager
def readers_in_turns(path: str) -> Iterator[None]:
    """At every moment one of them has a snapshot."""
    ends, started = threading.Event(), threading.Event()

    def read() -> None:
        with closing(sqlite3.connect(path)) as one, closing(sqlite3.connect(path)) as two:
            for starting, ending in cycle([(one, two), (two, one)]):
                starting.execute("BEGIN")
                starting.execute("SELECT count(*) FROM swarms").fetchone()
                if ending.in_transaction:
                    ending.execute("COMMIT")
                started.set()
                if ends.is_set():
                    break

    reading = threading.Thread(target=read)
    reading.start()
    try:
        assert started.wait(30)
        yield
    finally:
        ends.set()
        reading.join()


@pytest.mark.usefixtures("short_log")
async def test_the_log_stays_bounded_under_constant_readers(
    sqlite_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However busy the machine is, the readers get their turns.
    monkeypatch.setattr(log_size, "WAIT_MS", 10_000)
    async with opened(sqlite_path) as store:
        await store.add_swarm()
        with readers_in_turns(sqlite_path):
            for _ in range(20):
                await fill(store)
                # Each fill writes more than the limit, and it is cut before the next one.
                assert log_bytes(sqlite_path) <= 1 << 20
        assert store.store.measures.log_bytes_held == 0


@pytest.mark.usefixtures("short_log")
async def test_a_log_that_cannot_be_cut_back_is_told_until_it_is(
    sqlite_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(sqlite_path) as store:
        await store.add_swarm()
        with closing(sqlite3.connect(sqlite_path)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM swarms").fetchone()
            for _ in range(2):
                await fill(store)
            assert store.store.measures.copy().log_bytes_held == log_bytes(sqlite_path) > 1 << 20
        await store.write(lambda tx: tx.set_swarm_completed(SWARM, 1))
        assert store.store.measures.log_bytes_held == 0
        assert log_bytes(sqlite_path) <= 1 << 20
    assert sum("cut back" in record.message for record in caplog.records) == 1
