"""Pauses and parked tasks: held back until their time, and not a moment longer."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.coordinator.clock import system_clock
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import IllegalTransition, NotHeld, StaleEpoch, UnknownTask, WorkPaused
from shiftboss.protocol.bus import AddTaskRequest, PollRequest, RegisterWorkerRequest, TaskRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.runs import PauseSwarmRequest
from shiftboss.store.opening import store_at
from tests.conformance.bus.bus_fixtures import BusRoom, bus_room
from tests.conformance.handoffs.handoff_fixtures import HandoffRoom
from tests.conformance.runs.run_fixtures import Running

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-07")]


@pytest.fixture
def plan(room: BusRoom) -> Running:
    return Running(room)


async def test_a_pause_holds_back_what_is_not_handed_out(plan: Running, room: BusRoom) -> None:
    await room.register("w", "x")
    await room.add_and_submit("a")
    await room.start("w", "a")
    paused = (await plan.pause(60)).paused
    assert paused is not None
    assert (paused.kind, paused.reason, paused.until) == ("pause", "quota", paused.since + 60_000)
    await room.add_and_submit("b")
    assert (await room.look("x")).task is None
    with pytest.raises(WorkPaused):
        await room.say(
            MessageType.ASSIGN,
            "x",
            task_id="b",
            spec_path="s",
            worktree_path="/w",
            timeout_seconds=9,
        )
    # Who is at work goes on.
    assert (await room.beat("w")).paused is None
    await room.done("a")
    assert (await room.look("w")).task is None
    await plan.pass_seconds(59.9)
    assert len(await plan.holds()) == 1
    await plan.pass_seconds(0.1)
    assert await plan.holds() == []
    assert (await room.given("x")).bead_id == "b"
    events = await room.coordinator.swarms.events_after(room.swarm_id, 0, 1000)
    assert [one.kind for one in events if one.kind.startswith("dispatch")] == [
        "dispatch_paused",
        "dispatch_resumed",
    ]


async def test_of_two_pauses_the_longer_one_counts(plan: Running, room: BusRoom) -> None:
    await room.register("w")
    await room.add("a")
    assert (await plan.pause(60)).changed is True
    assert (await plan.pause(30)).changed is False
    assert (await plan.pause(90)).changed is True
    await plan.pass_seconds(60)
    await room.submit("a")
    assert (await room.look("w")).task is None
    assert (await plan.pause(reason="wait for me")).changed is True
    assert (await plan.pause(90)).changed is False
    await plan.pass_seconds(86_400)
    assert [one.reason for one in await plan.holds()] == ["wait for me"]
    assert (await plan.resume()).changed is True
    assert (await plan.resume()).changed is False
    assert (await room.given("w")).bead_id == "a"


async def test_one_task_can_wait_while_the_others_go_on(plan: Running, room: BusRoom) -> None:
    await room.add_and_submit("a", "b")
    await plan.pause(60, bead_id="a")
    await room.register("w", "x")
    assert (await room.given("w")).bead_id == "b"
    assert (await room.look("x")).task is None
    await plan.resume("a")
    assert (await room.given("x")).bead_id == "a"
    with pytest.raises(UnknownTask):
        await plan.pause(60, bead_id="z")


async def test_a_parked_task_waits_with_its_checkpoint_and_has_not_failed(
    plan: Running, room: BusRoom
) -> None:
    await room.register("w")
    await room.add_and_submit("a")
    epoch = await room.start("w", "a")
    told = await plan.park("a", "w", epoch, 60, checkpoint={"next": "the tests"})
    assert (told.status, told.until) == ("queued", room.clock.now_ms + 60_000)
    assert await plan.park("a", "w", epoch, 99) == told
    shown = await room.show("a")
    assert (shown.status, shown.state, shown.failures) == ("queued", None, 0)
    # The worker is free for other work, and this task is not handed out before its time.
    await room.add_and_submit("b")
    assert (await room.given("w")).bead_id == "b"
    await room.register("x")
    assert (await room.look("x")).task is None
    await plan.pass_seconds(60)
    given = await room.given("x")
    assert (given.bead_id, given.epoch) == ("a", epoch + 1)
    assert given.checkpoint == {"next": "the tests", "worker": "w", "epoch": epoch}
    assert [one["reason"] for one in given.salvage] == ["parked"]
    assert (await plan.park("a", "w", epoch, 99)).status == "active"


async def test_only_the_holder_parks_and_only_work_under_way(plan: Running, room: BusRoom) -> None:
    await room.register("w")
    await room.add_and_submit("a")
    await room.given("w")
    with pytest.raises(NotHeld):
        await plan.park("a", "w", 1, 60)
    await room.ack("w", "a")
    with pytest.raises(NotHeld):
        await plan.park("a", "x", 1, 60)
    with pytest.raises(StaleEpoch):
        await plan.park("a", "w", 2, 60)
    await room.say(MessageType.BLOCKED, "w", payload={"question": "Which?"})
    with pytest.raises(IllegalTransition):
        await plan.park("a", "w", 1, 60)
    assert await plan.holds() == []


async def test_a_claim_is_not_parked(shop: HandoffRoom) -> None:
    await shop.given_out("a", "w")
    await shop.claim("a", name="w")
    with pytest.raises(IllegalTransition):
        await Running(shop).park("a", "w", 1, 60)
    await shop.accept()
    assert await shop.status("a") == "done"


async def test_without_a_time_it_can_be_taken_at_once(plan: Running, room: BusRoom) -> None:
    await room.register("w")
    await room.add_and_submit("a")
    await room.start("w", "a")
    assert (await plan.park("a", "w", 1)).until is None
    assert (await room.given("w")).epoch == 2


async def test_a_pause_survives_a_restart(store_address: str) -> None:
    async with bus_room(store_address) as room:
        await room.register("w")
        await room.add_and_submit("a")
        await room.start("w", "a")
        await Running(room).park("a", "w", 1, 60)
        await Running(room).pause(30)
        start_ms = room.clock.now_ms
    async with bus_room(store_address) as room:
        room.clock.now_ms = start_ms
        plan = Running(room)
        assert len(await plan.holds()) == 2
        await plan.pass_seconds(30)
        assert (await room.look("w")).task is None
        await plan.pass_seconds(30)
        assert (await room.given("w")).bead_id == "a"


async def test_the_duty_ends_a_pause_by_itself(store_address: str) -> None:
    """With a clock that goes: the worker's parked poll is answered when the time has come."""
    coordinator = Coordinator(store_at(store_address))
    await coordinator.start()
    try:
        bus = coordinator.bus
        await bus.register_worker(RegisterWorkerRequest(name="w"))
        pause = PauseSwarmRequest(reason="quota", until_ms=system_clock() + 300)
        await coordinator.runs.pause_swarm(pause)
        await bus.add_task(AddTaskRequest(bead_id="a", title="a"))
        assert (await bus.submit_task(TaskRequest(bead_id="a"))).dispatched is False
        poll = bus.poll_task(PollRequest(name="w", timeout_ms=20_000))
        task = (await asyncio.wait_for(poll, 25)).task
        assert task is not None
        assert task.assigned_at >= pause.until_ms  # type: ignore[operator]
    finally:
        await coordinator.stop()
