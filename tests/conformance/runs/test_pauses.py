"""Pauses and parked tasks: held back until their time, and no longer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shiftboss.coordinator.clock import system_clock
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import IllegalTransition, NotHeld, StaleEpoch, UnknownTask, WorkPaused
from shiftboss.protocol.bus import AddTaskRequest, PollRequest, RegisterWorkerRequest, TaskRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.questions import MessageAnswer
from shiftboss.protocol.runs import PauseSwarmRequest
from shiftboss.store.open_store import store_at
from tests.conformance.bus.bus_fixtures import BusFixture, open_bus
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture
from tests.conformance.runs.run_fixtures import RunFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-07")]


async def blocked(bus: BusFixture) -> tuple[int, MessageAnswer]:
    """A worker has asked a question about the task `a`. Its epoch, and the answer to the worker."""
    await bus.register("w")
    await bus.add_and_submit("a")
    epoch = await bus.start("w", "a")
    asked = await bus.say(MessageType.BLOCKED, "w", payload={"question": "which colour?"})
    return epoch, asked


@pytest.fixture
def plan(bus: BusFixture) -> RunFixture:
    return RunFixture(bus)


async def test_a_pause_holds_back_tasks_not_yet_dispatched(
    plan: RunFixture, bus: BusFixture
) -> None:
    await bus.register("w", "x")
    await bus.add_and_submit("a")
    await bus.start("w", "a")
    paused = (await plan.pause(60)).paused
    assert paused is not None
    assert (paused.kind, paused.reason, paused.until) == ("pause", "quota", paused.since + 60_000)
    await bus.add_and_submit("b")
    assert (await bus.look("x")).task is None
    with pytest.raises(WorkPaused):
        await bus.say(
            MessageType.ASSIGN,
            "x",
            task_id="b",
            spec_path="s",
            worktree_path="/w",
            timeout_seconds=9,
        )
    # Active workers continue.
    assert (await bus.beat("w")).paused is None
    await bus.done("a")
    assert (await bus.look("w")).task is None
    await plan.pass_seconds(59.9)
    assert len(await plan.holds()) == 1
    await plan.pass_seconds(0.1)
    assert await plan.holds() == []
    assert (await bus.given("x")).bead_id == "b"
    events = await bus.coordinator.swarms.events_after(bus.swarm_id, 0, 1000)
    assert [event.kind for event in events if event.kind.startswith("dispatch")] == [
        "dispatch_paused",
        "dispatch_resumed",
    ]


async def test_the_longer_of_two_pauses_wins(plan: RunFixture, bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add("a")
    assert (await plan.pause(60)).changed is True
    assert (await plan.pause(30)).changed is False
    assert (await plan.pause(90)).changed is True
    await plan.pass_seconds(60)
    await bus.submit("a")
    assert (await bus.look("w")).task is None
    assert (await plan.pause(reason="wait for me")).changed is True
    assert (await plan.pause(90)).changed is False
    await plan.pass_seconds(86_400)
    assert [hold.reason for hold in await plan.holds()] == ["wait for me"]
    assert (await plan.resume()).changed is True
    assert (await plan.resume()).changed is False
    assert (await bus.given("w")).bead_id == "a"


async def test_a_single_task_can_be_paused(plan: RunFixture, bus: BusFixture) -> None:
    await bus.add_and_submit("a", "b")
    await plan.pause(60, bead_id="a")
    await bus.register("w", "x")
    assert (await bus.given("w")).bead_id == "b"
    assert (await bus.look("x")).task is None
    await plan.resume("a")
    assert (await bus.given("x")).bead_id == "a"
    with pytest.raises(UnknownTask):
        await plan.pause(60, bead_id="z")


async def test_a_parked_task_waits_with_its_checkpoint_and_has_not_failed(
    plan: RunFixture, bus: BusFixture
) -> None:
    await bus.register("w")
    await bus.add_and_submit("a")
    epoch = await bus.start("w", "a")
    parked = await plan.park("a", "w", epoch, 60, checkpoint={"next": "the tests"})
    assert (parked.status, parked.until) == ("queued", bus.clock.now_ms + 60_000)
    assert await plan.park("a", "w", epoch, 99) == parked
    shown = await bus.show("a")
    assert (shown.status, shown.state, shown.failures) == ("queued", None, 0)
    # The worker is free for other work, and this task is not dispatched early.
    await bus.add_and_submit("b")
    assert (await bus.given("w")).bead_id == "b"
    await bus.register("x")
    assert (await bus.look("x")).task is None
    await plan.pass_seconds(60)
    given = await bus.given("x")
    assert (given.bead_id, given.epoch) == ("a", epoch + 1)
    assert given.checkpoint == {"next": "the tests", "worker": "w", "epoch": epoch}
    assert [entry["reason"] for entry in given.salvage] == ["parked"]
    assert (await plan.park("a", "w", epoch, 99)).status == "active"


async def test_only_the_holder_can_park_and_only_work_in_progress(
    plan: RunFixture, bus: BusFixture
) -> None:
    await bus.register("w")
    await bus.add_and_submit("a")
    await bus.given("w")
    with pytest.raises(NotHeld):
        await plan.park("a", "w", 1, 60)
    await bus.ack("w", "a")
    with pytest.raises(NotHeld):
        await plan.park("a", "x", 1, 60)
    with pytest.raises(StaleEpoch):
        await plan.park("a", "w", 2, 60)
    assert await plan.holds() == []


async def test_a_task_under_verification_cannot_be_parked(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("a", "w")
    await handoffs.claim("a", name="w")
    with pytest.raises(IllegalTransition):
        await RunFixture(handoffs).park("a", "w", 1, 60)
    await handoffs.accept()
    assert await handoffs.status("a") == "done"


async def test_a_task_parked_without_a_time_can_be_taken_immediately(
    plan: RunFixture, bus: BusFixture
) -> None:
    await bus.register("w")
    await bus.add_and_submit("a")
    await bus.start("w", "a")
    assert (await plan.park("a", "w", 1)).until is None
    assert (await bus.given("w")).epoch == 2


async def test_a_pause_survives_a_restart(store_address: str) -> None:
    async with open_bus(store_address) as bus:
        await bus.register("w")
        await bus.add_and_submit("a")
        await bus.start("w", "a")
        await RunFixture(bus).park("a", "w", 1, 60)
        await RunFixture(bus).pause(30)
        start_ms = bus.clock.now_ms
    async with open_bus(store_address) as bus:
        bus.clock.now_ms = start_ms
        plan = RunFixture(bus)
        assert len(await plan.holds()) == 2
        await plan.pass_seconds(30)
        assert (await bus.look("w")).task is None
        await plan.pass_seconds(30)
        assert (await bus.given("w")).bead_id == "a"


async def test_the_duty_ends_a_pause_on_time(store_address: str) -> None:
    """With the real clock: the worker's parked poll is answered when the pause ends."""
    coordinator = Coordinator(store_at(store_address))
    await coordinator.start()
    try:
        bus_service = coordinator.bus
        await bus_service.register_worker(RegisterWorkerRequest(name="w"))
        pause = PauseSwarmRequest(reason="quota", until_ms=system_clock() + 300)
        await coordinator.runs.pause_swarm(pause)
        await bus_service.add_task(AddTaskRequest(bead_id="a", title="a"))
        assert (await bus_service.submit_task(TaskRequest(bead_id="a"))).dispatched is False
        poll = bus_service.poll_task(PollRequest(name="w", timeout_ms=20_000))
        task = (await asyncio.wait_for(poll, 25)).task
        assert task is not None
        assert task.assigned_at >= pause.until_ms  # type: ignore[operator]
    finally:
        await coordinator.stop()


