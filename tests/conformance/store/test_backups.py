"""Backups of both stores: made while a server writes, verified, and restored."""

from __future__ import annotations

import asyncio
import resource
import shutil
import stat
import zipfile
from pathlib import Path

import pytest

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import (
    DatabaseInUse,
    StaleEpoch,
    StoreDamaged,
    StoreUnavailable,
)
from shiftboss.protocol.bus import (
    AckRequest,
    AddTaskRequest,
    DoneRequest,
    PollRequest,
    RegisterWorkerRequest,
    TaskRequest,
)
from shiftboss.rules.tasks.tasks import Task
from shiftboss.store.backups import postgres_backup, sqlite_backup
from shiftboss.store.backups.backup import back_up, restore
from shiftboss.store.backups.report import BackupExists, DatabaseHasContent, NotABackup
from shiftboss.store.leader_store import LeaderStore
from shiftboss.store.open_store import is_postgres, store_at
from shiftboss.store.port import Transaction
from tests.conformance.opened import opened
from tests.conformance.store.rows import SWARM, add_event, add_swarm_with_event
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-21")]

NOW_MS = 1_800_000_000_000


def save(address: str, file: Path) -> dict[str, int]:
    return back_up(address, file, now_ms=NOW_MS).rows


async def event_ids(address: str) -> list[int]:
    async with opened(address) as store:
        events = await store.read(lambda tx: tx.events_after(SWARM, 0, 1000))
    return [event.event_id for event in events]


async def test_a_backup_is_made_while_the_server_writes_and_brings_back_that_moment(
    store_address: str, tmp_path: Path
) -> None:
    file = tmp_path / "monday"
    async with opened(store_address) as store:
        await store.write(add_swarm_with_event)
        writes = [asyncio.ensure_future(store.write(add_event)) for _ in range(200)]
        rows = await asyncio.to_thread(save, store_address, file)
        await asyncio.gather(*writes)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert rows["swarms"] == 1
    assert 1 <= rows["events"] <= 201

    report = restore(store_address, file, force=True, now_ms=NOW_MS)
    assert report.kept is not None
    assert await event_ids(store_address) == list(range(1, rows["events"] + 1))


async def test_all_rows_of_all_kinds_come_back(store_address: str, tmp_path: Path) -> None:
    def fill(tx: Transaction) -> None:
        add_swarm_with_event(tx)
        # Characters that a text format has to escape, and bytes.
        tx.add_answer(SWARM, b"\x00\\\xff", b"\n\t", "a\\b\nc\td\\N\u2028", 5)

    file = tmp_path / "backup"
    async with opened(store_address) as store:
        await store.write(fill)
    save(store_address, file)
    restore(store_address, file, force=True, now_ms=NOW_MS)
    async with opened(store_address) as store:
        stored = await store.read(lambda tx: tx.first_answer(SWARM, b"\x00\\\xff"))
        assert stored is not None
        assert (bytes(stored[0]), stored[1]) == (b"\n\t", "a\\b\nc\td\\N\u2028")


async def test_what_is_counted_goes_on_after_a_restore(store_address: str, tmp_path: Path) -> None:
    def finish(tx: Transaction, task_id: str) -> None:
        tx.add_task(Task(SWARM, task_id, "", "", 0, "open", 0, None, 0, None, None, None, 1, 1), [])
        task = tx.task(SWARM, task_id)
        assert task is not None
        tx.save_task(task._replace(status="done"))

    def start(tx: Transaction) -> None:
        add_swarm_with_event(tx)
        finish(tx, "a")
        finish(tx, "b")

    async with opened(store_address) as store:
        await store.write(start)
    save(store_address, tmp_path / "backup")
    restore(store_address, tmp_path / "backup", force=True, now_ms=NOW_MS)
    async with opened(store_address) as store:
        assert await store.read(lambda tx: tx.task_counts(SWARM)) == {"done": 2}
        await store.write(lambda tx: finish(tx, "c"))
        assert await store.read(lambda tx: tx.task_counts(SWARM)) == {"done": 3}


