"""What the store port promises about usage, budgets, holds and landings, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.errors import StoreUnavailable
from shiftboss.rules.runs.records import (
    WHOLE_SWARM,
    BudgetRecord,
    Hold,
    LandingRecord,
    ProcessUsage,
    Totals,
)
from shiftboss.store.port import Transaction
from tests.conformance.opened import OpenStore
from tests.conformance.store.rows import SWARM

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-07")]

NOW = 1_800_000_000_000
LARGE = 10**15


def hold(task_id: str = "t", **changes: Any) -> Hold:
    return Hold(SWARM, task_id, "pause", "Kontingent ✓", NOW, NOW + 5)._replace(**changes)


def landing(task_id: str = "t", **changes: Any) -> LandingRecord:
    whole = LandingRecord(SWARM, task_id, f"r-{task_id}", "c" * 40, NOW)
    return whole._replace(**changes)


async def test_usage_is_replaced_per_process(
    with_swarm: OpenStore,
) -> None:
    first = ProcessUsage(SWARM, "t", 1, 1, 10, 20, 30, None, NOW)
    second = first._replace(process=2, microdollars=LARGE)
    for one in (first, second, first._replace(output_tokens=LARGE, microdollars=7)):
        await with_swarm.write(lambda tx, one=one: tx.put_process_usage(one))  # type: ignore[misc]

    def look(tx: Transaction) -> list[ProcessUsage | None]:
        return [tx.process_usage(SWARM, "t", 1, number) for number in (1, 2, 3)]

    assert await with_swarm.read(look) == [
        first._replace(output_tokens=LARGE, microdollars=7),
        second,
        None,
    ]


async def test_totals_are_listed_by_task_without_the_swarms_own(with_swarm: OpenStore) -> None:
    sums = {task: Totals(number, 2, 3, LARGE, 5) for number, task in enumerate("abc")}

    def put(tx: Transaction) -> None:
        for task, totals in {**sums, WHOLE_SWARM: Totals(9, 9, 9, 9, 9)}.items():
            tx.put_usage_totals(SWARM, task, Totals())
            tx.put_usage_totals(SWARM, task, totals)

    await with_swarm.write(put)
    assert await with_swarm.read(lambda tx: tx.usage_totals(SWARM, "b")) == sums["b"]
    assert await with_swarm.read(lambda tx: tx.usage_totals(SWARM, "z")) == Totals()
    pages = [
        await with_swarm.read(lambda tx: tx.usage_after(SWARM, "", 2)),
        await with_swarm.read(lambda tx: tx.usage_after(SWARM, "b", 2)),
    ]
    assert pages == [[("a", sums["a"]), ("b", sums["b"])], [("c", sums["c"])]]


async def test_the_last_budget_written_wins(with_swarm: OpenStore) -> None:
    budget = BudgetRecord(SWARM, "t", LARGE, None)
    after = budget._replace(tokens=None, microdollars=5, by_operator=True, question_id=7)
    await with_swarm.write(lambda tx: tx.put_budget(budget))
    await with_swarm.write(lambda tx: tx.put_budget(after))
    assert await with_swarm.read(lambda tx: tx.budget(SWARM, "t")) == after
    assert await with_swarm.read(lambda tx: tx.budget(SWARM, WHOLE_SWARM)) is None


async def test_holds_can_be_found_by_task_by_swarm_and_by_end_time(with_swarm: OpenStore) -> None:
    own, all_of_it = hold(), hold(WHOLE_SWARM, until_ms=NOW + 3)
    endless = hold("u", kind="budget", until_ms=None)

    def put(tx: Transaction) -> None:
        for one in (endless, own, all_of_it):
            tx.put_hold(one)

    await with_swarm.write(put)
    assert await with_swarm.read(lambda tx: tx.holds_of_task(SWARM, "t")) == [all_of_it, own]
    assert await with_swarm.read(lambda tx: tx.holds_of_task(SWARM, "z")) == [all_of_it]
    assert await with_swarm.read(lambda tx: tx.holds_of_swarm(SWARM, 2)) == [all_of_it, own]
    assert await with_swarm.read(lambda tx: tx.next_hold_end_at_ms()) == NOW + 3
    assert await with_swarm.read(lambda tx: tx.ended_holds(NOW + 4, 9)) == [all_of_it]
    assert await with_swarm.read(lambda tx: tx.ended_holds(NOW + 5, 9)) == [all_of_it, own]

    longer = own._replace(until_ms=NOW + 50, reason="later")
    await with_swarm.write(lambda tx: tx.put_hold(longer._replace(since_ms=NOW + 1)))
    assert (await with_swarm.read(lambda tx: tx.holds_of_task(SWARM, "t")))[1] == longer
    assert await with_swarm.write(lambda tx: tx.drop_hold(longer)) is True
    assert await with_swarm.write(lambda tx: tx.drop_hold(longer)) is False
    assert await with_swarm.read(lambda tx: tx.holds_of_swarm(SWARM, 9)) == [all_of_it, endless]


async def test_a_budget_hold_does_not_expire(with_swarm: OpenStore) -> None:
    with pytest.raises(StoreUnavailable):
        await with_swarm.write(lambda tx: tx.put_hold(hold(kind="budget")))


async def test_unlanded_work_is_listed_as_it_was_accepted(with_swarm: OpenStore) -> None:
    rows = [
        landing("late", accepted_at_ms=NOW + 1),
        landing("b"),
        landing("a"),
        landing("landed", target="main", landed_commit="d" * 40, landed_at_ms=NOW),
    ]

    def put(tx: Transaction) -> None:
        for row in rows:
            tx.put_landing(row)

    await with_swarm.write(put)
    assert await with_swarm.read(lambda tx: tx.landing(SWARM, "landed")) == rows[3]
    assert await with_swarm.read(lambda tx: tx.landing(SWARM, "z")) is None
    first = await with_swarm.read(lambda tx: tx.landings_to_come(SWARM, (-1, ""), 2))
    assert first == [rows[2], rows[1]]
    after = (first[-1].accepted_at_ms, first[-1].receipt_id)
    assert await with_swarm.read(lambda tx: tx.landings_to_come(SWARM, after, 2)) == [rows[0]]


async def test_deleting_a_swarm_deletes_its_usage_budgets_holds_and_landings(
    with_swarm: OpenStore,
) -> None:
    def put(tx: Transaction) -> None:
        tx.put_process_usage(ProcessUsage(SWARM, "t", 1, 1, 1, 1, 1, 1, NOW))
        tx.put_usage_totals(SWARM, "t", Totals(1))
        tx.put_budget(BudgetRecord(SWARM, "t", 1, 1))
        tx.put_hold(hold())
        tx.put_landing(landing())

    await with_swarm.write(put)
    await with_swarm.write(lambda tx: tx.delete_swarm(SWARM))
    await with_swarm.add_swarm()

    def look(tx: Transaction) -> list[object]:
        return [
            tx.process_usage(SWARM, "t", 1, 1),
            tx.usage_after(SWARM, "", 9) or None,
            tx.budget(SWARM, "t"),
            tx.next_hold_end_at_ms(),
            tx.landing(SWARM, "t"),
        ]

    assert await with_swarm.read(look) == [None] * 5
