"""A swarm as it was after any of its events, on both stores."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.coordinator.history import replays
from shiftboss.errors import HistoryIncomplete, InvalidRequest, UnknownSwarm
from shiftboss.protocol.history import ReplayAnswer, ReplaySwarmRequest
from shiftboss.protocol.messages import MessageType
from tests.conformance.bus.bus_fixtures import BusFixture
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-04")]


async def replayed(bus: BusFixture, **members: Any) -> ReplayAnswer:
    request = ReplaySwarmRequest(**({"swarm_id": bus.swarm_id} | members))
    return await bus.coordinator.history.replay_swarm(request)


def columns(state: ReplayAnswer) -> dict[str, str]:
    return {task.bead_id: task.column for task in state.tasks}


async def work(bus: BusFixture) -> None:
    await bus.register("v", "w")
    await bus.add_and_submit("a", "b")
    await bus.add("c", after=["a"])
    await bus.start("v", "a")
    await bus.done("a", "v")
    await bus.submit("c")


async def test_each_event_has_its_board(bus: BusFixture) -> None:
    await work(bus)
    last = await replayed(bus)
    assert (last.at, last.first_event_id, last.event) != (0, 0, None)
    assert columns(last) == {"a": "done", "b": "running", "c": "running"}
    assert {worker.name: worker.task for worker in last.workers} == {"v": "c", "w": "b"}
    seen = [columns(await replayed(bus, at=at)) for at in range(last.at + 1)]
    assert seen[0] == {}
    assert seen[-1] == columns(last)
    assert {"a": "running", "b": "running", "c": "waiting"} in seen
    at = next(index for index, board in enumerate(seen) if "c" in board)
    added = await replayed(bus, at=at)
    assert added.event is not None
    assert (added.event.kind, added.event.bead_id) == ("task_added", "c")
    (task,) = [task for task in added.tasks if task.bead_id == "c"]
    assert (task.title, task.depends_on, task.waits_for) == ("c", ["a"], 1)


async def test_boards_that_are_kept_give_the_same_answers(
    bus: BusFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    await work(bus)
    last = (await replayed(bus)).at
    plain = [await replayed(bus, at=at) for at in range(last + 1)]
    monkeypatch.setattr(replays, "EVENTS_PER_STEP", 2)
    monkeypatch.setattr(replays, "BOARDS_KEPT_MAX", 3)
    kept = [await replayed(bus, at=at) for at in range(last + 1)]
    backwards = [await replayed(bus, at=at) for at in range(last, -1, -1)]
    assert kept == plain
    assert backwards[::-1] == plain


async def test_tasks_come_in_pages_and_counts_are_of_all(bus: BusFixture) -> None:
    await bus.add("a", "b", "c")
    first = await replayed(bus, limit=2)
    assert (list(columns(first)), first.next_after) == (["a", "b"], "b")
    rest = await replayed(bus, limit=2, after="b")
    assert (list(columns(rest)), rest.next_after) == (["c"], None)
    assert first.counts["waiting"] == rest.counts["waiting"] == 3


async def test_one_task_alone(bus: BusFixture) -> None:
    await work(bus)
    alone = await replayed(bus, bead_id="b")
    assert (list(columns(alone)), sum(alone.counts.values())) == (["b"], 1)
    assert [worker.name for worker in alone.workers] == ["w"]
    assert alone.event is None


async def test_deleted_events_are_said_to_be_deleted(bus: BusFixture) -> None:
    await work(bus)
    bus.clock.now_ms += 10
    await bus.add("d")
    at_ms = bus.clock.now_ms
    await bus.coordinator.store.write(
        lambda tx: (tx.take_swarm(bus.swarm_id), tx.prune_events(bus.swarm_id, at_ms, 100)),
        bus.swarm_id,
    )
    with pytest.raises(HistoryIncomplete) as refused:
        await replayed(bus)
    assert refused.value.code == "history_incomplete"
    assert refused.value.facts != {"first_event_id": 1}


async def test_unknown_swarms_and_events_to_come(bus: BusFixture) -> None:
    with pytest.raises(UnknownSwarm):
        await replayed(bus, swarm_id="nowhere")
    assert (await replayed(bus, swarm_id="default")).tasks == []
    with pytest.raises(InvalidRequest) as error:
        await replayed(bus, at=1)
    assert error.value.field == "at"


async def test_questions_claims_reviews_and_landings_are_replayed(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", review="required")
    await handoffs.say(MessageType.BLOCKED, "w", payload={"question": "Which one?"})
    asked = await replayed(handoffs)
    assert (columns(asked)["t"], asked.tasks[0].questions) == ("needs_you", 1)
    (question,) = await handoffs.questions()
    await handoffs.answer(question.question_id)
    await handoffs.claim("t", name="w")
    claimed = await replayed(handoffs)
    assert (columns(claimed)["t"], claimed.tasks[0].claim_id) == ("verifying", 1)
    await handoffs.accept()
    reviewed = await replayed(handoffs)
    assert (columns(reviewed)["t"], reviewed.tasks[0].in_review) == ("needs_you", True)
    assert reviewed.tasks[0].accepted_commit is not None
    assert columns(await replayed(handoffs, at=asked.at)) == columns(asked)
