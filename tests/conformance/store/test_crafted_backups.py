"""Backups that somebody has made up or changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from shiftboss.store.backups.backup import back_up, restore
from shiftboss.store.backups.postgres_backup import BackupContents, TableCopy
from shiftboss.store.backups.report import NotABackup
from tests.conformance.opened import opened
from tests.conformance.store.rows import add_swarm_with_event

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-21")]

NOW_MS = 1_800_000_000_000
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"


@pytest.fixture
async def sqlite_backup(sqlite_path: str, tmp_path: Path) -> Path:
    return await new_backup(sqlite_path, tmp_path)


@pytest.fixture
async def archive(postgres_url: str, tmp_path: Path) -> Path:
    return await new_backup(postgres_url, tmp_path)


async def new_backup(address: str, folder: Path) -> Path:
    file = folder / "backup"
    async with opened(address) as store:
        await store.write(add_swarm_with_event)
    back_up(address, file, now_ms=NOW_MS)
    return file


def refusal(address: str, file: Path) -> str:
    with pytest.raises(NotABackup) as caught:
        restore(address, file, force=True, now_ms=NOW_MS)
    return caught.value.detail


@pytest.mark.parametrize(
    ("statements", "odd"),
    [
        pytest.param(
            ["CREATE TRIGGER evil AFTER INSERT ON events BEGIN DELETE FROM tasks; END"],
            "trigger evil",
            id="trigger",
        ),
        pytest.param(
            [
                "DROP TRIGGER tasks_count_added",
                "CREATE TRIGGER tasks_count_added INSERT ON tasks BEGIN DELETE FROM events; END",
            ],
            "trigger tasks_count_added",
            id="trigger of the same name",
        ),
        pytest.param(
            ["ALTER TABLE receipts RENAME TO other", f"CREATE VIEW receipts AS {ENDLESS}"],
            "index receipts_",
            id="endless view",
        ),
        pytest.param(["CREATE TABLE other (x)"], "other x", id="table"),
        pytest.param(
            ["ALTER TABLE tasks ADD COLUMN more BLOB AS (zeroblob(1000000000))"],
            "tasks more",
            id="computed column",
        ),
        pytest.param(["PRAGMA user_version = 1"], "version 1", id="older version"),
        pytest.param(["PRAGMA user_version = -5"], "version -5", id="version below all"),
    ],
)
async def test_a_sqlite_backup_with_another_schema_is_refused(
    sqlite_path: str, sqlite_backup: Path, statements: list[str], odd: str
) -> None:
    with closing(sqlite3.connect(sqlite_backup)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    assert odd in refusal(sqlite_path, sqlite_backup)


async def test_what_is_verified_in_a_log_beside_a_sqlite_backup_is_restored(
    sqlite_path: str, sqlite_backup: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copied"
    with closing(sqlite3.connect(sqlite_backup)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("DELETE FROM events")
        connection.commit()
        shutil.copy(sqlite_backup, copied)
        shutil.copy(f"{sqlite_backup}-wal", f"{copied}-wal")
    report = restore(sqlite_path, copied, force=True, now_ms=NOW_MS)
    with closing(sqlite3.connect(sqlite_path)) as connection:
        (events,) = connection.execute("SELECT count(*) FROM events").fetchone()
    assert report.rows["events"] == events == 0


async def test_a_pipe_is_not_waited_for(store_address: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is not a file" in refusal(store_address, pipe)


def rewritten(
    backup: Path, change: Callable[[BackupContents], object], method: int = zipfile.ZIP_DEFLATED
) -> None:
    with zipfile.ZipFile(backup) as former:
        members = {name: former.read(name) for name in former.namelist()}
    contents = BackupContents.model_validate_json(members.pop("backup.json"))
    change(contents)
    with zipfile.ZipFile(backup, "w", method) as written:
        for name, data in members.items():
            written.writestr(name, data)
        written.writestr("other.copy", b"")
        written.writestr("backup.json", contents.model_dump_json())


def add_foreign_table(contents: BackupContents) -> None:
    nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    contents.tables.append(TableCopy(name="other", columns=["x"], rows=0, sha256=nothing))


def leave_out_receipts(contents: BackupContents) -> None:
    contents.tables = [table for table in contents.tables if table.name != "receipts"]


def name_no_column(contents: BackupContents) -> None:
    contents.tables[0].columns[0] = 'id") FROM PROGRAM $$true$$ --'


def pretend_to_be_older(contents: BackupContents) -> None:
    contents.schema_version = 0


@pytest.mark.parametrize(
    "change", [add_foreign_table, leave_out_receipts, name_no_column, pretend_to_be_older]
)
async def test_a_postgres_backup_with_other_tables_is_refused_and_touches_none(
    postgres_url: str, archive: Path, change: Callable[[BackupContents], None]
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE other (x integer)")
        connection.execute("INSERT INTO other VALUES (1)")
        rewritten(archive, change)
        assert "nothing was changed" in refusal(postgres_url, archive)
        assert connection.execute("SELECT count(*) FROM other").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM swarms").fetchone() == (1,)


async def test_an_archive_that_is_packed_in_another_way_is_refused(
    postgres_url: str, archive: Path
) -> None:
    rewritten(archive, lambda _contents: None, zipfile.ZIP_LZMA)
    assert "not as shiftboss writes it" in refusal(postgres_url, archive)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("backup.json", b" " * (1 << 21))
    assert "not as shiftboss writes it" in refusal(postgres_url, archive)