@pytest.mark.requirement("OWN-12")
async def test_a_blocked_worker_that_exits_is_parked_until_its_question_is_answered(
    plan: RunFixture, bus: BusFixture
) -> None:
    """It has not failed, and the next worker gets the answer."""
    epoch, asked = await blocked(bus)
    assert (await plan.park("a", "w", epoch)).status == "queued"
    assert (await bus.look("w")).task is None, "nobody gets it before the answer"
    (hold,) = await plan.holds()
    assert (hold.kind, hold.reason) == ("answer", "waits for the answer to its question")
    assert asked.question_id is not None
    await bus.answer(asked.question_id, "blue")
    assert await plan.holds() == []
    given = await bus.given("w")
    assert (given.bead_id, given.checkpoint) == ("a", {"instructions": "blue"})
    assert (await bus.show("a")).failures == 0


@pytest.mark.requirement("OWN-12")
@pytest.mark.parametrize("checkpoint", [None, {"next": "the tests"}])
async def test_an_answer_that_comes_while_its_worker_is_being_parked_goes_to_the_next(
    plan: RunFixture, bus: BusFixture, checkpoint: dict[str, Any] | None
) -> None:
    epoch, asked = await blocked(bus)
    assert asked.question_id is not None
    await bus.answer(asked.question_id, "blue")
    await plan.park("a", "w", epoch, checkpoint=checkpoint)
    given = await bus.given("w")
    assert given.checkpoint is not None
    assert given.checkpoint["instructions"] == "blue"
    assert given.checkpoint.items() >= (checkpoint or {}).items()
    await bus.ack("w", "a")
    assert (await bus.beat("w")).answers == [], "it has the answer"


