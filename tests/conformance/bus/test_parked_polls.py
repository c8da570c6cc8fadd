"""Polls that wait, on both stores. The clock stands still: nothing but the deed can wake them."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.errors import UnknownWorker
from shiftboss.protocol.bus import AnswerQuestionRequest, PollAnswer, PollRequest
from shiftboss.protocol.messages import MessageType
from tests.conformance.bus.bus_fixtures import SWARM, BusRoom, StillClock, bus_room
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-03")]

TIMEOUT = PollAnswer(task=None, timeout=True)


async def parked(room: BusRoom, name: str) -> asyncio.Task[PollAnswer]:
    """A poll for ten minutes, once the store has had nothing for it."""
    request = PollRequest(name=name, timeout_ms=600_000)
    poll = asyncio.ensure_future(room.desk.poll_task(request))
    await eventually(lambda: name in room.coordinator.hub.polling(SWARM), f"{name} polls")
    await room.look(name)  # writes follow each other: the other poll's look is behind it
    assert not poll.done()
    return poll


async def answer_of(poll: asyncio.Task[PollAnswer]) -> PollAnswer:
    async with asyncio.timeout(10):
        return await poll


async def task_of(poll: asyncio.Task[PollAnswer]) -> str:
    task = (await answer_of(poll)).task
    assert task is not None
    return task.bead_id


async def test_a_parked_poll_is_woken_by_the_submit_itself(room: BusRoom) -> None:
    await room.register("v")
    await room.add("t")
    poll = await parked(room, "v")
    answer = await room.submit("t")
    task = (await answer_of(poll)).task
    assert task is not None
    assert (answer.worker, task.bead_id, task.assigned_at) == ("v", "t", room.clock.now_ms)
    assert (await room.worker("v")).status == "pending"
    assert task == await room.given("v")  # the event said all that the store would have


async def test_only_the_worker_that_is_given_the_task_wakes(room: BusRoom) -> None:
    await room.register("v", "w")
    await room.add("t", "u")
    first, second = await parked(room, "v"), await parked(room, "w")
    await room.submit("t")
    assert await task_of(first) == "t"
    assert not second.done()
    await room.submit("u")
    assert await task_of(second) == "u"


async def test_all_polls_of_one_name_hear_of_the_task(room: BusRoom) -> None:
    await room.register("v")
    await room.add("t")
    polls = [await parked(room, "v") for _ in range(3)]
    await room.submit("t")
    assert [await task_of(poll) for poll in polls] == ["t"] * 3


async def test_a_poll_while_executing_is_woken_when_the_worker_is_given_the_next_task(
    room: BusRoom,
) -> None:
    await room.register("v")
    await room.add_and_submit("t", "next")
    await room.start("v", "t")
    poll = await parked(room, "v")
    assert (await room.worker("v")).status == "executing"
    await room.done("t")
    assert await task_of(poll) == "next"


@pytest.mark.requirement("BUS-07")
async def test_a_reset_wakes_the_poll_and_keeps_what_is_offered_next(room: BusRoom) -> None:
    await room.register("v")
    await room.add_and_submit("t")
    await room.start("v", "t")
    poll = await parked(room, "v")
    await room.reset("v")
    assert await answer_of(poll) == TIMEOUT.model_copy(update={"reset": True})
    assert (await room.given("v")).epoch == 2


@pytest.mark.requirement("WP-07")
async def test_an_answer_wakes_the_poll_of_the_worker_that_asked(room: BusRoom) -> None:
    await room.register("v")
    await room.add_and_submit("t")
    await room.start("v", "t")
    asked = await room.say(MessageType.BLOCKED, "v", payload={"question": "which?"})
    poll = await parked(room, "v")
    assert asked.question_id is not None
    await room.desk.answer_question(
        AnswerQuestionRequest(question_id=asked.question_id, answer="this")
    )
    woken = await answer_of(poll)
    assert woken.answers == [{"question_id": 1, "question": "which?", "answer": "this"}]
    assert woken == await room.look("v")


@pytest.mark.requirement("BUS-09")
async def test_a_lapsed_offer_wakes_the_poll_of_the_next_worker(room: BusRoom) -> None:
    await room.register("v", "w")
    await room.add_and_submit("t")
    poll = await parked(room, "w")
    await room.pass_seconds(60)
    assert await task_of(poll) == "t"


async def test_a_poll_that_is_given_up_leaves_nothing_behind(room: BusRoom) -> None:
    await room.register("v")
    poll = await parked(room, "v")
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    assert room.coordinator.hub.polling(SWARM) == frozenset()
    with pytest.raises(UnknownWorker):
        await room.look("nobody")
    assert room.coordinator.hub.polling(SWARM) == frozenset()


@pytest.mark.requirement("BUS-08")
async def test_a_coordinator_that_stops_answers_its_parked_polls(store_address: str) -> None:
    async with bus_room(store_address) as room:
        await room.register("v", "w")
        polls = [await parked(room, name) for name in ("v", "w")]
    assert [await answer_of(poll) for poll in polls] == [TIMEOUT, TIMEOUT]


async def test_a_submit_on_one_server_wakes_a_poll_on_another(postgres_url: str) -> None:
    clock = StillClock()
    async with bus_room(postgres_url, clock) as here, bus_room(postgres_url, clock) as there:
        await here.register("v")
        await here.add("t")
        poll = await parked(there, "v")
        await here.submit("t")
        assert await task_of(poll) == "t"
        await there.ack("v", "t")
        await here.done("t", "v", 1)


@pytest.mark.requirement("BUS-03", "BUS-09")
async def test_a_parked_poll_whose_worker_lost_its_task_gets_the_next_one(room: BusRoom) -> None:
    await room.register("v")
    await room.add_and_submit("t")
    await room.start("v", "t")
    await room.beat("v", lease_seconds=5)
    poll = await parked(room, "v")
    await room.pass_seconds(6)
    task = (await answer_of(poll)).task
    assert task is not None
    assert (task.bead_id, task.epoch) == ("t", 2)


@pytest.mark.requirement("BUS-03", "WP-06")
async def test_a_parked_poll_whose_task_was_taken_over_gets_the_next_one(room: BusRoom) -> None:
    await room.register("v")
    await room.add_and_submit("t")
    await room.start("v", "t")
    poll = await parked(room, "v")
    await room.say(MessageType.CONTEXT_THRESHOLD, "v")
    await room.register("w")
    assert (await room.given("w")).bead_id == "t"
    await room.add_and_submit("next")
    task = (await answer_of(poll)).task
    assert task is not None
    assert task.bead_id == "next"
