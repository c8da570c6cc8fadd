"""Failures specific to a file: it is in use, full, or unreachable."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shiftboss.errors import DatabaseInUse, StoreUnavailable
from shiftboss.store.port import Transaction
from shiftboss.store.sqlite.store import SqliteStore
from shiftboss.system.file_locks import try_lock
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.rows import SWARM, add_event, add_swarm_with_event

pytestmark = pytest.mark.anyio

_OPEN_ELSEWHERE = """
import asyncio, sys
from shiftboss.errors import DatabaseInUse
from shiftboss.store.sqlite.store import SqliteStore
try:
    asyncio.run(SqliteStore(sys.argv[1]).open(print, print))
except DatabaseInUse as error:
    sys.exit(error.detail)
"""


async def test_a_second_store_on_the_same_file_is_refused(sqlite_path: str) -> None:
    async with opened(sqlite_path) as first:
        with pytest.raises(DatabaseInUse, match=r"shiftboss\.db") as caught:
            await SqliteStore(sqlite_path).open(lambda _: None, lambda: None)
        assert caught.value.hint
        await first.write(add_swarm_with_event)
    async with opened(sqlite_path) as second:
        assert await second.read(lambda tx: tx.swarm(SWARM)) is not None


async def test_a_store_waits_for_a_lock_that_is_held_for_a_moment(sqlite_path: str) -> None:
    lock = try_lock(Path(f"{sqlite_path}.lock"))
    assert lock is not None
    asyncio.get_running_loop().call_later(0.2, os.close, lock)
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)


async def test_a_second_process_on_the_same_file_is_refused(sqlite_path: str) -> None:
    async with opened(sqlite_path):
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", _OPEN_ELSEWHERE, sqlite_path],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "a server is using" in done.stderr


def set_page_limit(store: OpenStore, spare_pages: int | None) -> None:
    """Simulate a disk with so many pages; None removes the limit."""
    assert isinstance(store.store, SqliteStore)
    execute = store.store._writing.session._connection.execute
    (used,) = execute("PRAGMA page_count").fetchone()
    limit = 2**30 if spare_pages is None else used + spare_pages
    execute(f"PRAGMA max_page_count = {limit}")


def add_large_events(tx: Transaction) -> None:
    for _ in range(50):
        add_event(tx, text="x" * 4000)


async def test_a_full_disk_is_reported_changes_nothing_and_recovers(sqlite_path: str) -> None:
    async with opened(sqlite_path) as store:
        created = await store.write(add_swarm_with_event)
        set_page_limit(store, spare_pages=5)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="full"):
                await store.write(add_large_events)
            assert await store.read(lambda tx: tx.events_after(SWARM, 0, 100)) == [created]
        assert store.commits == [[created]]
        set_page_limit(store, spare_pages=None)
        await store.write(add_large_events)
        assert [event.event_id for event in store.heard] == list(range(1, 52))


async def test_a_full_disk_fails_every_write_in_the_batch(sqlite_path: str) -> None:
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
        set_page_limit(store, spare_pages=5)
        results = await asyncio.gather(
            *(store.write(use_case) for use_case in (add_event, add_large_events, add_event)),
            return_exceptions=True,
        )
        stored = await store.read(lambda tx: tx.events_after(SWARM, 1, 100))
        answered = [result for result in results if not isinstance(result, BaseException)]
        assert stored == answered
        assert type(results[1]) is StoreUnavailable
        set_page_limit(store, spare_pages=None)
        assert (await store.write(add_event)).event_id == len(stored) + 2


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 100)
    with pytest.raises(StoreUnavailable, match=r"notes\.txt"):
        await SqliteStore(path).open(lambda _: None, lambda: None)
    assert path.read_text() == "not a database\n" * 100


async def test_the_folder_of_the_file_is_created(tmp_path: Path) -> None:
    async with opened(str(tmp_path / "a" / "b" / "shiftboss.db")) as store:
        await store.write(add_swarm_with_event)
    assert (tmp_path / "a" / "b" / "shiftboss.db").exists()
