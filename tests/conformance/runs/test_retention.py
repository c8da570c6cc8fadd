"""What is old is deleted, in every kind of swarm; what is not over stays."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from hashlib import sha256
from typing import Any

import psycopg
import pytest

from shiftboss.coordinator.duties.cleaner import DAY_MS, Cleaner
from shiftboss.errors import UnknownSwarm, UnknownTask
from shiftboss.protocol.bus import PollRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.runs import ReportRunRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.store.contract.rows import PUSHES_MAX
from shiftboss.store.runs.cleaning_rows import TABLES_OF_TASKS
from tests.conformance.bus.bus_fixtures import BusFixture
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture
from tests.conformance.opened import opened
from tests.waiting import eventually

pytestmark = pytest.mark.anyio


async def clean(bus: BusFixture, days: int = 31) -> int:
    bus.clock.now_ms += days * DAY_MS
    return await Cleaner(bus.coordinator.store, bus.clock, retention_days=30).run_once()


async def finish(bus: BusFixture, task: str, worker: str = "a") -> None:
    await bus.add_and_submit(task)
    await bus.start(worker, task)
    await bus.done(task, worker)


async def tasks(bus: BusFixture) -> set[str]:
    return set((await bus.rows()).tasks)


async def test_a_swarm_of_the_bus_is_deleted_when_it_is_over_and_old(bus: BusFixture) -> None:
    for swarm_id in ("over", "waits"):
        await bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=swarm_id))
        other = BusFixture(bus.coordinator, bus.clock, swarm_id)
        await other.register("a")
        await finish(other, "t")
        if swarm_id == "waits":
            await other.add("open")
    assert await clean(bus, 29) == 0
    assert await clean(bus, 2) == 1
    with pytest.raises(UnknownSwarm):
        await bus.coordinator.swarms.status("over")
    assert (await bus.coordinator.swarms.status("waits")).bus.total == 1, "what waits has stayed"


async def test_a_swarm_whose_workers_poll_is_in_use(bus: BusFixture) -> None:
    await bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id="idle"))
    other = BusFixture(bus.coordinator, bus.clock, "idle")
    await other.register("a")
    request = PollRequest(swarm_id="idle", name="a", timeout_ms=60_000)
    poll = asyncio.ensure_future(bus.coordinator.bus.poll_task(request))
    await eventually(lambda: bus.coordinator.hub.polling("idle"), "the poll is parked")
    assert await clean(bus) == 0
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert await clean(bus) == 1


async def test_old_tasks_and_events_of_a_swarm_that_goes_on_are_deleted(bus: BusFixture) -> None:
    await bus.register("a")
    for number in range(60):
        await finish(bus, f"old-{number}")
    bus.clock.now_ms += 31 * DAY_MS
    await finish(bus, "young")
    await bus.add("open")
    assert await clean(bus, 1) == 0
    assert await tasks(bus) == {"young", "open"}
    events = await bus.coordinator.swarms.events_after("default", 0, 10_000)
    ids = [event.event_id for event in events]
    assert ids == list(range(ids[0], ids[0] + len(ids))), "without gaps"
    assert len(ids) < 20
    with pytest.raises(UnknownTask):
        await bus.show("old-7")
    await finish(bus, "old-7")  # the id is free again
    assert (await bus.show("old-7")).status == "done"


async def test_what_something_open_refers_to_stays(bus: BusFixture) -> None:
    await bus.register("a")
    for name in ("needed", "free"):
        await finish(bus, name)
    await bus.add("first")
    await bus.add("later", after=["needed"])
    await bus.add("stuck", after=["first"])
    await bus.cancel("first")
    await bus.add_and_submit("asks")
    await bus.start("a", "asks")
    await bus.say(MessageType.BLOCKED, "a", payload={"question": "which one?"})
    await bus.cancel("asks")
    await clean(bus)
    assert await tasks(bus) == {"needed", "first", "later", "stuck", "asks"}
    await bus.cancel("later")
    await bus.cancel("stuck")
    await clean(bus)
    await clean(bus)
    assert "needed" not in await tasks(bus)


async def test_question_numbers_are_not_given_twice(bus: BusFixture) -> None:
    numbers = []
    for name in ("one", "two"):
        await bus.register("a")
        await bus.add_and_submit(name)
        await bus.start("a", name)
        await bus.say(MessageType.BLOCKED, "a", payload={"question": "which one?"})
        (question,) = await bus.open_questions()
        numbers.append(question.question_id)
        await bus.answer(question.question_id, "this one")
        await bus.done(name, "a")
        await clean(bus)
    assert numbers == [1, 2]


async def test_tasks_of_a_plan_stay_until_all_of_it_is_over(bus: BusFixture) -> None:
    """A run that continues asks which of them are done."""
    await bus.register("a")
    await finish(bus, "done")
    await bus.coordinator.runs.report_run(
        ReportRunRequest(swarm_id="default", plan_file="/plan.yaml", auto_merge=False)
    )
    await bus.add("open")
    await clean(bus)
    assert await tasks(bus) == {"done", "open"}


async def test_finished_tasks_of_a_plan_in_the_default_swarm_are_deleted_when_all_is_over(
    bus: BusFixture,
) -> None:
    await bus.register("a")
    await finish(bus, "done")
    await bus.coordinator.runs.report_run(
        ReportRunRequest(swarm_id="default", plan_file="/plan.yaml", auto_merge=False)
    )
    await clean(bus)
    assert await tasks(bus) == set()


async def test_workers_that_are_gone_are_deleted_from_a_swarm_that_goes_on(bus: BusFixture) -> None:
    await bus.register("busy")
    await bus.add_and_submit("t")
    await bus.start("busy", "t")
    await bus.register("gone", "polls")
    request = PollRequest(swarm_id="default", name="polls", timeout_ms=60_000)
    poll = asyncio.ensure_future(bus.coordinator.bus.poll_task(request))
    await eventually(lambda: bus.coordinator.hub.polling("default"), "the poll is parked")
    await clean(bus)
    assert set((await bus.rows()).workers) == {"busy", "polls"}
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    await bus.register("gone")
    assert "gone" in (await bus.rows()).workers


async def test_a_swarm_that_cannot_be_deleted_keeps_no_other(
    bus: BusFixture, store_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    for swarm_id in ("first", "stuck", "last"):
        await bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=swarm_id))
        bus.clock.now_ms += 1
    forbid_deletion(store_address, "stuck")
    assert await clean(bus) == 2
    listed = (await bus.coordinator.swarms.list_swarms(None, 10)).swarms
    assert [swarm.swarm_id for swarm in listed] == ["stuck"]
    assert "swarm stuck cannot be cleaned" in caplog.text


def forbid_deletion(store_address: str, swarm_id: str) -> None:
    """The database refuses it, as it does when somebody else has locked the rows."""
    if "://" not in store_address:
        with closing(sqlite3.connect(store_address)) as connection:
            connection.execute(
                "CREATE TRIGGER stuck BEFORE DELETE ON swarms "
                f"WHEN old.swarm_id = '{swarm_id}' BEGIN SELECT RAISE(ABORT, 'stuck'); END"
            )
        return
    with psycopg.connect(store_address, autocommit=True) as postgres:
        postgres.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'stuck'; END $$"
        )
        postgres.execute(
            "CREATE TRIGGER stuck BEFORE DELETE ON swarms FOR EACH ROW "
            f"WHEN (old.swarm_id = '{swarm_id}') EXECUTE FUNCTION refuse()".encode()
        )


@pytest.mark.requirement("HO-01")
async def test_accepted_work_that_has_not_landed_stays_and_receipts_stay_for_ever(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.finished("t")
    receipt = await handoffs.receipt("t")
    await clean(handoffs)
    assert await tasks(handoffs) == {"t"}
    await handoffs.coordinator.store.write(lambda tx: tx.drop_landing("default", "t"), "default")
    await clean(handoffs)
    assert await tasks(handoffs) == set()
    assert await handoffs.receipt("t") == receipt


async def test_every_table_of_tasks_is_cleaned(sqlite_path: str) -> None:
    async with opened(sqlite_path):
        pass
    with closing(sqlite3.connect(sqlite_path)) as connection:
        tables = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
            if {"swarm_id", "task_id"}
            <= {row[1] for row in connection.execute(f"PRAGMA table_info({name})")}
        }
    # A worker's task, what outlives a swarm, what is a fact about a repository, and links that
    # expire within minutes.
    others = {"tasks", "events", "workers", "receipts", "signals", "repo_locks", "repo_states"}
    others |= {"pushes", "halts", "login_codes"}
    assert tables - others == set(TABLES_OF_TASKS)


async def test_tokens_that_are_no_longer_valid_are_deleted(
    bus: BusFixture, store_address: str
) -> None:
    now_ms = bus.clock.now_ms
    await bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id="s"))
    await bus.register("a")
    await finish(bus, "t")
    for name, swarm_id, task_id, expires_at_ms, revoked_at_ms in (
        ("valid", None, None, None, None),
        ("expired", None, None, now_ms, None),
        ("revoked", None, None, None, now_ms),
        ("of-a-swarm", "s", None, None, None),
        ("of-a-task", "default", "t", None, None),
        ("just-expired", None, None, now_ms + 20 * DAY_MS, None),
    ):
        execute(
            store_address,
            "INSERT INTO tokens (token_id, name, digest, role, swarm_id, task_id, created_at_ms, "
            "created_by, expires_at_ms, revoked_at_ms, revoked_by) "
            "VALUES (?, ?, ?, 'worker', ?, ?, 1, 'me', ?, ?, ?)",
            name,
            name,
            sha256(name.encode()).digest(),
            swarm_id,
            task_id,
            expires_at_ms,
            revoked_at_ms,
            None if revoked_at_ms is None else "me",
        )
    assert await clean(bus) == 1
    names = execute(store_address, "SELECT name FROM tokens ORDER BY name")
    assert names == [("just-expired",), ("valid",)]


async def test_the_newest_pushes_of_a_repo_stay(bus: BusFixture, store_address: str) -> None:
    execute(
        store_address,
        "WITH RECURSIVE counted (number) AS "
        "(SELECT 1 UNION ALL SELECT number + 1 FROM counted WHERE number < ?) "
        "INSERT INTO pushes (repo, number, sha, swarm_id, task_id, at_ms) "
        "SELECT 'r', number, 'sha', 's', 't', 1 FROM counted",
        PUSHES_MAX + 3,
    )
    await clean(bus)
    (kept,) = execute(store_address, "SELECT min(number), max(number) FROM pushes")
    assert kept == (4, PUSHES_MAX + 3)


def execute(store_address: str, statement: str, *parameters: object) -> list[Any]:
    """As another program: nothing of ours writes such rows in these tests."""
    if "://" not in store_address:
        with closing(sqlite3.connect(store_address)) as connection, connection:
            return connection.execute(statement, parameters).fetchall()
    with psycopg.connect(store_address, autocommit=True) as postgres:
        cursor = postgres.execute(statement.replace("?", "%s").encode(), parameters)
        return cursor.fetchall() if cursor.description else []
