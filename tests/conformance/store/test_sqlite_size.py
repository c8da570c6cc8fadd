"""A SQLite file uses the room of what was deleted again, and its log stays small."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from shiftboss.protocol.events import EventKind
from shiftboss.store.port import Transaction
from shiftboss.store.sqlite import session
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