@pytest.mark.requirement("OWN-12")
@pytest.mark.parametrize("acknowledged", [True, False])
async def test_an_answer_reaches_the_attempt_that_was_resumed_without_it(
    plan: RunFixture, bus: BusFixture, acknowledged: bool
) -> None:
    epoch, asked = await blocked(bus)
    assert asked.question_id is not None
    await plan.park("a", "w", epoch)
    await plan.resume("a")
    await bus.given("w")
    if acknowledged:
        await bus.ack("w", "a")
    await bus.answer(asked.question_id, "blue")
    if not acknowledged:
        await bus.ack("w", "a")
    told = (await bus.look("w")).answers or []
    assert [answer["answer"] for answer in told] == ["blue"]


@pytest.mark.requirement("OWN-12")
async def test_an_answer_to_an_attempt_before_the_last_goes_to_the_next_one(
    plan: RunFixture, bus: BusFixture
) -> None:
    epoch, asked = await blocked(bus)
    assert asked.question_id is not None
    await plan.park("a", "w", epoch)
    await plan.resume("a")
    await plan.park("a", "w", await bus.start("w", "a"), 60)
    await bus.answer(asked.question_id, "blue")
    await plan.pass_seconds(60)
    given = await bus.given("w")
    assert given.checkpoint is not None
    assert given.checkpoint["instructions"] == "blue"


@pytest.mark.requirement("OWN-12")
@pytest.mark.parametrize("paused_first", [True, False])
@pytest.mark.parametrize("seconds", [60, None])
async def test_an_answer_does_not_end_a_pause(
    plan: RunFixture, bus: BusFixture, seconds: float | None, paused_first: bool
) -> None:
    """A worker can answer its own question."""
    await bus.register("w")
    await bus.add_and_submit("a")
    epoch = await bus.start("w", "a")
    if paused_first:
        await plan.pause(seconds, bead_id="a")
    asked = await bus.say(MessageType.BLOCKED, "w", payload={"question": "which colour?"})
    await plan.park("a", "w", epoch)
    if not paused_first:
        await plan.pause(seconds, bead_id="a")
    assert asked.question_id is not None
    await bus.answer(asked.question_id, "blue")
    assert [hold.kind for hold in await plan.holds()] == ["pause"]
    assert (await bus.look("w")).task is None
    if seconds is None:
        await plan.resume("a")
    else:
        await plan.pass_seconds(seconds)
    assert (await bus.given("w")).bead_id == "a"


@pytest.mark.requirement("OWN-12")
async def test_a_quota_does_not_end_with_the_question_of_the_worker_that_ran_into_it(
    plan: RunFixture, bus: BusFixture
) -> None:
    epoch, asked = await blocked(bus)
    await plan.park("a", "w", epoch, 60)
    assert asked.question_id is not None
    await bus.answer(asked.question_id, "blue")
    assert (await bus.look("w")).task is None
    await plan.pass_seconds(60)
    assert (await bus.given("w")).bead_id == "a"


@pytest.mark.requirement("OWN-12")
async def test_the_operator_resumes_a_task_that_is_paused_and_waits_for_an_answer(
    plan: RunFixture, bus: BusFixture
) -> None:
    epoch, _ = await blocked(bus)
    await plan.park("a", "w", epoch, 60)
    assert sorted(hold.kind for hold in await plan.holds()) == ["answer", "pause"]
    assert (await plan.resume("a")).changed
    assert await plan.holds() == []
    assert (await bus.given("w")).bead_id == "a"


@pytest.mark.requirement("OWN-12")
async def test_a_cancelled_task_takes_its_question_and_its_hold_with_it(
    plan: RunFixture, bus: BusFixture
) -> None:
    epoch, _ = await blocked(bus)
    await plan.park("a", "w", epoch)
    await bus.cancel("a")
    assert await plan.holds() == []
    assert await bus.open_questions() == []
    assert await bus.retry("a") == "active"
