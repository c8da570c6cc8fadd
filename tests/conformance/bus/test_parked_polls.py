"""Waiting polls, on both stores. The clock stands still: only the tested action can wake them."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.errors import UnknownWorker
from shiftboss.protocol.bus import PollAnswer, PollRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.questions import AnswerQuestionRequest
from tests.conformance.bus.bus_fixtures import SWARM, BusFixture, StillClock, open_bus
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-03")]

TIMEOUT = PollAnswer(task=None, timeout=True)


async def parked(bus: BusFixture, name: str) -> asyncio.Task[PollAnswer]:
    """A poll of ten minutes that has found nothing in the store."""
    request = PollRequest(name=name, timeout_ms=600_000)
    poll = asyncio.ensure_future(bus.bus_service.poll_task(request))
    await eventually(lambda: name in (bus.coordinator.hub.polling(SWARM) or ()), f"{name} polls")
    await bus.look(name)  # writes are sequential, so the other poll has queried the store by now
    assert not poll.done()
    return poll


async def answer_of(poll: asyncio.Task[PollAnswer]) -> PollAnswer:
    async with asyncio.timeout(30):
        return await poll


async def task_of(poll: asyncio.Task[PollAnswer]) -> str:
    task = (await answer_of(poll)).task
    assert task is not None
    return task.bead_id


async def test_a_submit_wakes_a_parked_poll_directly(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add("t")
    poll = await parked(bus, "v")
    answer = await bus.submit("t")
    task = (await answer_of(poll)).task
    assert task is not None
    assert (answer.worker, task.bead_id, task.assigned_at) == ("v", "t", bus.clock.now_ms)
    assert (await bus.worker("v")).status == "pending"
    assert task == await bus.given("v")  # the event had all that the store has


async def test_only_the_worker_that_gets_the_task_wakes(bus: BusFixture) -> None:
    await bus.register("v", "w")
    await bus.add("t", "u")
    first, second = await parked(bus, "v"), await parked(bus, "w")
    await bus.submit("t")
    assert await task_of(first) == "t"
    assert not second.done()
    await bus.submit("u")
    assert await task_of(second) == "u"


async def test_every_poll_of_the_same_worker_returns_the_task(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add("t")
    polls = [await parked(bus, "v") for _ in range(3)]
    await bus.submit("t")
    assert [await task_of(poll) for poll in polls] == ["t"] * 3


async def test_a_poll_made_while_executing_wakes_when_the_worker_gets_its_next_task(
    bus: BusFixture,
) -> None:
    await bus.register("v")
    await bus.add_and_submit("t", "next")
    await bus.start("v", "t")
    poll = await parked(bus, "v")
    assert (await bus.worker("v")).status == "executing"
    await bus.done("t")
    assert await task_of(poll) == "next"


@pytest.mark.requirement("BUS-07")
async def test_a_reset_wakes_the_poll_and_keeps_the_next_offer(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    await bus.start("v", "t")
    poll = await parked(bus, "v")
    await bus.reset("v")
    assert await answer_of(poll) == TIMEOUT.model_copy(update={"reset": True})
    assert (await bus.given("v")).epoch == 2


@pytest.mark.requirement("WP-07")
async def test_an_answer_wakes_the_poll_of_the_worker_that_asked(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    await bus.start("v", "t")
    asked = await bus.say(MessageType.BLOCKED, "v", payload={"question": "which?"})
    poll = await parked(bus, "v")
    assert asked.question_id is not None
    await bus.bus_service.answer_question(
        AnswerQuestionRequest(question_id=asked.question_id, answer="this")
    )
    woken = await answer_of(poll)
    assert woken.answers == [{"question_id": 1, "question": "which?", "answer": "this"}]
    assert woken == await bus.look("v")


@pytest.mark.requirement("BUS-09")
async def test_a_lapsed_offer_wakes_the_poll_of_the_next_worker(bus: BusFixture) -> None:
    await bus.register("v", "w")
    await bus.add_and_submit("t")
    await bus.given("v")
    poll = await parked(bus, "w")
    await bus.pass_seconds(60)
    assert await task_of(poll) == "t"


async def test_an_abandoned_poll_leaves_nothing_behind(bus: BusFixture) -> None:
    await bus.register("v")
    poll = await parked(bus, "v")
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert bus.coordinator.hub.polling(SWARM) == frozenset()
    with pytest.raises(UnknownWorker):
        await bus.look("nobody")
    assert bus.coordinator.hub.polling(SWARM) == frozenset()


@pytest.mark.requirement("BUS-08")
async def test_a_stopping_coordinator_answers_its_parked_polls(store_address: str) -> None:
    async with open_bus(store_address) as bus:
        await bus.register("v", "w")
        polls = [await parked(bus, name) for name in ("v", "w")]
    assert [await answer_of(poll) for poll in polls] == [TIMEOUT, TIMEOUT]


async def test_a_submit_on_one_server_wakes_a_poll_on_another(postgres_url: str) -> None:
    clock = StillClock()
    async with open_bus(postgres_url, clock) as here, open_bus(postgres_url, clock) as there:
        await here.register("v")
        await here.add("t")
        poll = await parked(there, "v")
        await here.submit("t")
        assert await task_of(poll) == "t"
        await there.ack("v", "t")
        await here.done("t", "v", 1)


@pytest.mark.requirement("BUS-03", "BUS-09")
async def test_a_parked_poll_whose_worker_lost_its_task_gets_the_next_one(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    await bus.start("v", "t")
    await bus.beat("v", lease_seconds=5)
    poll = await parked(bus, "v")
    await bus.pass_seconds(6)
    task = (await answer_of(poll)).task
    assert task is not None
    assert (task.bead_id, task.epoch) == ("t", 2)


@pytest.mark.requirement("BUS-03", "WP-06")
async def test_a_parked_poll_whose_task_was_taken_over_gets_the_next_one(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    await bus.start("v", "t")
    poll = await parked(bus, "v")
    await bus.say(MessageType.CONTEXT_THRESHOLD, "v")
    await bus.register("w")
    assert (await bus.given("w")).bead_id == "t"
    await bus.add_and_submit("next")
    task = (await answer_of(poll)).task
    assert task is not None
    assert task.bead_id == "next"
