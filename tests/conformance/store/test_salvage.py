"""What can still be read of a damaged SQLite file is saved, and a server goes on with it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from shiftboss.errors import StoreDamaged
from shiftboss.store.backups.backup import back_up, restore
from shiftboss.store.port import Transaction
from shiftboss.store.sqlite.damage import MAGIC, restore_hint
from shiftboss.store.sqlite.store import SqliteStore
from tests.conformance.opened import opened
from tests.conformance.store.rows import SWARM, add_event, add_swarm_with_event, assignment
from tests.conformance.store.test_damage import EVENTS, filled, page_of, rot

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-21")]

MANY = 200
NOW_MS = 1_800_000_000_000


async def event_ids(path: str) -> list[int]:
    async with opened(path) as store:
        return [row.event_id for row in await store.read(lambda tx: tx.events_after(SWARM, 0, 500))]


def add_short_events(tx: Transaction) -> None:
    """Short enough for several in a page: what is in a page of its own is not checked by SQLite."""
    for number in range(2, MANY + 1):
        add_event(tx, text=f"event-{number} " + "y" * 300)


def page_with(path: str, text: bytes) -> int:
    return Path(path).read_bytes().index(text) // 4096 * 4096


async def test_a_rotten_leaf_costs_its_rows_only(sqlite_path: str, tmp_path: Path) -> None:
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
        await store.write(add_short_events)
    rot(sqlite_path, page_with(sqlite_path, b"event-100 "), 4096)
    with pytest.raises(StoreDamaged, match="cannot be backed up") as caught:
        back_up(sqlite_path, tmp_path / "whole", now_ms=NOW_MS)
    assert "--damaged" in (caught.value.hint or "")
    report = back_up(sqlite_path, tmp_path / "rest", now_ms=NOW_MS, damaged=True)
    assert report.incomplete == ["events"]
    restore(sqlite_path, tmp_path / "rest", force=True, now_ms=NOW_MS)
    found = await event_ids(sqlite_path)
    assert MANY - 20 < len(found) < MANY
    assert (found[0], found[-1]) == (1, MANY), "what is before and after the rotten page"


async def test_a_rotten_table_does_not_cost_the_others(sqlite_path: str, tmp_path: Path) -> None:
    await filled(sqlite_path)
    rot(sqlite_path, page_of(sqlite_path, "events"), 4096)
    report = back_up(sqlite_path, tmp_path / "rest", now_ms=NOW_MS, damaged=True)
    assert (report.rows["swarms"], report.rows["events"]) == (1, 0)


async def test_what_belongs_to_a_lost_swarm_is_left_out(sqlite_path: str, tmp_path: Path) -> None:
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
        await store.write(lambda tx: tx.put_assignment(assignment()))
    rot(sqlite_path, page_of(sqlite_path, "swarms"), 4096)
    report = back_up(sqlite_path, tmp_path / "rest", now_ms=NOW_MS, damaged=True)
    assert report.incomplete == ["assignments", "swarms"]
    restore(sqlite_path, tmp_path / "rest", force=True, now_ms=NOW_MS)
    assert await event_ids(sqlite_path) == [1], "a server starts, and the events are there"


async def test_an_intact_database_is_saved_as_a_whole(sqlite_path: str, tmp_path: Path) -> None:
    await filled(sqlite_path)
    report = back_up(sqlite_path, tmp_path / "rest", now_ms=NOW_MS, damaged=True)
    assert (list(report.incomplete), report.rows["events"]) == ([], EVENTS + 1)


async def test_a_file_without_its_header_is_damaged_and_nothing_can_be_saved(
    sqlite_path: str, tmp_path: Path
) -> None:
    await filled(sqlite_path)
    rot(sqlite_path, 0, 100)
    with pytest.raises(StoreDamaged, match="not a database"):
        await SqliteStore(sqlite_path).open(lambda _: None, lambda: None)
    with pytest.raises(StoreDamaged, match="nothing can be saved"):
        back_up(sqlite_path, tmp_path / "rest", now_ms=NOW_MS, damaged=True)
    assert not list(tmp_path.glob("rest*"))  # noqa: ASYNC240


def test_the_hint_names_a_backup_or_else_what_can_be_read(tmp_path: Path) -> None:
    database = tmp_path / "shiftboss.db"
    assert "fsck" not in restore_hint(database), "there is nothing that it could check"
    database.write_bytes(b"a plan, perhaps")
    assert "is --db right?" in restore_hint(database)
    database.write_bytes(MAGIC + b"rotten")
    commands = re.findall("`([^`]+)`", restore_hint(database))
    assert [shlex.split(command)[1] for command in commands] == [
        "fsck",
        "restore",
        "backup",
        "restore",
    ]
    (tmp_path / "backups").mkdir()
    for name in ("20260101T000000Z.backup", "20260102T000000Z.backup.part", "notes"):
        (tmp_path / "backups" / name).write_bytes(b"")
    assert "20260101T000000Z.backup --force" in restore_hint(database)
