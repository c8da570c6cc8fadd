"""Leases and epochs on both stores, with a clock moved by the test."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.coordinator.bus import task_endings
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.errors import NotHeld, StaleEpoch, TaskMismatch
from shiftboss.protocol.bus import HeartbeatRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.questions import AnswerQuestionRequest
from shiftboss.store.open_store import store_at
from tests.conformance.bus.bus_fixtures import SWARM, BusFixture, StillClock, open_bus

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-09")]

OFFER = 60
LEASE = 1800
BLOCKED_LEASE = 86_400


async def executing(bus: BusFixture, task: str = "t", worker: str = "v") -> int:
    await bus.register(worker)
    await bus.add_and_submit(task)
    return await bus.start(worker, task)


async def lease_left(bus: BusFixture, task: str = "t") -> float | None:
    """Seconds."""
    ends_at = (await bus.show(task)).lease_expires_at
    return None if ends_at is None else (ends_at - bus.clock.now_ms) / 1000


async def test_a_lapsed_offer_goes_to_another_worker(bus: BusFixture) -> None:
    await bus.register("v", "w")
    await bus.add_and_submit("t")
    assert (await bus.show("t")).worker == "v"
    await bus.pass_seconds(OFFER - 1)
    assert (await bus.show("t")).worker == "v"
    await bus.pass_seconds(1)
    task = await bus.given("w")
    assert (task.bead_id, task.epoch) == ("t", 2)
    assert task.salvage == []  # nobody had started
    with pytest.raises(TaskMismatch):
        await bus.ack("v", "t")


async def expire_seen(bus: BusFixture, epoch: int) -> bool:
    """What the reaper does with an attempt that it saw expired a moment ago."""
    now_ms = bus.clock.now_ms
    return await bus.coordinator.store.write(
        lambda tx: task_endings.expire(tx, SWARM, "t", epoch, now_ms), SWARM
    )


async def test_a_lease_that_was_renewed_after_the_reaper_looked_is_not_ended(
    bus: BusFixture,
) -> None:
    epoch = await executing(bus)
    bus.clock.now_ms += LEASE * 1000
    await bus.beat("v", epoch=epoch)
    assert not await expire_seen(bus, epoch)
    assert (await bus.show("t")).state == "executing"


async def test_an_attempt_that_is_newer_than_the_one_the_reaper_saw_is_not_ended(
    bus: BusFixture,
) -> None:
    epoch = await executing(bus)
    await bus.reset("v")
    assert await bus.start("v", "t") == epoch + 1
    bus.clock.now_ms += LEASE * 1000
    assert not await expire_seen(bus, epoch)
    assert (await bus.show("t")).epoch == epoch + 1
    assert await expire_seen(bus, epoch + 1)


async def test_a_worker_that_let_an_offer_lapse_gets_no_offers_until_it_is_heard_from(
    bus: BusFixture,
) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    await bus.pass_seconds(OFFER)
    await bus.add_and_submit("u")
    assert [(await bus.show(name)).status for name in ("t", "u")] == ["queued", "queued"]
    await bus.register("v")  # the worker is back
    assert (await bus.given("v")).bead_id == "t"


async def test_a_poll_redelivers_an_offer_and_restarts_its_lease(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    first = await bus.given("v")
    await bus.pass_seconds(OFFER - 1)
    second = await bus.given("v")
    assert second.lease_expires_at == first.lease_expires_at + (OFFER - 1) * 1000
    assert second.model_copy(update={"lease_expires_at": 0}) == first.model_copy(
        update={"lease_expires_at": 0}
    )
    await bus.pass_seconds(OFFER - 1)
    assert (await bus.ack("v", "t")).epoch == 1


async def test_a_heartbeat_does_not_extend_an_unacknowledged_offer(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    await bus.pass_seconds(OFFER - 1)
    await bus.beat("v")
    await bus.pass_seconds(1)
    assert (await bus.show("t")).status == "queued"


async def test_a_late_heartbeat_does_not_renew_the_next_task_of_its_worker(bus: BusFixture) -> None:
    """Each task counts its own attempts, so both are at epoch 1."""
    await executing(bus)
    await bus.cancel("t")
    await bus.add_and_submit("next")
    epoch = await bus.start("v", "next")
    await bus.pass_seconds(LEASE - 1)
    with pytest.raises(TaskMismatch):
        await bus.beat("v", bead_id="t", epoch=epoch)
    assert (await bus.beat("v", bead_id="next", epoch=epoch, lease_seconds=5)).bead_id == "next"
    await bus.pass_seconds(5)
    assert (await bus.show("next")).status == "queued"


async def test_a_heartbeat_for_a_task_of_nobody_is_refused(bus: BusFixture) -> None:
    await bus.register("v")
    with pytest.raises(TaskMismatch):
        await bus.beat("v", bead_id="t")


async def test_an_expired_lease_requeues_the_task_with_its_salvage(bus: BusFixture) -> None:
    await executing(bus)
    for commit in ("abc1234", "def5678", "abc1234"):
        await bus.say(MessageType.PROGRESS, "v", payload={"commit": commit})
    await bus.pass_seconds(LEASE - 1)
    assert (await bus.show("t")).status == "active"
    await bus.pass_seconds(1)
    assert (await bus.show("t")).status == "queued"
    assert (await bus.worker("v")).status == "idle"
    await bus.register("w")
    task = await bus.given("w")
    assert task.epoch == 2
    assert task.salvage == [
        {
            "epoch": 1,
            "worker": "v",
            "reason": "lease_expired",
            "commits": ["abc1234", "def5678"],
        }
    ]


async def test_the_next_attempt_is_given_the_salvage_of_a_failed_one(bus: BusFixture) -> None:
    await executing(bus)
    await bus.say(MessageType.PROGRESS, "v", payload={"commit": "abc1234"})
    await bus.failed("t")
    assert await bus.retry("t") == "active"
    assert (await bus.given("v")).salvage == [
        {"epoch": 1, "worker": "v", "reason": "failed", "commits": ["abc1234"]}
    ]


async def test_salvage_lists_only_the_newest_lost_attempts(bus: BusFixture) -> None:
    await executing(bus)
    for _ in range(6):
        await bus.retry("t")
        await bus.start("v", "t")
    await bus.retry("t")
    assert [entry["epoch"] for entry in (await bus.given("v")).salvage] == [7, 6, 5, 4, 3]


async def test_every_message_from_the_holder_renews_its_lease(bus: BusFixture) -> None:
    await executing(bus)
    for sign in (
        lambda: bus.beat("v"),
        lambda: bus.say(MessageType.HEARTBEAT, "v", context_usage=0.1, current_step=None),
        lambda: bus.say(MessageType.PROGRESS, "v"),
        lambda: bus.say(MessageType.PROGRESS, "v", payload={"state": "verifying"}),
    ):
        await bus.pass_seconds(LEASE - 1)
        await sign()
        assert await lease_left(bus) == LEASE
    assert (await bus.show("t")).epoch == 1


async def test_a_poll_while_executing_does_not_renew_the_lease(bus: BusFixture) -> None:
    """A worker polls after a crash: it must not keep a task it has forgotten."""
    await executing(bus)
    await bus.pass_seconds(LEASE - 1)
    await bus.look("v")
    await bus.pass_seconds(1)
    assert (await bus.show("t")).status == "queued"


async def test_a_launcher_can_request_a_shorter_lease(bus: BusFixture) -> None:
    await executing(bus)
    answer = await bus.beat("v", lease_seconds=5)
    assert answer.lease_expires_at == bus.clock.now_ms + 5000
    await bus.pass_seconds(4)
    await bus.beat("v")  # keeps the requested length
    assert await lease_left(bus) == 5
    await bus.pass_seconds(5)
    assert (await bus.show("t")).status == "queued"


async def test_a_short_lease_requested_before_the_acknowledgement_applies_after_it(
    bus: BusFixture,
) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    await bus.beat("v", lease_seconds=5)
    assert await lease_left(bus) == OFFER
    assert (await bus.ack("v", "t")).lease_expires_at == bus.clock.now_ms + 5000


async def test_a_blocked_worker_has_a_long_lease(bus: BusFixture) -> None:
    await executing(bus)
    await bus.say(MessageType.BLOCKED, "v", payload={"question": "which?"})
    assert await lease_left(bus) == BLOCKED_LEASE
    await bus.pass_seconds(BLOCKED_LEASE - 1)
    assert (await bus.show("t")).state == "blocked"
    await bus.beat("v")  # a heartbeat must not shorten it
    assert await lease_left(bus) == BLOCKED_LEASE
    await bus.pass_seconds(BLOCKED_LEASE)
    assert (await bus.show("t")).status == "queued"


async def test_heartbeats_of_its_launcher_keep_a_blocked_worker_on_the_launchers_lease(
    bus: BusFixture,
) -> None:
    await executing(bus)
    await bus.beat("v", lease_seconds=30)
    await bus.say(MessageType.BLOCKED, "v", payload={"question": "which?"})
    await bus.beat("v")
    assert await lease_left(bus) == 30


async def test_an_answer_restarts_the_normal_lease(bus: BusFixture) -> None:
    await executing(bus)
    question = (await bus.say(MessageType.BLOCKED, "v", payload={"question": "?"})).question_id
    assert question is not None
    await bus.pass_seconds(LEASE * 2)
    await bus.bus_service.answer_question(AnswerQuestionRequest(question_id=question, answer="yes"))
    assert ((await bus.show("t")).state, await lease_left(bus)) == ("executing", LEASE)


async def test_a_worker_waiting_with_a_full_context_has_no_lease(bus: BusFixture) -> None:
    await executing(bus)
    await bus.say(MessageType.CONTEXT_THRESHOLD, "v", payload={"task_id": "t"})
    assert await lease_left(bus) is None
    for _ in range(3):
        await bus.pass_seconds(BLOCKED_LEASE)
        await bus.beat("v")
    view = await bus.show("t")
    assert (view.status, view.state, view.epoch, await lease_left(bus)) == (
        "queued",
        "waiting",
        1,
        None,
    )
    assert (await bus.rows()).ready == {0: 1}


async def test_messages_from_an_old_epoch_are_refused_and_change_nothing(bus: BusFixture) -> None:
    old = await executing(bus)
    await bus.register("w")
    await bus.retry("t")
    await bus.given("w")
    before = await bus.rows()
    with pytest.raises(StaleEpoch):
        await bus.done("t", "v", old)
    await bus.ack("w", "t")
    before = await bus.rows()
    for name in ("v", None):
        with pytest.raises(StaleEpoch):
            await bus.done("t", name, old)
    with pytest.raises(NotHeld):
        await bus.done("t", "v")
    with pytest.raises(TaskMismatch):
        await bus.ack("v", "t", old)
    with pytest.raises(StaleEpoch):
        await bus.beat("w", epoch=old)
    with pytest.raises(StaleEpoch):
        await bus.say(MessageType.PROGRESS, "w", payload={"epoch": old})
    with pytest.raises(StaleEpoch):
        await bus.beat("v", epoch=old)
    assert (await bus.beat("v")).bead_id is None
    assert await bus.rows() == before


async def test_a_report_from_a_lost_worker_is_refused_even_before_its_task_is_reassigned(
    bus: BusFixture,
) -> None:
    epoch = await executing(bus)
    await bus.pass_seconds(LEASE)
    before = await bus.rows()
    with pytest.raises(NotHeld):
        await bus.done("t", "v", epoch)
    assert await bus.rows() == before


@pytest.mark.requirement("BUS-08")
async def test_a_coordinator_restart_loses_nothing(store_address: str) -> None:
    clock = StillClock()
    async with open_bus(store_address, clock) as bus:
        await executing(bus, "t", "v")
        await bus.say(MessageType.PROGRESS, "v", payload={"commit": "abc1234"})
        await executing(bus, "blocked", "b")
        asked = await bus.say(MessageType.BLOCKED, "b", payload={"question": "which?"})
        await bus.register("w")
        await bus.add_and_submit("offered", "queued")
        await bus.add("open")
        before = await bus.rows()
        status = [await bus.worker(name) for name in ("b", "v", "w")]
    async with open_bus(store_address, clock) as bus:
        assert await bus.rows() == before
        assert [await bus.worker(name) for name in ("b", "v", "w")] == status
        assert (await bus.submit("queued")).position == 1
        assert (await bus.given("w")).bead_id == "offered"
        await bus.pass_seconds(LEASE)
        assert asked.question_id is not None
        await bus.bus_service.answer_question(
            AnswerQuestionRequest(question_id=asked.question_id, answer="this")
        )
        assert [answer["answer"] for answer in (await bus.beat("b")).answers] == ["this"]
        await bus.register("x")
        task = await bus.given("x")
        assert [entry["commits"] for entry in task.salvage] == [["abc1234"]]


async def test_the_duty_expires_a_short_lease_without_waiting_for_its_longest_sleep(
    store_address: str,
) -> None:
    """With the real clock: the heartbeat that shortens the lease wakes the lease keeper."""
    coordinator = Coordinator(store_at(store_address))
    await coordinator.start()
    try:
        bus = BusFixture(coordinator, StillClock())
        await executing(bus)
        heard = coordinator.hub.subscribe(SWARM)
        answer = await coordinator.bus.heartbeat(HeartbeatRequest(name="v", lease_seconds=5))
        assert answer.lease_expires_at is not None
        frames = b""
        async with asyncio.timeout(30):
            while b"lease_expired" not in frames:
                await heard.wait(15)
                frames += b"".join(frame for _, frame in heard.take())
        assert coordinator.clock() >= answer.lease_expires_at
    finally:
        await coordinator.stop()


@pytest.mark.requirement("BUS-08", "BUS-09")
async def test_a_lease_that_expired_while_the_server_was_down_gets_a_grace_period(
    store_address: str,
) -> None:
    clock = StillClock()
    async with open_bus(store_address, clock) as bus:
        await bus.register("v", "w")
        await bus.add_and_submit("t")
        await bus.start("v", "t")
        await bus.beat("v", lease_seconds=5)
    clock.now_ms += 3_600_000
    async with open_bus(store_address, clock) as bus:
        await bus.pass_seconds(4)
        await bus.beat("v")
        await bus.pass_seconds(4)
        await bus.done("t", name="v", epoch=1)
        assert (await bus.show("t")).status == "done"


@pytest.mark.requirement("WP-05")
async def test_the_retry_limit_counts_failures_and_not_attempts(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    for _ in range(3):
        await bus.start("v", "t")
        await bus.retry("t")
    for number in range(1, 4):
        await bus.start("v", "t")
        await bus.say(
            MessageType.FAILED,
            "v",
            task_id="t",
            error="no",
            recoverable=True,
            checkpoint_path="/left",
        )
        assert (await bus.show("t")).status == ("active" if number < 3 else "failed")
        if number < 3:
            given = await bus.given("v")
            assert given.checkpoint is not None
            assert given.checkpoint["checkpoint_path"] == "/left"
