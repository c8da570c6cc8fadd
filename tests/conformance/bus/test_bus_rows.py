"""What the store port promises about tasks, workers, leases and questions, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.errors import StoreUnavailable
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.packets import Assignment
from shiftboss.rules.tasks.tasks import Question, Salvage, Task, Worker
from shiftboss.store.port import Transaction
from tests.conformance.opened import OpenStore
from tests.conformance.store.rows import SWARM, assignment

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-08")]

NOW = 1_800_000_000_000


def task(task_id: str = "t", **changes: Any) -> Task:
    whole = Task(
        swarm_id=SWARM,
        task_id=task_id,
        title="Titel ✓",
        description="line\nline",
        priority=0,
        status="open",
        waits_for=0,
        queue_number=None,
        epoch=0,
        worker=None,
        checkpoint=None,
        last_error=None,
        created_at_ms=NOW,
        updated_at_ms=NOW,
    )
    return whole._replace(**changes)


def queued(task_id: str, number: int, **changes: Any) -> Task:
    return task(task_id, status="queued", queue_number=number, **changes)


def worker(name: str = "w", **changes: Any) -> Worker:
    return Worker(SWARM, name, None, True, NOW, NOW)._replace(**changes)


def attempt(task_id: str = "t", **changes: Any) -> Assignment:
    return assignment()._replace(
        task_id=task_id, packet_id=None, worker="w", lease_expires_at_ms=NOW, **changes
    )


def question(**changes: Any) -> Question:
    return Question(SWARM, 0, "t", 1, "w", "coordinator", "which?", NOW)._replace(**changes)


async def add_tasks(store: OpenStore, *tasks: Task) -> None:
    def add(tx: Transaction) -> None:
        tx.take_swarm(SWARM)
        for task in tasks:
            tx.add_task(task, [])

    await store.write(add)


async def test_a_task_is_read_as_it_was_added_and_saved(with_swarm: OpenStore) -> None:
    await add_tasks(with_swarm, task())
    assert await with_swarm.read(lambda tx: tx.task(SWARM, "t")) == task()
    assert await with_swarm.read(lambda tx: tx.task(SWARM, "none")) is None
    assert await with_swarm.read(lambda tx: tx.task("elsewhere", "t")) is None
    changed = task(
        status="active",
        waits_for=2,
        queue_number=-5,
        epoch=3,
        worker="w",
        checkpoint='{"a": 1}',
        last_error="boom",
        updated_at_ms=NOW + 1,
    )
    await with_swarm.write(lambda tx: tx.save_task(changed))
    assert await with_swarm.read(lambda tx: tx.task(SWARM, "t")) == changed


async def test_saving_a_task_does_not_change_its_fixed_fields(with_swarm: OpenStore) -> None:
    await add_tasks(with_swarm, task())
    other = task(title="x", description="x", priority=9, created_at_ms=1, last_error="e")
    await with_swarm.write(lambda tx: tx.save_task(other))
    assert await with_swarm.read(lambda tx: tx.task(SWARM, "t")) == task(last_error="e")


@pytest.mark.parametrize(
    "wrong",
    [
        task(status="sleeping"),
        task(waits_for=-1),
        task(epoch=-1),
        task(status="queued", queue_number=None),
        task(status="active", worker=None, epoch=1),
        task(status="active", worker="w", epoch=0),
    ],
)
async def test_the_schema_rejects_an_invalid_task(with_swarm: OpenStore, wrong: Task) -> None:
    with pytest.raises(StoreUnavailable):
        await add_tasks(with_swarm, wrong)
    assert await with_swarm.read(lambda tx: tx.task(SWARM, "t")) is None


async def test_tasks_are_paged_by_id(with_swarm: OpenStore) -> None:
    await add_tasks(with_swarm, *(task(name) for name in ("b", "a", "B", "a.1", "a-1", "Z")))

    async def page(after: str, limit: int) -> list[str]:
        tasks = await with_swarm.read(lambda tx: tx.tasks_after(SWARM, after, limit))
        return [one.task_id for one in tasks]

    assert await page("", 10) == sorted(["b", "a", "B", "a.1", "a-1", "Z"])
    assert await page("Z", 2) == ["a", "a-1"]
    assert await page("b", 2) == []


async def test_dependencies_can_be_read_in_both_directions(with_swarm: OpenStore) -> None:
    def add(tx: Transaction) -> None:
        tx.add_task(task("a", status="done"), [])
        tx.add_task(task("b"), [])
        tx.add_task(task("y", waits_for=1), ["b", "a"])
        tx.add_task(task("x", waits_for=1), ["b"])

    await with_swarm.write(add)
    assert await with_swarm.read(lambda tx: tx.dependencies(SWARM, "y")) == ["a", "b"]
    assert await with_swarm.read(lambda tx: tx.dependencies(SWARM, "a")) == []
    assert await with_swarm.read(lambda tx: tx.unfinished_dependencies(SWARM, "y")) == ["b"]
    dependents = await with_swarm.read(lambda tx: tx.dependents(SWARM, "b"))
    assert dependents == [task("x", waits_for=1), task("y", waits_for=1)]


async def test_the_next_task_is_the_oldest_ready_one_of_the_highest_priority(
    with_swarm: OpenStore,
) -> None:
    order = [
        queued("high", 9, priority=1),
        queued("back", -4),
        queued("a", 2),
        queued("b", 2),
        queued("c", 3),
        queued("low", 1, priority=-1),
    ]
    others = [
        queued("waits", 0, priority=5, waits_for=1),
        task("open", priority=5),
        task("active", priority=5, status="active", worker="w", epoch=1, queue_number=0),
        task("failed", priority=5, status="failed", queue_number=0),
    ]
    await add_tasks(with_swarm, *reversed(order), *others)
    for position, expected in enumerate(order, start=1):
        assert await with_swarm.read(lambda tx: tx.next_task(SWARM)) == expected
        left = order[position - 1 :]
        places = [await with_swarm.read(lambda tx, t=t: tx.queue_position(t)) for t in left]  # type: ignore[misc]
        assert places == list(range(1, len(left) + 1))
        done = expected._replace(status="done")
        await with_swarm.write(lambda tx, t=done: tx.save_task(t))  # type: ignore[misc]
    assert await with_swarm.read(lambda tx: tx.next_task(SWARM)) is None


async def test_queue_numbers_count_up_for_each_priority(with_swarm: OpenStore) -> None:
    def numbers(tx: Transaction) -> list[int]:
        return [tx.next_queue_number(SWARM, priority) for priority in (0, 0, 1, 0, 1)]

    assert await with_swarm.write(numbers) == [1, 2, 1, 3, 2]
    assert await with_swarm.write(lambda tx: tx.next_queue_number(SWARM, 0)) == 4


async def test_ready_tasks_are_counted_at_or_above_a_priority(with_swarm: OpenStore) -> None:
    async def count(priority: int) -> int:
        return await with_swarm.read(lambda tx: tx.ready_at_or_above(SWARM, priority))

    def change(tx: Transaction) -> None:
        for priority, by in ((0, 1), (0, 1), (2, 1), (-1, 1), (0, -1)):
            tx.change_ready(SWARM, priority, by)

    assert await count(-1000) == 0
    await with_swarm.write(change)
    assert [await count(priority) for priority in (-1, 0, 1, 2, 3)] == [3, 2, 1, 1, 0]


async def test_the_count_of_ready_tasks_cannot_go_below_zero(with_swarm: OpenStore) -> None:
    await with_swarm.write(lambda tx: tx.next_queue_number(SWARM, 0))
    with pytest.raises(StoreUnavailable):
        await with_swarm.write(lambda tx: tx.change_ready(SWARM, 0, -1))


async def test_the_next_worker_is_free_available_and_longest_unused(with_swarm: OpenStore) -> None:
    def put(tx: Transaction) -> None:
        tx.put_worker(worker("late", last_activity_at_ms=NOW + 5))
        tx.put_worker(worker("b", last_activity_at_ms=NOW + 1))
        tx.put_worker(worker("a", last_activity_at_ms=NOW + 1))
        tx.put_worker(worker("busy", task_id="t", last_activity_at_ms=0))
        tx.put_worker(worker("gone", available=False, last_activity_at_ms=0))

    assert await with_swarm.read(lambda tx: tx.next_worker(SWARM)) is None
    await with_swarm.write(put)
    for name in ("a", "b", "late"):
        found = await with_swarm.read(lambda tx: tx.next_worker(SWARM))
        assert found is not None
        assert (found.name, found.available) == (name, True)
        taken = found._replace(task_id="t")
        await with_swarm.write(lambda tx, w=taken: tx.put_worker(w))  # type: ignore[misc]
    assert await with_swarm.read(lambda tx: tx.next_worker(SWARM)) is None


async def test_a_worker_is_kept_with_the_time_of_its_first_registration(
    with_swarm: OpenStore,
) -> None:
    await with_swarm.write(lambda tx: tx.put_worker(worker()))
    changed = worker(task_id="t", available=False, registered_at_ms=1, last_activity_at_ms=NOW + 9)
    await with_swarm.write(lambda tx: tx.put_worker(changed))
    found = await with_swarm.read(lambda tx: tx.worker(SWARM, "w"))
    assert found == changed._replace(registered_at_ms=NOW)
    assert await with_swarm.read(lambda tx: tx.worker(SWARM, "none")) is None


async def test_workers_are_listed_by_name_with_the_state_of_what_they_hold(
    with_swarm: OpenStore,
) -> None:
    def put(tx: Transaction) -> None:
        tx.put_worker(worker("w", task_id="t"))
        tx.put_worker(worker("B"))
        tx.put_worker(worker("a"))
        tx.put_assignment(attempt(state=WorkerState.BLOCKED))

    await with_swarm.write(put)
    found = await with_swarm.read(lambda tx: tx.workers(SWARM))
    assert found == [
        (worker("B"), None),
        (worker("a"), None),
        (worker("w", task_id="t"), WorkerState.BLOCKED),
    ]


async def test_an_attempt_is_stored_with_all_its_fields(with_swarm: OpenStore) -> None:
    whole = attempt(lease_seconds=30, context_usage=0.25, current_step="3", commits='["abc1234"]')
    await with_swarm.write(lambda tx: tx.put_assignment(whole))
    assert await with_swarm.read(lambda tx: tx.assignment(SWARM, "t")) == whole
    changed = whole._replace(
        state=WorkerState.WAITING,
        lease_expires_at_ms=None,
        lease_seconds=None,
        context_usage=0.7,
        current_step=None,
        commits=None,
    )
    await with_swarm.write(lambda tx: tx.save_assignment(changed))
    assert await with_swarm.read(lambda tx: tx.assignment(SWARM, "t")) == changed


async def test_only_the_given_attempt_is_ended(with_swarm: OpenStore) -> None:
    await with_swarm.write(lambda tx: tx.put_assignment(attempt(epoch=2)))
    await with_swarm.write(lambda tx: tx.end_assignment(SWARM, "t", 1))
    assert await with_swarm.read(lambda tx: tx.assignment(SWARM, "t")) == attempt(epoch=2)
    await with_swarm.write(lambda tx: tx.end_assignment(SWARM, "t", 2))
    assert await with_swarm.read(lambda tx: tx.assignment(SWARM, "t")) is None


async def test_expired_leases_are_listed_most_overdue_first(
    with_swarm: OpenStore,
) -> None:
    await with_swarm.add_swarm("other")

    def put(tx: Transaction) -> None:
        for name, ends_at in (("a", NOW + 3), ("b", NOW), ("c", NOW + 4), ("d", None)):
            tx.put_assignment(attempt(name)._replace(lease_expires_at_ms=ends_at))
        elsewhere = attempt("e", epoch=4)._replace(swarm_id="other", lease_expires_at_ms=NOW + 1)
        tx.put_assignment(elsewhere)
        tx.put_assignment(assignment())  # a packet has no lease

    assert await with_swarm.read(lambda tx: tx.next_lease_end_at_ms()) is None
    await with_swarm.write(put)
    assert await with_swarm.read(lambda tx: tx.next_lease_end_at_ms()) == NOW
    expired = await with_swarm.read(lambda tx: tx.expired_leases(NOW + 3, 10))
    assert expired == [(SWARM, "b", 1), ("other", "e", 4), (SWARM, "a", 1)]
    assert len(await with_swarm.read(lambda tx: tx.expired_leases(NOW + 9, 2))) == 2
    assert await with_swarm.read(lambda tx: tx.expired_leases(NOW - 1, 10)) == []


async def test_questions_are_numbered_and_answered_once(with_swarm: OpenStore) -> None:
    def ask(tx: Transaction) -> list[int]:
        tx.take_swarm(SWARM)
        return [tx.add_question(question()), tx.add_question(question(task_id="u"))]

    assert await with_swarm.write(ask) == [1, 2]
    assert await with_swarm.read(lambda tx: tx.question(SWARM, 1)) == question(question_id=1)
    assert await with_swarm.read(lambda tx: tx.question(SWARM, 3)) is None
    assert await with_swarm.write(lambda tx: tx.answer_question(SWARM, 1, "this", NOW + 1))
    assert not await with_swarm.write(lambda tx: tx.answer_question(SWARM, 1, "that", NOW + 2))
    assert not await with_swarm.write(lambda tx: tx.answer_question(SWARM, 9, "that", NOW + 2))
    answered = question(question_id=1, answer="this", answered_at_ms=NOW + 1)
    opened = question(question_id=2, task_id="u")
    listed = await with_swarm.read(lambda tx: tx.questions(SWARM, 10, only_open=True))
    assert listed == [opened]
    listed = await with_swarm.read(lambda tx: tx.questions(SWARM, 10, only_open=False))
    assert listed == [opened, answered]
    assert len(await with_swarm.read(lambda tx: tx.questions(SWARM, 1, only_open=False))) == 1


async def test_an_answer_is_undelivered_until_its_own_attempt_receives_it(
    with_swarm: OpenStore,
) -> None:
    def ask(tx: Transaction) -> None:
        for one in (question(), question(), question(epoch=2), question(task_id="u"), question()):
            tx.add_question(one)
        for number in (2, 1, 3, 4):
            tx.answer_question(SWARM, number, f"answer {number}", NOW)

    async def unheard(task_id: str, epoch: int) -> list[int]:
        found = await with_swarm.read(lambda tx: tx.undelivered_answers(SWARM, task_id, epoch))
        return [one.question_id for one in found]

    await with_swarm.write(ask)
    assert await unheard("t", 1) == [1, 2]
    await with_swarm.write(lambda tx: tx.mark_answers_delivered(SWARM, "t", 1))
    assert [await unheard("t", 1), await unheard("t", 2), await unheard("u", 1)] == [[], [3], [4]]
    await with_swarm.write(lambda tx: tx.answer_question(SWARM, 5, "late", NOW))
    assert await unheard("t", 1) == [5]


async def test_at_most_five_salvage_entries_are_returned_newest_first(
    with_swarm: OpenStore,
) -> None:
    lost = [Salvage(epoch, "w", "lease_expired", [f"abc123{epoch}"]) for epoch in range(1, 8)]

    def add(tx: Transaction) -> None:
        for error in lost:
            tx.add_salvage(SWARM, "t", error, NOW)
        tx.add_salvage(SWARM, "u", Salvage(1, "w", "reset", []), NOW)

    assert await with_swarm.read(lambda tx: tx.salvage(SWARM, "t")) == []
    await with_swarm.write(add)
    assert await with_swarm.read(lambda tx: tx.salvage(SWARM, "t")) == lost[:1:-1]
    assert await with_swarm.read(lambda tx: tx.salvage(SWARM, "u")) == [
        Salvage(1, "w", "reset", [])
    ]


async def test_deleting_a_swarm_deletes_its_bus_rows(with_swarm: OpenStore) -> None:
    def fill(tx: Transaction) -> None:
        tx.add_task(task("a"), [])
        tx.add_task(task("t"), ["a"])
        tx.put_worker(worker())
        tx.put_assignment(attempt())
        tx.add_question(question())
        tx.add_salvage(SWARM, "t", Salvage(1, "w", "reset", []), NOW)
        tx.change_ready(SWARM, 0, 1)

    await with_swarm.write(fill)
    await with_swarm.write(lambda tx: tx.delete_swarm(SWARM))
    await with_swarm.add_swarm()
    assert await with_swarm.read(
        lambda tx: (
            tx.tasks_after(SWARM, "", 10),
            tx.dependencies(SWARM, "t"),
            tx.workers(SWARM),
            tx.assignment(SWARM, "t"),
            tx.questions(SWARM, 10, only_open=False),
            tx.salvage(SWARM, "t"),
            tx.ready_at_or_above(SWARM, -1000),
        )
    ) == ([], [], [], None, [], [], 0)
