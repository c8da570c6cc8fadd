"""`shiftboss fsck`: what it says of a sound store, and of one whose rows were tampered with."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shiftboss.cli.main import app
from shiftboss.coordinator.invariants.checks import StoreReport, check_store
from shiftboss.coordinator.invariants.facts import BrokenInvariant
from shiftboss.errors import StoreUnavailable
from shiftboss.store.batches import WriteSession
from shiftboss.store.snapshot_reading import SnapshotReading, read_snapshot
from shiftboss.store.sqlite.session import SqliteSession
from tests.conformance.bus.bus_fixtures import BusFixture, open_bus
from tests.conformance.handoffs.handoff_fixtures import open_handoffs
from tests.repos import Repo
from tests.verifying import LocalEvidence

pytestmark = pytest.mark.requirement("OWN-21")


async def work(bus: BusFixture) -> None:
    """A task of every status, and a task that waits for another."""
    await bus.register("v", "w")
    await bus.add_and_submit("done", "active")
    await bus.start("v", "done")
    await bus.start("w", "active")
    await bus.done("done", "v")
    await bus.add("open", "waits", after=["active"])
    await bus.submit("waits")
    await bus.add_and_submit("offered", "queued")


@pytest.fixture
def worked(store_address: str) -> str:
    asyncio.run(_worked(store_address))
    return store_address


async def _worked(address: str) -> None:
    async with open_bus(address) as bus:
        await work(bus)


def checked(address: str, key: str | None = None) -> SnapshotReading[StoreReport]:
    return read_snapshot(address, lambda tx: check_store(tx, key))


@contextmanager
def changed(address: str, *statements: str) -> Iterator[WriteSession]:
    """A session in which somebody has done what no use case would do. It is undone at the end."""
    with _session(address) as (session, execute):
        session.begin()
        for statement in statements:
            execute(statement)
        yield session
        session.rollback()


@contextmanager
def _session(address: str) -> Iterator[tuple[WriteSession, Callable[[str], object]]]:
    if address.startswith("postgresql://"):
        from shiftboss.store.postgres.hung_database import BoundedConnection
        from shiftboss.store.postgres.session import PostgresSession

        with BoundedConnection.connect(address, autocommit=True) as connection:
            of_database = PostgresSession(connection, "", "")

            def execute(text: str) -> object:
                of_database.pipeline.flush()  # the BEGIN
                return connection.execute(text.encode())

            yield of_database, execute
        return
    session = SqliteSession(Path(address))
    yield session, session._connection.execute
    session.close()


def broken_by(address: str, *statements: str, key: str | None = None) -> list[BrokenInvariant]:
    with changed(address, *statements) as session:
        return check_store(session.transaction(), key).broken


def test_a_store_that_the_server_wrote_is_sound(worked: str) -> None:
    reading = checked(worked)
    assert reading.value is not None
    assert reading.value.broken == []
    assert reading.damage == []
    assert (reading.value.swarms, reading.value.tasks) == (1, 6)
    assert reading.value.events > 10


TAMPERED = [
    ("DELETE FROM assignments WHERE task_id = 'active'", ("active_attempt", "task active")),
    ("UPDATE tasks SET epoch = 7 WHERE task_id = 'active'", ("active_attempt", "task active")),
    (
        "UPDATE tasks SET status = 'open' WHERE task_id = 'active'",
        ("attempt_task", "attempt 1 at active"),
    ),
    ("UPDATE workers SET task_id = 'open' WHERE name = 'v'", ("holder", "worker v")),
    (
        "UPDATE assignments SET lease_expires_at_ms = NULL WHERE task_id = 'active'",
        ("lease", "attempt 1 at active"),
    ),
    ("UPDATE tasks SET waits_for = 0 WHERE task_id = 'waits'", ("dependencies", "task waits")),
    ("DELETE FROM tasks WHERE task_id = 'active'", ("dependencies", "dependency of open")),
    ("UPDATE queues SET ready = 5", ("ready_count", "queue 0")),
    (
        "UPDATE swarm_totals SET total = total + 1 WHERE what = 'done'",
        ("finished_count", "tasks done"),
    ),
    ("UPDATE queues SET last_number = 0", ("queue_number", "queue 0")),
    ("DELETE FROM events WHERE event_id = 4", ("event_gap", "events")),
    ("UPDATE tasks SET status = 'failed' WHERE task_id = 'done'", ("fold", "task done")),
    (
        "UPDATE assignments SET state = 'self_review' WHERE task_id = 'active'",
        ("fold", "attempt at active"),
    ),
    ("UPDATE swarms SET completed_at_ms = 1", ("fold", "swarm")),
    ("DELETE FROM workers WHERE name = 'w'", ("fold", "worker w")),
    ("UPDATE tasks SET title = 'x' WHERE task_id = 'open'", ("fold", "card of open")),
    (
        (
            "INSERT INTO holds (swarm_id, task_id, kind, reason, since_ms) "
            "VALUES ('default', 'open', 'pause', 'r', 1)"
        ),
        ("fold", "task open"),
    ),
    (
        (
            "INSERT INTO events (swarm_id, event_id, kind, at_ms, data) "
            "VALUES ('gone', 1, 'task_added', 1, '{}')"
        ),
        ("event_swarm", "events"),
    ),
    (
        (
            "INSERT INTO reservations (swarm_id, task_id, repo, patterns, reserved_at_ms) "
            "VALUES ('default', 'done', 'r', '[\"a.py\"]', 1)"
        ),
        ("ownership", "files of done"),
    ),
    (
        (
            "INSERT INTO repo_locks (repo, swarm_id, task_id, since_ms) "
            "VALUES ('core', 'default', 'nobody', 1)"
        ),
        ("repo_lock", "repo core"),
    ),
]


def test_what_no_use_case_does_is_found(worked: str) -> None:
    for statement, found in TAMPERED:
        named = [(broken.invariant, broken.subject) for broken in broken_by(worked, statement)]
        assert found in named, statement


def test_overlapping_files_are_found(worked: str) -> None:
    reserve = "INSERT INTO reservations (swarm_id, task_id, repo, patterns, reserved_at_ms) VALUES "
    broken = broken_by(
        worked,
        reserve + "('default', 'active', 'r', '[\"src/*.py\"]', 1)",
        reserve + "('default', 'queued', 'r', '[\"src/a*\"]', 1)",
    )
    assert [(found.invariant, found.subject) for found in broken] == [
        ("ownership", "files of active")
    ]


# -- receipts


@pytest.fixture
def proven(store_address: str, evidence: LocalEvidence, repo: Repo) -> str:
    """A store with an accepted claim."""
    asyncio.run(_proven(store_address, evidence, repo))
    return store_address


async def _proven(address: str, evidence: LocalEvidence, repo: Repo) -> None:
    async with open_handoffs(address, evidence, repo) as handoffs:
        await handoffs.register("w")
        await handoffs.given_out("t", "w", "src/t.py")
        await handoffs.claim("t")
        await handoffs.accept()


def test_receipts_verify_with_the_key_of_the_server(proven: str, evidence: LocalEvidence) -> None:
    reading = checked(proven, evidence.public_key)
    assert reading.value is not None
    assert (reading.value.receipts, reading.value.broken) == (1, [])


FORGED = [
    ("UPDATE receipts SET commit_sha = 'abc'", "receipt"),
    ("UPDATE receipts SET body = replace(body, 'src/t.py', 'src/u.py')", "receipt"),
    ("DELETE FROM receipts", "proven"),
    ("UPDATE claims SET state = 'waiting', ended_at_ms = NULL, heard_at_ms = NULL", "open_claim"),
    ("UPDATE claims SET state = 'void'", "proven"),
    ("UPDATE claims SET claim_id = 2", "claim_number"),
]


def test_done_without_a_genuine_proof_is_found(proven: str, evidence: LocalEvidence) -> None:
    for statement, found in FORGED:
        broken = broken_by(proven, statement, key=evidence.public_key)
        assert found in {named.invariant for named in broken}, statement


# -- the command


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["fsck", *arguments])
    return result.exit_code, result.stdout


def test_the_command_tells_that_a_store_is_sound(worked: str) -> None:
    code, text = run("--db", worked)
    assert code == 0
    assert "is sound: 1 swarm, 6 tasks" in text


def test_the_command_names_rows_and_commands_and_fails(worked: str) -> None:
    with _session(worked) as (_, execute):
        execute("DELETE FROM assignments WHERE task_id = 'active'")
    code, text = run("--db", worked, "--json")
    found = json.loads(text)["findings"][0]
    assert code == 1
    assert (found["invariant"], found["subject"]) == ("active_attempt", "task active")
    assert found["command"] == "shiftboss task retry active --swarm default"


@pytest.fixture
def sqlite_file(tmp_path: Path) -> Path:
    file = tmp_path / "shiftboss.db"
    asyncio.run(_worked(str(file)))
    return file


def test_a_server_that_is_running_is_told(sqlite_file: Path) -> None:
    async def check_beside_server() -> SnapshotReading[StoreReport]:
        async with open_bus(str(sqlite_file)):
            return await asyncio.to_thread(checked, str(sqlite_file))

    reading = asyncio.run(check_beside_server())
    assert reading.value is not None
    assert (reading.is_in_use, reading.value.broken) == (True, [])
    assert not checked(str(sqlite_file)).is_in_use


def _tear_a_page(file: Path) -> None:
    """Overwrite everything after the first page, which has the schema."""
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    size = file.stat().st_size
    with file.open("r+b") as pages:
        pages.seek(4096)
        pages.write(b"\xa5" * (size - 4096))


def _drop_an_index(file: Path) -> None:
    """An index that lacks a row."""
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'status = ''queued''', "
            "'status = ''active''') WHERE name = 'tasks_ready'"
        )
    database.close()


@pytest.mark.parametrize("damage", [_tear_a_page, _drop_an_index])
def test_damage_of_the_file_is_found(sqlite_file: Path, damage: Callable[[Path], None]) -> None:
    damage(sqlite_file)
    code, text = run("--db", str(sqlite_file), "--json")
    assert code == 1
    assert "damage" in {found["invariant"] for found in json.loads(text)["findings"]}


def test_a_database_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="there is no database"):
        checked(str(tmp_path / "missing.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_schema_of_another_version_is_refused(sqlite_file: Path) -> None:
    with sqlite3.connect(sqlite_file) as database:
        database.execute("PRAGMA user_version = 3")
    database.close()
    with pytest.raises(StoreUnavailable, match="schema version 3"):
        checked(str(sqlite_file))
