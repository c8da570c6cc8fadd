"""The cards of the board, the inbox and the workers, on both stores."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss.coordinator.board import inbox
from shiftboss.errors import UnknownSwarm
from shiftboss.protocol.board.cards import ListCardsRequest
from shiftboss.protocol.board.inbox import ListInboxRequest
from shiftboss.protocol.board.workers import ListWorkersRequest
from shiftboss.protocol.bus import TaskRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.packets import RegisterRequest
from shiftboss.protocol.runs import PauseSwarmRequest, ReportRunRequest
from shiftboss.rules.runs.records import BudgetRecord, Hold, LandingRecord, ReviewRecord
from shiftboss.store.port import Transaction
from tests.conformance.bus.bus_fixtures import BusFixture
from tests.conformance.runs.run_fixtures import RunFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-04", "OWN-11")]

Card = dict[str, Any]


async def cards_of(bus: BusFixture, **members: Any) -> dict[str, Card]:
    request = ListCardsRequest(swarm_id=bus.swarm_id, **members)
    answer = json.loads((await bus.coordinator.board.list_cards(request)).body)
    return {card["bead_id"]: card for card in answer["cards"]}


async def inbox_of(bus: BusFixture, swarm_id: str | None = None) -> list[dict[str, Any]]:
    answer = await bus.coordinator.board.list_inbox(ListInboxRequest(swarm_id=swarm_id))
    items: list[dict[str, Any]] = json.loads(answer.body)["items"]
    return items


async def workers_of(bus: BusFixture, **members: Any) -> dict[str, dict[str, Any]]:
    request = ListWorkersRequest(swarm_id=bus.swarm_id, **members)
    answer = json.loads((await bus.coordinator.board.list_workers(request)).body)
    return {worker["name"]: worker for worker in answer["workers"]}


async def every_kind_of_task(bus: BusFixture) -> None:
    """Tasks in all states that need no contract."""
    await bus.register("w", "v", "u")
    await bus.add_and_submit("running", "asking", "broken")
    for name, task in (("w", "running"), ("v", "asking"), ("u", "broken")):
        await bus.start(name, task)
    await bus.beat("w", context_usage=0.5, current_step="Edit src/a.py")
    await bus.failed("broken", "it does not build")
    await bus.add("open", "over", "held")
    await bus.add("waits", after=["open", "running"])
    await bus.submit("held")
    await bus.cancel("over")
    await bus.add("gone")


async def test_every_card_has_the_first_reason_of_why(bus: BusFixture) -> None:
    await every_kind_of_task(bus)
    cards = await cards_of(bus)
    assert sorted(cards) == list(cards)
    for task_id, card in cards.items():
        request = TaskRequest(swarm_id=bus.swarm_id, bead_id=task_id)
        first = (await bus.bus_service.why_task(request)).reasons[0]
        told = (card["reason_kind"], card["reason"], card.get("command"))
        assert told == (first.kind, first.text, first.command), task_id


async def test_columns(bus: BusFixture) -> None:
    await every_kind_of_task(bus)
    columns = {task_id: card["column"] for task_id, card in (await cards_of(bus)).items()}
    assert columns == {
        "asking": "running",
        "broken": "failed",
        "gone": "waiting",
        "held": "running",
        "open": "waiting",
        "over": "done",
        "running": "running",
        "waits": "waiting",
    }


async def test_what_a_card_tells(bus: BusFixture) -> None:
    await every_kind_of_task(bus)
    cards = await cards_of(bus)
    running = cards["running"]
    assert (running["worker"], running["state"]) == ("w", "executing")
    assert (running["context_usage"], running["step"]) == (0.5, "Edit src/a.py")
    assert running["started_at"] <= running["lease_expires_at"]
    assert (cards["waits"]["waits_for"], cards["waits"]["waits_count"]) == (["open", "running"], 2)
    assert cards["waits"]["depends_on"] == ["open", "running"]
    assert cards["broken"]["last_error"] == "it does not build"
    assert "priority" not in cards["open"], "what says nothing is left out"


async def test_pages_are_in_the_order_of_the_ids_and_have_packets(bus: BusFixture) -> None:
    await bus.add(*(f"t{number:02}" for number in range(7)), "a", "q")
    for packet_id in (2, 10):
        await bus.coordinator.swarms.register(
            bus.swarm_id,
            RegisterRequest(
                packet_id=packet_id, packet_name=f"p{packet_id}", worktree="/w", tasks_total=4
            ),
        )
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        request = ListCardsRequest(swarm_id=bus.swarm_id, after=after, limit=3)
        page = json.loads((await bus.coordinator.board.list_cards(request)).body)
        found += [card["bead_id"] for card in page["cards"]]
        after = page.get("next_after")
    assert found == sorted(found)
    assert len(found) == len(set(found)) == 11
    packet = (await cards_of(bus, bead_ids=["packet-2", "t01", "missing"]))["packet-2"]
    assert (packet["worker"], packet["progress"], packet["column"]) == ("p2", "0/4", "running")


async def test_only_the_cards_that_are_asked_for(bus: BusFixture) -> None:
    await bus.add("a", "b", "c")
    assert set(await cards_of(bus, bead_ids=["c", "a", "nobody"])) == {"a", "c"}
    with pytest.raises(UnknownSwarm):
        await bus.coordinator.board.list_cards(ListCardsRequest(swarm_id="nowhere"))


async def test_positions_of_many_queued_tasks(bus: BusFixture) -> None:
    await bus.add_and_submit(*"abcdefgh")
    cards = await cards_of(bus)
    for position, task_id in enumerate("abcdefgh", 1):
        assert f"number {position} in the queue" in cards[task_id]["reason"]


async def test_a_question_needs_a_person(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("a")
    await bus.start("w", "a")
    await ask(bus, "w", "Which key?\nThe <script>old</script> one?")
    card = (await cards_of(bus))["a"]
    assert (card["column"], card["question_ids"]) == ("needs_you", [1])
    (item,) = await inbox_of(bus, bus.swarm_id)
    assert (item["kind"], item["bead_id"], item["title"]) == ("question", "a", "a")
    assert item["text"] == "Which key?\nThe <script>old</script> one?"
    assert (item["question_id"], item["worker"]) == (1, "w")
    assert item["since"] == bus.clock.now_ms
    await bus.answer(1, "The new one")
    assert (await cards_of(bus))["a"]["column"] == "running"
    assert await inbox_of(bus) == []


async def ask(bus: BusFixture, worker: str, question: str) -> None:
    await bus.say(MessageType.BLOCKED, worker, payload={"question": question})


async def test_an_ended_worker_without_permission_waits_for_a_person(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("a")
    await bus.start("w", "a")
    await ask(bus, "w", "BLOCKED_PERMISSION: Bash - denied\nAttempted: mkdir x")
    (item,) = await inbox_of(bus)
    assert (item["kind"], item["tool"]) == ("permission", "Bash")


async def test_reviews_landings_and_budgets(bus: BusFixture) -> None:
    bus.writes_rows = True
    swarm_id, now_ms = bus.swarm_id, bus.clock.now_ms
    await bus.add("reviewed", "accepted", "landed", "spent", "paused")

    def change(tx: Transaction) -> None:
        tx.take_swarm(swarm_id)
        for task_id, landed in (("reviewed", None), ("accepted", None), ("landed", "b" * 40)):
            task = tx.task(swarm_id, task_id)
            assert task is not None
            tx.save_task(task._replace(status="done"))
            target = "main" if landed else None
            tx.put_landing(
                LandingRecord(
                    swarm_id,
                    task_id,
                    f"r-{task_id}",
                    "a" * 40,
                    now_ms,
                    target,
                    landed,
                    now_ms if landed else None,
                )
            )
        tx.put_review(ReviewRecord(swarm_id, "reviewed", "r-reviewed", "a" * 40, "open", now_ms))
        tx.put_budget(BudgetRecord(swarm_id, "spent", 500, 2_000_000))
        tx.put_hold(Hold(swarm_id, "spent", "budget", "used up", now_ms, None))

    await bus.coordinator.store.write(change, swarm_id)
    await bus.coordinator.runs.report_run(
        ReportRunRequest(swarm_id=swarm_id, plan_file="/plan.yaml")
    )
    await bus.coordinator.runs.pause_swarm(
        PauseSwarmRequest(swarm_id=swarm_id, bead_id="paused", reason="later")
    )
    cards = await cards_of(bus)
    assert {task_id: card["column"] for task_id, card in cards.items()} == {
        "reviewed": "needs_you",
        "accepted": "accepted",
        "landed": "done",
        "spent": "needs_you",
        "paused": "waiting",
    }
    assert (cards["reviewed"]["review"], cards["landed"]["landed_commit"]) == ("open", "b" * 40)
    spent = cards["spent"]
    assert (spent["budget_dollars"], spent["budget_tokens"], spent["hold"]) == (2.0, 500, "budget")
    kinds = [(item["kind"], item.get("bead_id")) for item in await inbox_of(bus)]
    assert ("review", "reviewed") in kinds
    assert ("landing", "accepted") in kinds
    assert ("budget", "spent") in kinds
    assert ("pause", "paused") in kinds
    status = await bus.coordinator.swarms.status(swarm_id)
    assert len(kinds) == len(status.waiting), "the inbox has what the status lists"


async def test_a_used_up_budget_has_all_of_its_limits(bus: BusFixture) -> None:
    """Who raises one of them sends both: a limit that is left out is no limit."""
    plan = RunFixture(bus)
    await bus.register("w")
    await bus.add_and_submit("a")
    await bus.start("w", "a")
    await plan.budget("a", tokens=1000, dollars=5)
    await plan.uses("a", "w", 1, input_tokens=10, dollars=6)
    budgets = [item["budget"] for item in await inbox_of(bus) if item["kind"] == "budget"]
    used_up = {"scope": "task", "unit": "dollars", "limit": 5.0, "spent": 6.0}
    assert budgets == [{**used_up, "tokens": 1000, "dollars": 5.0}]


async def test_the_total_of_the_inbox_counts_what_is_not_listed(
    bus: BusFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.writes_rows = True
    swarm_id, now_ms = bus.swarm_id, bus.clock.now_ms
    await bus.register("w", *(f"asks-{number}" for number in range(4)))
    for number in range(5):
        await bus.add_and_submit(f"failed-{number}")
        await bus.start("w", f"failed-{number}")
        await bus.failed(f"failed-{number}")
    for number in range(4):
        await bus.add_and_submit(f"asking-{number}")
        await bus.start(f"asks-{number}", f"asking-{number}")
        await ask(bus, f"asks-{number}", "Which key?")
    accepted = [f"accepted-{number}" for number in range(6)]
    await bus.add("over", *accepted)
    await bus.add("after-1", "after-2", "after-3", after=["over"])
    await bus.cancel("over")

    def change(tx: Transaction) -> None:
        tx.take_swarm(swarm_id)
        for task_id in accepted:
            task = tx.task(swarm_id, task_id)
            assert task is not None
            tx.save_task(task._replace(status="done"))
            receipt_id = f"r-{task_id}"
            tx.put_landing(
                LandingRecord(swarm_id, task_id, receipt_id, "a" * 40, now_ms, None, None, None)
            )
        for task_id in accepted[:2]:
            review = ReviewRecord(swarm_id, task_id, f"r-{task_id}", "a" * 40, "open", now_ms)
            tx.put_review(review)

    await bus.coordinator.store.write(change, swarm_id)
    for reviews_only in (True, False):
        if not reviews_only:
            report = ReportRunRequest(swarm_id=swarm_id, plan_file="/plan.yaml", auto_merge=False)
            await bus.coordinator.runs.report_run(report)
        every = len(await inbox_of(bus, swarm_id))
        assert every == 5 + 4 + 3 + (2 if reviews_only else 6)
        with monkeypatch.context() as patch:
            patch.setattr(inbox, "WAITING_LISTED_MAX", 2)
            answer = await bus.coordinator.board.list_inbox(ListInboxRequest(swarm_id=swarm_id))
        members = json.loads(answer.body)
        assert (len(members["items"]), members["total"]) == (8, every)


async def test_workers_tell_their_task_and_their_step(bus: BusFixture) -> None:
    await bus.register("idle", "busy")
    await bus.add_and_submit("a", "b")
    for name in ("idle", "busy"):
        task = (await bus.given(name)).bead_id
        await bus.ack(name, task)
    await bus.done("a")
    await bus.beat("busy", context_usage=0.25, current_step="pytest")
    bus.clock.now_ms += 5000
    workers = await workers_of(bus)
    assert (workers["idle"]["status"], workers["idle"]["idle_seconds"]) == ("idle", 5)
    busy = workers["busy"]
    assert (busy["status"], busy["task"], busy["title"]) == ("executing", "b", "b")
    assert (busy["context_usage"], busy["step"], busy["epoch"]) == (0.25, "pytest", 1)
    assert list(await workers_of(bus, limit=1)) == ["busy"]
    assert list(await workers_of(bus, after="busy")) == ["idle"]
