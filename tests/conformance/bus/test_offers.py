"""Offers that no poll has received, on both stores and on two servers."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.errors import StaleEpoch, TaskMismatch
from shiftboss.protocol.bus import PollAnswer, PollRequest
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.questions import ListQuestionsRequest
from shiftboss.protocol.runs import PauseSwarmRequest, ResumeSwarmRequest
from tests.conformance.bus.bus_fixtures import SWARM, BusFixture, StillClock, open_bus
from tests.conformance.bus.test_parked_polls import answer_of, parked, task_of

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-19")]


async def given_to(polls: list[asyncio.Task[PollAnswer]]) -> list[tuple[str, int]]:
    """The tasks and epochs that the polls got."""
    answers = [await answer_of(poll) for poll in polls]
    return [(answer.task.bead_id, answer.task.epoch) for answer in answers if answer.task]


def polls_at_once(bus: BusFixture, *names: str) -> list[asyncio.Task[PollAnswer]]:
    return [asyncio.ensure_future(bus.look(name)) for name in names]


async def test_the_next_poll_takes_over_an_offer_that_no_poll_has_received(bus: BusFixture) -> None:
    await bus.register("gone", "w")
    await bus.add("t")
    assert (await bus.submit("t")).worker == "gone"
    task = await bus.given("w")
    assert (task.bead_id, task.epoch) == ("t", 2)
    with pytest.raises(TaskMismatch):
        await bus.ack("gone", "t")
    await bus.ack("w", "t", 2)
    with pytest.raises(StaleEpoch):
        await bus.done("t", "gone", 1)
    await bus.done("t", "w", 2)
    assert await bus.kinds("t") == [
        "task_added",
        "task_assigned",
        "attempt_ended",
        "task_assigned",
        "task_started",
        "task_done",
    ]


async def test_a_worker_whose_offer_was_taken_over_gets_tasks_again_when_it_polls(
    bus: BusFixture,
) -> None:
    await bus.register("away", "w")
    await bus.add("t", "u")
    await bus.submit("t")
    await bus.given("w")
    assert (await bus.submit("u")).worker is None
    assert (await bus.given("away")).bead_id == "u"


async def test_an_offer_that_a_poll_has_received_is_not_taken_over(bus: BusFixture) -> None:
    await bus.register("v", "w")
    await bus.add("t", "u")
    await bus.submit("t")
    assert (await bus.given("v")).bead_id == "t"
    assert (await bus.look("w")).task is None
    poll = await parked(bus, "w")
    assert (await bus.submit("u")).worker == "w"
    assert await task_of(poll) == "u"
    await bus.register("x")
    assert (await bus.look("x")).task is None
    assert (await bus.ack("v", "t")).epoch == (await bus.ack("w", "u")).epoch == 1


@pytest.mark.parametrize("count", [2, 8])
async def test_of_many_polls_exactly_one_takes_the_offer_over(bus: BusFixture, count: int) -> None:
    names = [f"w-{number}" for number in range(count)]
    await bus.register("gone", *names)
    await bus.add_and_submit("t")
    assert await given_to(polls_at_once(bus, *names)) == [("t", 2)]
    assert (await bus.show("t")).epoch == 2


async def test_of_many_polls_on_two_servers_exactly_one_takes_the_offer_over(
    postgres_url: str,
) -> None:
    clock = StillClock()
    async with open_bus(postgres_url, clock) as here, open_bus(postgres_url, clock) as there:
        names = [f"w-{number}" for number in range(8)]
        await here.register("gone", *names)
        for task in ("t1", "t2", "t3"):
            await here.add_and_submit(task)
            polls = polls_at_once(here, *names[::2]) + polls_at_once(there, *names[1::2])
            ((bead_id, epoch),) = await given_to(polls)
            holder = (await there.show(task)).worker
            assert (bead_id, holder in names) == (task, True)
            assert holder is not None
            await there.ack(holder, task, epoch)
            await here.done(task, holder, epoch)
            await here.register("gone")


async def test_an_offer_of_the_time_before_a_restart_is_taken_over_after_a_report(
    store_address: str,
) -> None:
    """The report tells the server that its worker is free; the offer it has read at its start."""
    clock = StillClock()
    async with open_bus(store_address, clock) as bus:
        await bus.register("gone", "w")
        await bus.add_and_submit("t")
        assert (await bus.show("t")).worker == "gone"
    async with open_bus(store_address, clock) as bus:
        await bus.add_and_submit("u")
        await bus.ack("w", (await bus.given("w")).bead_id)
        await bus.done("u", "w", 1)
        assert (await bus.given("w")).bead_id == "t"


async def test_a_report_at_one_server_and_an_offer_of_another(postgres_url: str) -> None:
    clock = StillClock()
    async with open_bus(postgres_url, clock) as here, open_bus(postgres_url, clock) as there:
        await here.register("gone", "w")
        await there.add("t", "u")
        await here.submit("u")
        worker = (await here.show("u")).worker
        assert worker == "gone"
        await here.ack("gone", (await here.given("gone")).bead_id)
        assert (await there.submit("t")).worker == "w"
        await here.done("u", "gone", 1)
        assert (await here.given("gone")).bead_id == "t"


async def test_a_poll_after_a_report_gets_the_task_that_another_server_has_just_assigned(
    postgres_url: str,
) -> None:
    """The report tells this server that its worker is free, and the task is announced."""
    clock = StillClock()
    async with open_bus(postgres_url, clock) as here, open_bus(postgres_url, clock) as there:
        await here.register("w")
        for number in range(20):
            task = f"t-{number}"
            await there.add_and_submit(task)
            await here.start("w", task)
            await here.done(task)


async def test_the_worker_itself_and_another_one_race_for_its_offer(bus: BusFixture) -> None:
    await bus.register("v", "w")
    for task in ("t1", "t2", "t3", "t4"):
        await bus.add_and_submit(task)
        ((bead_id, epoch),) = await given_to(polls_at_once(bus, "w", "v"))
        holder = (await bus.show(task)).worker
        assert bead_id == task
        assert holder is not None
        await bus.ack(holder, task, epoch)
        await bus.done(task, holder, epoch)


async def test_a_parked_poll_is_preferred_to_an_idle_worker_that_was_used_less_recently(
    bus: BusFixture,
) -> None:
    await bus.register("gone", "x", "w", "v")
    await bus.add("t", "u", "next")
    polls = [await parked(bus, name) for name in ("v", "w")]
    assert [(await bus.submit(task)).worker for task in ("t", "u")] == ["w", "v"]
    assert [await task_of(poll) for poll in polls] == ["u", "t"]
    assert (await bus.submit("next")).worker == "gone"


async def test_a_task_that_becomes_ready_goes_to_a_parked_poll(bus: BusFixture) -> None:
    await bus.register("v")
    await bus.add_and_submit("first")
    await bus.start("v", "first")
    await bus.add("then", after=["first"])
    await bus.submit("then")
    await bus.register("gone", "w")
    poll = await parked(bus, "w")
    await bus.done("first")
    assert await task_of(poll) == "then"


async def test_a_poll_that_is_parked_on_another_server_takes_an_offer_over(
    postgres_url: str,
) -> None:
    """No poll of the chosen worker comes. The parked one belongs to another server, which learns of
    the offer by its event."""
    clock = StillClock()
    async with open_bus(postgres_url, clock) as here, open_bus(postgres_url, clock) as there:
        await here.register("gone", "w")
        await here.add("t")
        poll = await parked(there, "w")
        assert (await here.submit("t")).worker == "gone"
        task = (await answer_of(poll)).task
        assert task is not None
        assert (task.bead_id, task.epoch) == ("t", 2)


async def test_a_poll_that_times_out_as_its_task_is_assigned_still_gets_it(bus: BusFixture) -> None:
    """The use case counts on the parked poll; its time is over before the event arrives."""
    await bus.register("v")
    for number in range(20):
        task = f"t-{number}"
        await bus.add(task)
        request = PollRequest(name="v", timeout_ms=1)
        poll = asyncio.ensure_future(bus.bus_service.poll_task(request))
        submit = asyncio.ensure_future(bus.submit(task))
        answer = await answer_of(poll)
        await submit
        offer = (await bus.rows()).assignments[task]
        assert (answer.task is not None) == offer.received
        await bus.start("v", task)
        await bus.done(task)


async def test_a_held_offer_is_left_to_its_worker(bus: BusFixture) -> None:
    await bus.register("v", "w")
    await bus.add_and_submit("t")
    runs = bus.coordinator.runs
    await runs.pause_swarm(PauseSwarmRequest(swarm_id=SWARM, reason="lunch"))
    assert (await bus.look("w")).task is None
    await runs.resume_swarm(ResumeSwarmRequest(swarm_id=SWARM))
    assert (await bus.given("w")).bead_id == "t"


async def test_an_order_of_the_orchestrator_is_left_to_its_worker(bus: BusFixture) -> None:
    await bus.register("v", "w")
    await bus.add("t")
    await bus.say(
        MessageType.ASSIGN,
        "v",
        task_id="t",
        spec_path="",
        worktree_path="/w",
        timeout_seconds=60,
    )
    assert (await bus.look("w")).task is None
    assert (await bus.given("v")).worktree_path == "/w"


async def test_an_offer_taken_over_keeps_the_question_of_an_earlier_attempt(
    bus: BusFixture,
) -> None:
    await bus.register("v")
    await bus.add_and_submit("t")
    await bus.start("v", "t")
    await bus.say(MessageType.BLOCKED, "v", payload={"question": "which?"})
    await bus.failed("t")
    await bus.register("gone")
    await bus.retry("t")
    holder = (await bus.show("t")).worker
    await bus.given("gone" if holder == "v" else "v")
    questions = await bus.bus_service.list_questions(ListQuestionsRequest(swarm_id=SWARM))
    assert [question.question for question in questions.questions] == ["which?"]


async def test_a_worker_that_comes_back_takes_an_offer_over_and_is_available_again(
    bus: BusFixture,
) -> None:
    await bus.register("v", "w", "x")
    await bus.add_and_submit("t")
    await bus.given("w")  # the offer of v is taken over
    await bus.add_and_submit("u")
    assert (await bus.show("u")).worker == "x"
    assert (await bus.given("v")).bead_id == "u"
    assert (await bus.rows()).workers["v"].available


async def test_a_worker_takes_over_a_later_offer_than_that_of_the_task_it_gave_away(
    bus: BusFixture,
) -> None:
    await bus.register("full")
    await bus.add_and_submit("t")
    await bus.start("full", "t")
    await bus.say(MessageType.CONTEXT_THRESHOLD, "full", payload={"current_step": "x"})
    await bus.register("gone", "gone-too")
    bus.clock.now_ms += 1
    await bus.add_and_submit("u")
    assert [(await bus.show(task)).worker for task in ("t", "u")] == ["gone", "gone-too"]
    assert (await bus.given("full")).bead_id == "u"
    assert (await bus.show("t")).worker == "gone"
