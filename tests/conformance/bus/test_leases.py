"""Leases and epochs on both stores, with a clock that the test moves."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import NotHeld, StaleEpoch, TaskMismatch
from shiftboss.protocol.bus import AnswerQuestionRequest, HeartbeatRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.store.opening import store_at
from tests.conformance.bus.bus_fixtures import SWARM, BusRoom, StillClock, bus_room

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-09")]

OFFER = 60
LEASE = 1800
BLOCKED_LEASE = 86_400


async def executing(room: BusRoom, task: str = "t", worker: str = "v") -> int:
    await room.register(worker)
    await room.add_and_submit(task)
    return await room.start(worker, task)


async def lease_left(room: BusRoom, task: str = "t") -> float | None:
    """Seconds."""
    ends_at = (await room.show(task)).lease_expires_at
    return None if ends_at is None else (ends_at - room.clock.now_ms) / 1000


async def test_an_offer_that_lapses_goes_to_another(room: BusRoom) -> None:
    await room.register("v", "w")
    await room.add_and_submit("t")
    assert (await room.show("t")).worker == "v"
    await room.pass_seconds(OFFER - 1)
    assert (await room.show("t")).worker == "v"
    await room.pass_seconds(1)
    task = await room.given("w")
    assert (task.bead_id, task.epoch) == ("t", 2)
    assert task.salvage == []  # nobody had begun
    with pytest.raises(TaskMismatch):
        await room.ack("v", "t")


async def test_who_let_an_offer_lapse_is_offered_nothing_before_a_sign_of_life(
    room: BusRoom,
) -> None:
    await room.register("v")
    await room.add_and_submit("t")
    await room.pass_seconds(OFFER)
    await room.add_and_submit("u")
    assert [(await room.show(name)).status for name in ("t", "u")] == ["queued", "queued"]
    await room.register("v")  # again: it is back
    assert (await room.given("v")).bead_id == "t"


async def test_a_poll_delivers_an_offer_again_and_starts_its_time_anew(room: BusRoom) -> None:
    await room.register("v")
    await room.add_and_submit("t")
    first = await room.given("v")
    await room.pass_seconds(OFFER - 1)
    second = await room.given("v")
    assert second.lease_expires_at == first.lease_expires_at + (OFFER - 1) * 1000
    assert second.model_copy(update={"lease_expires_at": 0}) == first.model_copy(
        update={"lease_expires_at": 0}
    )
    await room.pass_seconds(OFFER - 1)
    assert (await room.ack("v", "t")).epoch == 1


async def test_a_heartbeat_does_not_keep_an_offer_that_nobody_acknowledges(room: BusRoom) -> None:
    await room.register("v")
    await room.add_and_submit("t")
    await room.pass_seconds(OFFER - 1)
    await room.beat("v")
    await room.pass_seconds(1)
    assert (await room.show("t")).status == "queued"


async def test_a_lease_that_ends_queues_the_task_with_what_is_left_of_it(room: BusRoom) -> None:
    await executing(room)
    for commit in ("abc1234", "def5678", "abc1234"):
        await room.say(MessageType.PROGRESS, "v", payload={"commit": commit})
    await room.pass_seconds(LEASE - 1)
    assert (await room.show("t")).status == "active"
    await room.pass_seconds(1)
    assert (await room.show("t")).status == "queued"
    assert (await room.worker("v")).status == "idle"
    await room.register("w")
    task = await room.given("w")
    assert task.epoch == 2
    assert task.salvage == [
        {
            "epoch": 1,
            "worker": "v",
            "reason": "lease_expired",
            "commits": ["abc1234", "def5678"],
        }
    ]


async def test_what_a_failed_attempt_has_left_is_named_to_the_next(room: BusRoom) -> None:
    await executing(room)
    await room.say(MessageType.PROGRESS, "v", payload={"commit": "abc1234"})
    await room.failed("t")
    assert await room.retry("t") == "active"
    assert (await room.given("v")).salvage == [
        {"epoch": 1, "worker": "v", "reason": "failed", "commits": ["abc1234"]}
    ]


async def test_the_newest_of_many_lost_attempts_are_named(room: BusRoom) -> None:
    await executing(room)
    for _ in range(6):
        await room.retry("t")
        await room.start("v", "t")
    await room.retry("t")
    assert [one["epoch"] for one in (await room.given("v")).salvage] == [7, 6, 5, 4, 3]


async def test_every_sign_of_life_of_the_holder_renews_its_lease(room: BusRoom) -> None:
    await executing(room)
    for sign in (
        lambda: room.beat("v"),
        lambda: room.say(MessageType.HEARTBEAT, "v", context_usage=0.1, current_step=None),
        lambda: room.say(MessageType.PROGRESS, "v"),
        lambda: room.say(MessageType.PROGRESS, "v", payload={"state": "verifying"}),
    ):
        await room.pass_seconds(LEASE - 1)
        await sign()
        assert await lease_left(room) == LEASE
    assert (await room.show("t")).epoch == 1


async def test_a_poll_while_executing_does_not_renew_the_lease(room: BusRoom) -> None:
    """A worker that crashed and came back polls: it must not keep what it has forgotten."""
    await executing(room)
    await room.pass_seconds(LEASE - 1)
    await room.look("v")
    await room.pass_seconds(1)
    assert (await room.show("t")).status == "queued"


async def test_a_launcher_can_ask_for_a_shorter_lease(room: BusRoom) -> None:
    await executing(room)
    answer = await room.beat("v", lease_seconds=5)
    assert answer.lease_expires_at == room.clock.now_ms + 5000
    await room.pass_seconds(4)
    await room.beat("v")  # keeps the length that was asked for
    assert await lease_left(room) == 5
    await room.pass_seconds(5)
    assert (await room.show("t")).status == "queued"


async def test_a_short_lease_asked_for_before_the_acknowledgement_counts_after_it(
    room: BusRoom,
) -> None:
    await room.register("v")
    await room.add_and_submit("t")
    await room.beat("v", lease_seconds=5)
    assert await lease_left(room) == OFFER
    assert (await room.ack("v", "t")).lease_expires_at == room.clock.now_ms + 5000


async def test_a_blocked_worker_has_a_long_lease(room: BusRoom) -> None:
    await executing(room)
    await room.say(MessageType.BLOCKED, "v", payload={"question": "which?"})
    assert await lease_left(room) == BLOCKED_LEASE
    await room.pass_seconds(BLOCKED_LEASE - 1)
    assert (await room.show("t")).state == "blocked"
    await room.beat("v")  # a sign of life must not shorten it
    assert await lease_left(room) == BLOCKED_LEASE
    await room.pass_seconds(BLOCKED_LEASE)
    assert (await room.show("t")).status == "queued"


async def test_a_blocked_worker_whose_launcher_beats_keeps_the_launchers_lease(
    room: BusRoom,
) -> None:
    await executing(room)
    await room.beat("v", lease_seconds=30)
    await room.say(MessageType.BLOCKED, "v", payload={"question": "which?"})
    await room.beat("v")
    assert await lease_left(room) == 30


async def test_an_answer_starts_the_usual_lease_again(room: BusRoom) -> None:
    await executing(room)
    question = (await room.say(MessageType.BLOCKED, "v", payload={"question": "?"})).question_id
    assert question is not None
    await room.pass_seconds(LEASE * 2)
    await room.desk.answer_question(AnswerQuestionRequest(question_id=question, answer="yes"))
    assert ((await room.show("t")).state, await lease_left(room)) == ("executing", LEASE)


async def test_a_worker_that_waits_with_a_full_context_has_no_lease(room: BusRoom) -> None:
    await executing(room)
    await room.say(MessageType.CONTEXT_THRESHOLD, "v", payload={"task_id": "t"})
    assert await lease_left(room) is None
    for _ in range(3):
        await room.pass_seconds(BLOCKED_LEASE)
        await room.beat("v")
    view = await room.show("t")
    assert (view.status, view.state, view.epoch, await lease_left(room)) == (
        "queued",
        "waiting",
        1,
        None,
    )
    assert (await room.rows()).ready == {0: 1}


async def test_what_an_old_epoch_says_is_refused_and_changes_nothing(room: BusRoom) -> None:
    old = await executing(room)
    await room.register("w")
    await room.retry("t")
    await room.given("w")
    before = await room.rows()
    with pytest.raises(StaleEpoch):
        await room.done("t", "v", old)
    await room.ack("w", "t")
    before = await room.rows()
    for name in ("v", None):
        with pytest.raises(StaleEpoch):
            await room.done("t", name, old)
    with pytest.raises(NotHeld):
        await room.done("t", "v")
    with pytest.raises(TaskMismatch):
        await room.ack("v", "t", old)
    with pytest.raises(StaleEpoch):
        await room.beat("w", epoch=old)
    with pytest.raises(StaleEpoch):
        await room.say(MessageType.PROGRESS, "w", payload={"epoch": old})
    assert (await room.beat("v", epoch=old)).bead_id is None
    assert await room.rows() == before


async def test_a_lost_worker_that_reports_before_anybody_took_its_task_is_refused(
    room: BusRoom,
) -> None:
    epoch = await executing(room)
    await room.pass_seconds(LEASE)
    before = await room.rows()
    with pytest.raises(NotHeld):
        await room.done("t", "v", epoch)
    assert await room.rows() == before


@pytest.mark.requirement("BUS-08")
async def test_a_restart_of_the_coordinator_keeps_everything(store_address: str) -> None:
    clock = StillClock()
    async with bus_room(store_address, clock) as room:
        await executing(room, "t", "v")
        await room.say(MessageType.PROGRESS, "v", payload={"commit": "abc1234"})
        await executing(room, "blocked", "b")
        asked = await room.say(MessageType.BLOCKED, "b", payload={"question": "which?"})
        await room.register("w")
        await room.add_and_submit("offered", "queued")
        await room.add("open")
        before = await room.rows()
        status = [await room.worker(name) for name in ("b", "v", "w")]
    async with bus_room(store_address, clock) as room:
        assert await room.rows() == before
        assert [await room.worker(name) for name in ("b", "v", "w")] == status
        assert (await room.submit("queued")).position == 1
        assert (await room.given("w")).bead_id == "offered"
        await room.pass_seconds(LEASE)
        assert asked.question_id is not None
        await room.desk.answer_question(
            AnswerQuestionRequest(question_id=asked.question_id, answer="this")
        )
        assert [one["answer"] for one in (await room.beat("b")).answers] == ["this"]
        await room.register("x")
        task = await room.given("x")
        assert [one["commits"] for one in task.salvage] == [["abc1234"]]


async def test_the_duty_ends_a_short_lease_long_before_its_longest_sleep(
    store_address: str,
) -> None:
    """With the real clock: the heartbeat that shortens the lease wakes the lease keeper."""
    coordinator = Coordinator(store_at(store_address))
    await coordinator.start()
    try:
        room = BusRoom(coordinator, StillClock())
        await executing(room)
        heard = coordinator.hub.subscribe(SWARM)
        answer = await coordinator.bus.heartbeat(HeartbeatRequest(name="v", lease_seconds=5))
        assert answer.lease_expires_at is not None
        frames = b""
        async with asyncio.timeout(15):
            while b"lease_expired" not in frames:
                await heard.wait(15)
                frames += b"".join(frame for _, frame in heard.take())
        assert coordinator.clock() >= answer.lease_expires_at
    finally:
        await coordinator.stop()


@pytest.mark.requirement("BUS-08", "BUS-09")
async def test_a_lease_that_ran_out_while_no_server_was_there_gets_a_grace(
    store_address: str,
) -> None:
    clock = StillClock()
    async with bus_room(store_address, clock) as room:
        await room.register("v", "w")
        await room.add_and_submit("t")
        await room.start("v", "t")
        await room.beat("v", lease_seconds=5)
    clock.now_ms += 3_600_000
    async with bus_room(store_address, clock) as room:
        await room.pass_seconds(4)
        await room.beat("v")
        await room.pass_seconds(4)
        await room.done("t", name="v", epoch=1)
        assert (await room.show("t")).status == "done"


@pytest.mark.requirement("WP-05")
async def test_retries_of_a_failed_task_count_failures_and_not_attempts(room: BusRoom) -> None:
    await room.register("v")
    await room.add_and_submit("t")
    for _ in range(3):
        await room.start("v", "t")
        await room.retry("t")
    for number in range(1, 4):
        await room.start("v", "t")
        await room.say(
            MessageType.FAILED,
            "v",
            task_id="t",
            error="no",
            recoverable=True,
            checkpoint_path="/left",
        )
        assert (await room.show("t")).status == ("active" if number < 3 else "failed")
        if number < 3:
            given = await room.given("v")
            assert given.checkpoint is not None
            assert given.checkpoint["checkpoint_path"] == "/left"