async def test_a_restore_is_refused_while_a_server_runs(store_address: str, tmp_path: Path) -> None:
    async with opened(store_address) as store:
        await store.write(add_swarm_with_event)
        await asyncio.to_thread(save, store_address, tmp_path / "backup")
        with pytest.raises(DatabaseInUse):
            await asyncio.to_thread(
                restore, store_address, tmp_path / "backup", force=True, now_ms=NOW_MS
            )
        assert (await store.write(add_event)).event_id == 2


async def test_a_server_is_noticed_under_any_name(postgres_url: str, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    separator = "&" if "?" in postgres_url else "?"
    coordinator = Coordinator(store_at(f"{postgres_url}{separator}application_name=other"))
    await coordinator.start()
    try:
        await asyncio.to_thread(save, postgres_url, file)
        await eventually(lambda: _leads(coordinator), "it leads")
        with pytest.raises(DatabaseInUse):
            await asyncio.to_thread(restore, postgres_url, file, force=True, now_ms=NOW_MS)
    finally:
        await coordinator.stop()


def _leads(coordinator: Coordinator) -> bool:
    return LeaderStore(coordinator.store).leads()


async def test_a_database_with_content_is_replaced_with_force_only(
    store_address: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with opened(store_address) as store:
        await store.write(add_swarm_with_event)
    save(store_address, file)
    with pytest.raises(BackupExists):
        save(store_address, file)
    with pytest.raises(DatabaseHasContent):
        restore(store_address, file, force=False, now_ms=NOW_MS)
    assert await event_ids(store_address) == [1]


@pytest.mark.parametrize("at", [0.3, 0.6, 0.95])
async def test_a_damaged_backup_is_refused_and_changes_nothing(
    store_address: str, tmp_path: Path, at: float
) -> None:
    file = tmp_path / "backup"
    async with opened(store_address) as store:
        await store.write(add_swarm_with_event)
        for _ in range(50):
            await store.write(add_event)
    save(store_address, file)
    data = bytearray(file.read_bytes())
    start = int(len(data) * at)
    data[start : start + 64] = (
        bytes(64 if data[start : start + 64] != bytes(64) else 0) or b"x" * 64
    )
    file.write_bytes(data[: int(len(data) * 0.98)])
    with pytest.raises(NotABackup):
        restore(store_address, file, force=True, now_ms=NOW_MS)
    assert len(await event_ids(store_address)) == 51


@pytest.mark.seconds
async def test_a_backup_with_a_changed_byte_is_verified_or_refused(
    store_address: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with opened(store_address) as store:
        await store.write(add_swarm_with_event)
    save(store_address, file)
    verify = postgres_backup.verify if is_postgres(store_address) else sqlite_backup.verify
    intact = file.read_bytes()
    refused = 0
    for at in range(0, len(intact), max(1, len(intact) // 200)):
        data = bytearray(intact)
        data[at] ^= 0xFF
        file.write_bytes(data)
        try:
            verify(file)
        except NotABackup:
            refused += 1
    assert refused


async def test_a_table_may_be_larger_than_a_plain_zip_file(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(postgres_url) as store:
        await store.write(add_swarm_with_event)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    save(postgres_url, tmp_path / "backup")
    restore(postgres_url, tmp_path / "backup", force=True, now_ms=NOW_MS)
    assert await event_ids(postgres_url) == [1]


async def test_two_restores_in_one_second_do_not_lose_what_was_kept(
    store_address: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    async with opened(store_address) as store:
        await store.write(add_swarm_with_event)
    save(store_address, file)
    restore(store_address, file, force=True, now_ms=NOW_MS)
    with pytest.raises((DatabaseHasContent, StoreUnavailable)):
        restore(store_address, file, force=True, now_ms=NOW_MS)
    assert await event_ids(store_address) == [1]


async def test_a_restore_that_fails_leaves_nothing_behind(sqlite_path: str, tmp_path: Path) -> None:
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
    save(sqlite_path, tmp_path / "backup")
    before = sorted(Path(sqlite_path).parent.iterdir())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))  # like a full disk
    try:
        with pytest.raises(StoreUnavailable, match="nothing was changed"):
            restore(sqlite_path, tmp_path / "backup", force=True, now_ms=NOW_MS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(Path(sqlite_path).parent.iterdir()) == before
    assert await event_ids(sqlite_path) == [1]


async def test_a_file_of_another_kind_is_refused(store_address: str, tmp_path: Path) -> None:
    other = tmp_path / "notes"
    other.write_text("not a backup at all\n")
    with pytest.raises(NotABackup):
        restore(store_address, other, force=True, now_ms=NOW_MS)
    with pytest.raises(NotABackup):
        restore(store_address, tmp_path / "nowhere", force=True, now_ms=NOW_MS)


async def start_task(coordinator: Coordinator, worker: str) -> int:
    """Hand the task out; its epoch."""
    bus = coordinator.bus
    await bus.register_worker(RegisterWorkerRequest(name=worker))
    await bus.submit_task(TaskRequest(bead_id="t"))
    delivered = (await bus.poll_task(PollRequest(name=worker, timeout_ms=0))).task
    assert delivered is not None
    epoch = delivered.epoch
    await bus.ack_task(AckRequest(name=worker, bead_id="t", epoch=epoch))
    return epoch


async def test_an_epoch_that_a_restore_has_lost_is_never_handed_out_again(
    store_address: str, tmp_path: Path
) -> None:
    file = tmp_path / "backup"
    coordinator = Coordinator(store_at(store_address))
    await coordinator.start()
    await coordinator.bus.add_task(AddTaskRequest(bead_id="t", title="T"))
    await asyncio.to_thread(save, store_address, file)
    lost = await start_task(coordinator, "a")
    await coordinator.stop()

    floors = []
    for at_ms in (NOW_MS, NOW_MS + 1000):  # the same backup twice
        restore(store_address, file, force=True, now_ms=at_ms)
        coordinator = Coordinator(store_at(store_address))
        await coordinator.start()
        try:
            epoch = await start_task(coordinator, "a")
            floors.append(epoch)
            with pytest.raises(StaleEpoch):
                await coordinator.bus.worker_done(DoneRequest(bead_id="t", name="a", epoch=lost))
        finally:
            await coordinator.stop()
    assert lost < floors[0] < floors[1]


async def test_a_damaged_database_is_not_backed_up_in_silence(
    sqlite_path: str, tmp_path: Path
) -> None:
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
    note = Path(f"{sqlite_path}.damaged")
    note.write_text("a page is rotten")  # noqa: ASYNC240
    with pytest.raises(StoreDamaged):
        save(sqlite_path, tmp_path / "backup")
    report = back_up(sqlite_path, tmp_path / "rest", now_ms=NOW_MS, damaged=True)
    restored = restore(sqlite_path, Path(report.file), force=True, now_ms=NOW_MS)
    assert restored.kept is not None
    assert await event_ids(sqlite_path) == [1], "the note is gone, and the server starts"


async def test_a_restore_can_be_undone_after_a_crash(sqlite_path: str, tmp_path: Path) -> None:
    """What was kept has its writes in its log if the server was killed."""
    async with opened(sqlite_path) as store:
        await store.write(add_swarm_with_event)
    save(sqlite_path, tmp_path / "backup")
    killed = tmp_path / "killed.db"
    async with opened(sqlite_path) as store:
        await store.write(add_event)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{sqlite_path}{suffix}", f"{killed}{suffix}")
    first = restore(str(killed), tmp_path / "backup", force=True, now_ms=NOW_MS)
    assert await event_ids(str(killed)) == [1]
    assert first.kept is not None
    restore(str(killed), Path(first.kept), force=True, now_ms=NOW_MS + 1000)
    assert await event_ids(str(killed)) == [1, 2]
