"""The methods of the transaction for swarms and assignments, on every store."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.errors import StoreUnavailable, UnknownSwarm
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.store.port import SwarmRow, Transaction
from tests.conformance.opened import OpenStore
from tests.conformance.store.rows import SWARM, TASK, assignment, complete_assignment, swarm

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("expected", [None, 7])
@pytest.mark.parametrize("flag", [True, False])
async def test_a_swarm_is_read_as_it_was_added(
    store: OpenStore, flag: bool, expected: int | None
) -> None:
    added = swarm(auto_merge=flag, notify_on_complete=not flag, workers_expected=expected)
    assert await store.write(lambda tx: tx.add_swarm(added)) is True
    found = await store.read(lambda tx: tx.swarm(SWARM))
    assert found == added
    assert found is not None
    assert type(found.auto_merge) is bool
    assert await store.write(lambda tx: tx.take_swarm(SWARM)) == added


async def test_an_unknown_swarm_is_none(store: OpenStore) -> None:
    assert await store.read(lambda tx: tx.swarm("nobody")) is None
    assert await store.write(lambda tx: tx.take_swarm("nobody")) is None


async def test_a_duplicate_swarm_id_is_reported_and_changes_nothing(with_swarm: OpenStore) -> None:
    other = swarm(feature="another", workers_expected=None)
    assert await with_swarm.write(lambda tx: tx.add_swarm(other)) is False
    assert await with_swarm.read(lambda tx: tx.swarm(SWARM)) == swarm()


async def test_a_swarm_can_be_completed_and_reopened(with_swarm: OpenStore) -> None:
    for completed_at_ms in (1_767_600_009_999, None):

        def complete(tx: Transaction, at_ms: int | None = completed_at_ms) -> None:
            tx.set_swarm_completed(SWARM, at_ms)

        await with_swarm.write(complete)
        found = await with_swarm.read(lambda tx: tx.swarm(SWARM))
        assert found == swarm(completed_at_ms=completed_at_ms)


async def test_swarms_are_listed_newest_first_page_by_page(store: OpenStore) -> None:
    ages = {"a": 1, "B": 2, "b": 2, "a-b": 2, "ab": 2, "c": 3}

    def add_all(tx: Transaction) -> None:
        for swarm_id, at_ms in ages.items():
            tx.add_swarm(swarm(swarm_id, created_at_ms=at_ms))

    await store.write(add_all)
    listed: list[str] = []
    mark: tuple[int, str] | None = None
    for _ in range(4):

        def page(tx: Transaction, before: tuple[int, str] | None = mark) -> list[SwarmRow]:
            return tx.swarms_before(before, 2)

        rows = await store.read(page)
        listed += [row.swarm.swarm_id for row in rows]
        if rows:
            mark = (rows[-1].swarm.created_at_ms, rows[-1].swarm.swarm_id)
    # Swarms of the same age are ordered by the bytes of the id, on every store.
    assert listed == ["c", "b", "ab", "a-b", "B", "a"]


async def test_listed_swarms_carry_the_states_of_their_workers(with_swarm: OpenStore) -> None:
    await with_swarm.add_swarm("swarm-2")

    def register(tx: Transaction) -> None:
        tx.put_assignment(assignment(1))
        tx.put_assignment(assignment(2))
        tx.put_assignment(complete_assignment(3))

    await with_swarm.write(register)
    rows = await with_swarm.read(lambda tx: tx.swarms_before(None, 10))
    assert {row.swarm.swarm_id: dict(row.states) for row in rows} == {
        SWARM: {WorkerState.ASSIGNED: 2, WorkerState.COMPLETE: 1},
        "swarm-2": {},
    }
    counts = await with_swarm.read(lambda tx: tx.state_counts(SWARM))
    assert counts == {WorkerState.ASSIGNED: 2, WorkerState.COMPLETE: 1}


@pytest.mark.parametrize(
    "row",
    [
        assignment(),
        assignment(state=WorkerState.EXECUTING, steps_completed=4, retries_open=2),
        complete_assignment(),
        complete_assignment(tests_passed=False, review_passed=True),
        assignment(state=WorkerState.FAILED, finished_at_ms=5, last_error="rate_limit: später"),
        assignment(packet_id=2**53 - 1),
    ],
)
async def test_an_assignment_is_read_as_it_was_written(
    with_swarm: OpenStore, row: Assignment
) -> None:
    await with_swarm.write(lambda tx: tx.put_assignment(row))
    taken = await with_swarm.write(lambda tx: tx.take_assignment(SWARM, row.task_id))
    assert taken == row
    assert taken is not None
    assert type(taken.tests_passed) is type(row.tests_passed)
    assert await with_swarm.read(lambda tx: tx.assignments(SWARM)) == [row]


async def test_a_task_without_an_attempt_is_none(with_swarm: OpenStore) -> None:
    assert await with_swarm.write(lambda tx: tx.take_assignment(SWARM, TASK)) is None


async def test_taking_an_assignment_of_an_unknown_swarm_is_refused(store: OpenStore) -> None:
    with pytest.raises(UnknownSwarm):
        await store.write(lambda tx: tx.take_assignment("nobody", TASK))


async def test_the_next_attempt_replaces_the_previous_one(with_swarm: OpenStore) -> None:
    former = assignment(state=WorkerState.FAILED, finished_at_ms=1, steps_completed=3)
    again = assignment(epoch=2, worker="other", worktree="/other", steps_total=4)
    await with_swarm.write(lambda tx: tx.put_assignment(former))
    await with_swarm.write(lambda tx: tx.put_assignment(again))
    assert await with_swarm.read(lambda tx: tx.assignments(SWARM)) == [again]


async def test_saving_updates_the_mutable_fields_of_an_attempt(with_swarm: OpenStore) -> None:
    await with_swarm.write(lambda tx: tx.put_assignment(assignment()))
    changed = complete_assignment(
        steps_total=12, retries_open=1, updated_at_ms=9, last_error="test_flake: 1"
    )
    fixed: dict[str, Any] = {"worker": "x", "worktree": "/x", "registered_at_ms": 1}
    await with_swarm.write(lambda tx: tx.save_assignment(changed._replace(**fixed)))
    assert await with_swarm.read(lambda tx: tx.assignments(SWARM)) == [changed]


async def test_saving_progress_changes_nothing_else(with_swarm: OpenStore) -> None:
    running = assignment(last_error="rate_limit: 1")
    progress: dict[str, Any] = {
        "state": WorkerState.EXECUTING,
        "steps_total": 12,
        "steps_completed": 4,
        "retries_open": 1,
        "updated_at_ms": 9,
    }
    await with_swarm.write(lambda tx: tx.put_assignment(running))
    other: dict[str, Any] = {"worker": "x", "last_error": None, "final_commit": "abcdef0"}
    await with_swarm.write(lambda tx: tx.save_progress(running._replace(**progress, **other)))
    assert await with_swarm.read(lambda tx: tx.assignments(SWARM)) == [running._replace(**progress)]


@pytest.mark.parametrize("save", ["save_assignment", "save_progress"])
async def test_a_save_from_an_older_attempt_changes_nothing(
    with_swarm: OpenStore, save: str
) -> None:
    current = assignment(epoch=2)
    await with_swarm.write(lambda tx: tx.put_assignment(current))
    late = assignment(epoch=1, steps_completed=5)
    await with_swarm.write(lambda tx: getattr(tx, save)(late))
    assert await with_swarm.read(lambda tx: tx.assignments(SWARM)) == [current]


async def test_assignments_are_listed_by_packet_number(with_swarm: OpenStore) -> None:
    def register(tx: Transaction) -> None:
        for packet_id in (10, 9, 100, 1):
            tx.put_assignment(assignment(packet_id))

    await with_swarm.write(register)
    assignments = await with_swarm.read(lambda tx: tx.assignments(SWARM))
    assert [row.packet_id for row in assignments] == [1, 9, 10, 100]


@pytest.mark.parametrize(
    "wrong",
    [
        assignment(epoch=0),
        assignment(packet_id=0),
        assignment(steps_total=0),
        assignment(steps_total=1001),
        assignment(steps_completed=-1),
        assignment(steps_completed=11),
        assignment(retries_open=-1),
        assignment(state=WorkerState.IDLE),
        assignment(state=WorkerState.FAILED, finished_at_ms=None),
        assignment(state=WorkerState.EXECUTING, finished_at_ms=5),
        complete_assignment(final_commit=None),
        assignment(swarm_id="nobody"),
    ],
)
async def test_the_database_refuses_a_row_that_breaks_a_rule(
    with_swarm: OpenStore, wrong: Assignment
) -> None:
    with pytest.raises(StoreUnavailable):
        await with_swarm.write(lambda tx: tx.put_assignment(wrong))
    assert await with_swarm.read(lambda tx: tx.assignments(SWARM)) == []
    await with_swarm.write(lambda tx: tx.put_assignment(assignment()))
    assert await with_swarm.read(lambda tx: tx.assignments(SWARM)) == [assignment()]
