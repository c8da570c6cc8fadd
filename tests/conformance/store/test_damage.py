"""Damage of a SQLite file is noticed, said aloud, and ends the writing."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from shiftboss.errors import DatabaseInUse, OutcomeUnknown, StoreDamaged, StoreUnavailable
from shiftboss.store.port import Transaction
from shiftboss.store.sqlite import damage, session
from shiftboss.store.sqlite import store as sqlite_store
from shiftboss.store.sqlite.log_check import check_log
from shiftboss.store.sqlite.offline_store import OfflineStore
from shiftboss.store.sqlite.store import SqliteStore
from tests.conformance.opened import OpenStore, opened
from tests.conformance.store.rows import SWARM, add_event, add_swarm_with_event
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-21")]

EVENTS = 60


def add_events(tx: Transaction) -> None:
    for _ in range(EVENTS):
        add_event(tx, text="x" * 2000)


async def filled(path: str) -> None:
    async with opened(path) as store:
        await store.write(add_swarm_with_event)
        await store.write(add_events)


def remove(path: str | Path) -> None:
    Path(path).unlink()


def rot(path: str | Path, at: int, length: int = 200) -> None:
    with Path(path).open("r+b") as file:
        file.seek(at)
        file.write(b"\xa5" * length)


def page_of(path: str, table: str) -> int:
    """Where the first page of the table is in the file."""
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = ?", [table]
        ).fetchone()
    return int((root - 1) * size)


def place_of(path: str, text: bytes) -> int:
    return Path(path).read_bytes().index(text)


async def refused(path: str) -> StoreDamaged:
    with pytest.raises(StoreDamaged) as caught:
        await SqliteStore(path).open(lambda _: None, lambda: None)
    return caught.value


async def test_a_rotten_page_keeps_the_server_from_starting(sqlite_path: str) -> None:
    await filled(sqlite_path)
    root = page_of(sqlite_path, "events")
    rot(sqlite_path, root)
    error = await refused(sqlite_path)
    assert "shiftboss fsck --db" in (error.hint or "")
    assert "was found damaged" in (await refused(sqlite_path)).detail, "the note is kept"


async def test_a_rotten_schema_keeps_the_server_from_starting(sqlite_path: str) -> None:
    """SQLite quotes it in its message, which is not UTF-8 then."""
    await filled(sqlite_path)
    rot(sqlite_path, place_of(sqlite_path, b"tableswarmsswarms") + len(b"table"), 1)
    rot(sqlite_path, place_of(sqlite_path, b"CREATE TABLE swarms"), 1)
    await refused(sqlite_path)


async def test_a_rotten_page_under_a_running_server_ends_the_writing(
    sqlite_path: str, caplog: pytest.LogCaptureFixture
) -> None:
    await filled(sqlite_path)
    root = page_of(sqlite_path, "events")
    async with opened(sqlite_path) as store:
        rot(sqlite_path, root)
        with pytest.raises(StoreDamaged):
            await store.read(lambda tx: tx.events_after(SWARM, 0, 1000))
        with pytest.raises(StoreDamaged, match=r"shiftboss\.db"):
            await store.write(lambda tx: tx.swarm(SWARM))
        assert isinstance(store.store.failing(), StoreDamaged)
        assert await store.read(lambda tx: tx.swarm(SWARM)), "what is intact can be read"
    assert "no more writes are accepted" in caplog.text


async def test_a_write_that_meets_a_rotten_page_fails_the_whole_batch(sqlite_path: str) -> None:
    await filled(sqlite_path)
    root = page_of(sqlite_path, "events")
    async with opened(sqlite_path) as store:
        assert isinstance(store.store, SqliteStore)
        store.store._writing.session._connection.execute("PRAGMA shrink_memory")
        rot(sqlite_path, root)
        results = await asyncio.gather(
            store.write(lambda tx: tx.swarm(SWARM)), store.write(add_event), return_exceptions=True
        )
        assert [type(result) for result in results] == [StoreDamaged, StoreDamaged]
        with pytest.raises(StoreDamaged):
            await store.write(lambda tx: tx.swarm(SWARM))


@pytest.mark.parametrize("name", ["", "-wal"])
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_deleted_or_replaced_is_not_written_to(
    sqlite_path: str, name: str, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damage, "FILES_UNCHECKED_SECONDS", 0.0)  # as if the last write was long ago
    path = Path(sqlite_path + name)
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
        if replaced:
            shutil.copy(path, f"{path}.copy")
            shutil.move(f"{path}.copy", path)
        else:
            remove(path)
        with pytest.raises(StoreDamaged, match="replaced" if replaced else "deleted"):
            await store.write(add_event)
        with pytest.raises(StoreDamaged):
            await store.write(add_event)
        assert isinstance(store.store.failing(), StoreDamaged)


async def test_a_deleted_file_is_noticed_without_a_write(sqlite_path: str) -> None:
    async with opened(sqlite_path) as store:
        remove(sqlite_path)
        with pytest.raises(StoreDamaged):  # nothing was read before
            await store.read(lambda tx: tx.swarm(SWARM))
        assert isinstance(store.store.failing(), StoreDamaged)


async def test_an_idle_server_notices_a_deleted_file(
    sqlite_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_store, "WATCH_SECONDS", 0.01)
    async with opened(sqlite_path) as store:
        remove(sqlite_path)
        await eventually(store.store.failing, "the deleted file is noticed")
        assert isinstance(store.store.failing(), StoreDamaged)


def crashed(store: OpenStore, folder: Path) -> str:
    """The files as a killed server would leave them."""
    folder.mkdir()
    for name in ("", "-wal", "-shm"):
        shutil.copy(f"{store.address}{name}", folder / f"shiftboss.db{name}")
    return str(folder / "shiftboss.db")


async def copy_after_writes(sqlite_path: str, folder: Path) -> str:
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
        for _ in range(20):
            await store.write(add_event)
        return crashed(store, folder)


def log_bytes(path: str) -> int:
    """The length of the written part of the log."""
    data = Path(f"{path}-wal").read_bytes()
    return len(data.rstrip(b"\0"))


async def test_a_crash_alone_loses_nothing_and_is_no_damage(
    sqlite_path: str, tmp_path: Path
) -> None:
    path = await copy_after_writes(sqlite_path, tmp_path / "crashed")
    async with opened(path) as store:
        assert len(await store.read(lambda tx: tx.events_after(SWARM, 0, 1000))) == 21


async def test_a_torn_end_of_the_log_is_no_damage(sqlite_path: str, tmp_path: Path) -> None:
    """A power failure within a commit: the index says nothing, and the last frame is incomplete."""
    path = await copy_after_writes(sqlite_path, tmp_path / "crashed")
    remove(f"{path}-shm")
    rot(f"{path}-wal", log_bytes(path) - 300)
    assert check_log(Path(path)) is None
    async with opened(path) as store:
        assert len(await store.read(lambda tx: tx.events_after(SWARM, 0, 1000))) == 20


@pytest.mark.parametrize("keeps_index", [True, False])
async def test_a_rotten_frame_of_the_log_is_noticed(
    sqlite_path: str, tmp_path: Path, keeps_index: bool
) -> None:
    path = await copy_after_writes(sqlite_path, tmp_path / "crashed")
    if not keeps_index:
        remove(f"{path}-shm")
    rot(f"{path}-wal", log_bytes(path) // 2)
    assert "acknowledged are lost" in (await refused(path)).detail


async def test_the_rotten_last_commit_of_a_killed_server_is_noticed(
    sqlite_path: str, tmp_path: Path
) -> None:
    path = await copy_after_writes(sqlite_path, tmp_path / "crashed")
    rot(f"{path}-wal", log_bytes(path) - 300)
    assert "acknowledged are lost" in (await refused(path)).detail


@pytest.mark.parametrize("name", ["-wal", ""])
async def test_a_file_or_log_that_is_gone_after_a_crash_is_noticed(
    sqlite_path: str, tmp_path: Path, name: str
) -> None:
    path = await copy_after_writes(sqlite_path, tmp_path / "crashed")
    remove(path + name)
    await refused(path)


async def test_a_command_without_a_server_refuses_a_damaged_file_too(
    sqlite_path: str, tmp_path: Path
) -> None:
    path = await copy_after_writes(sqlite_path, tmp_path / "crashed")
    rot(f"{path}-wal", log_bytes(path) // 2)
    with pytest.raises(StoreDamaged):
        await OfflineStore(Path(path)).open(lambda _: None, lambda: None)


class FailingConnection:
    """Passes everything on; COMMIT fails as it does when fsync fails."""

    def __init__(self, connection: sqlite3.Connection, code: int) -> None:
        self._connection = connection
        self._code = code

    def execute(self, text: str, *parameters: Any) -> sqlite3.Cursor:
        if text == "COMMIT":
            self._connection.execute("ROLLBACK")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = self._code
            raise error
        return self._connection.execute(text, *parameters)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


def fail_commits(store: OpenStore, code: int) -> None:
    assert isinstance(store.store, SqliteStore)
    writing = store.store._writing.session
    writing._connection = FailingConnection(writing._connection, code)  # type: ignore[assignment]


async def test_a_failed_fsync_is_unknown_and_the_file_is_opened_again(sqlite_path: str) -> None:
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
        fail_commits(store, sqlite3.SQLITE_IOERR_FSYNC)
        with pytest.raises(OutcomeUnknown) as caught:
            await store.write(add_event)
        assert "nothing was changed" not in f"{caught.value.detail} {caught.value.hint}"
        await eventually(lambda: store.store.failing() is None, "a probe finds that it works")
        assert (await store.write(add_event)).event_id == 2


async def test_a_full_disk_at_the_commit_has_changed_nothing(sqlite_path: str) -> None:
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
        fail_commits(store, sqlite3.SQLITE_FULL)
        with pytest.raises(StoreUnavailable) as caught:
            await store.write(add_event)
        assert type(caught.value) is StoreUnavailable
        assert "nothing was changed" in (caught.value.hint or "")


async def test_a_damaged_file_is_not_locked_by_the_refused_server(sqlite_path: str) -> None:
    await filled(sqlite_path)
    root = page_of(sqlite_path, "events")
    rot(sqlite_path, root)
    for _ in range(2):
        try:
            await refused(sqlite_path)
        except DatabaseInUse:
            pytest.fail("the lock was kept")


async def test_the_quick_check_of_a_large_file_ends_in_time(
    sqlite_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(sqlite_path)
    monkeypatch.setattr(session, "CHECK_SECONDS", 0.0)
    rot(sqlite_path, page_of(sqlite_path, "events"))  # found in the end, not at the start
    async with opened(sqlite_path) as store:
        with pytest.raises(StoreDamaged):
            await store.read(lambda tx: tx.events_after(SWARM, 0, 1000))


async def test_an_error_that_sqlite_does_not_name_is_no_damage(sqlite_path: str) -> None:
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
        fail_commits(store, 0)
        with pytest.raises(OutcomeUnknown):
            await store.write(add_event)
        assert not isinstance(store.store.failing(), StoreDamaged)
