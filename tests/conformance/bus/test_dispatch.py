"""Who gets which task, and when, on both stores."""

from __future__ import annotations

import pytest

from shiftboss.errors import InvalidRequest, TaskEnded, TaskExists, UnknownTask
from shiftboss.protocol.bus import AddTaskRequest
from shiftboss.protocol.messages import MessageType
from tests.conformance.bus.bus_fixtures import BusRoom

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("BUS-04")
async def test_the_least_recently_used_worker_gets_the_task(room: BusRoom) -> None:
    await room.register("c", "a", "b")
    await room.add("t1", "t2", "t3", "t4", "t5")
    assert [(await room.submit(f"t{n}")).worker for n in (1, 2, 3)] == ["c", "a", "b"]
    for worker, task in (("a", "t2"), ("b", "t3"), ("c", "t1")):
        await room.start(worker, task)
        room.clock.now_ms += 1
        await room.done(task)
    assert [(await room.submit(f"t{n}")).worker for n in (4, 5)] == ["a", "b"]


@pytest.mark.requirement("BUS-04")
async def test_workers_of_the_same_age_are_taken_by_name(room: BusRoom) -> None:
    for name in ("b", "a"):
        await room.register(name)
        room.clock.now_ms -= 1
    await room.add("t")
    assert (await room.submit("t")).worker == "a"


@pytest.mark.requirement("BUS-04")
async def test_the_queue_is_in_order_of_priority_then_age(room: BusRoom) -> None:
    for name, priority in (("z", 0), ("low", -5), ("a", 0), ("high", 7), ("m", 0), ("top", 7)):
        await room.add(name, priority=priority)
        await room.submit(name)
    await room.register("w")
    order = []
    for _ in range(6):
        task = (await room.given("w")).bead_id
        order.append(task)
        await room.ack("w", task)
        await room.done(task)
    assert order == ["high", "top", "z", "a", "m", "low"]


@pytest.mark.requirement("BUS-04")
async def test_the_position_is_how_many_are_handed_out_up_to_this_one(room: BusRoom) -> None:
    async def position(name: str, priority: int = 0) -> int | None:
        await room.add(name, priority=priority)
        answer = await room.submit(name)
        assert (answer.dispatched, answer.worker, answer.queued) == (False, None, True)
        return answer.position

    assert [await position("a"), await position("b"), await position("c")] == [1, 2, 3]
    assert await position("first", priority=1) == 1
    assert await position("last", priority=-1) == 5
    again = {name: (await room.submit(name)).position for name in ("a", "b", "c", "first", "last")}
    assert again == {"first": 1, "a": 2, "b": 3, "c": 4, "last": 5}


@pytest.mark.requirement("BUS-04")
@pytest.mark.parametrize("apart_ms", [0, 1])
async def test_tasks_that_come_back_are_first_in_the_order_of_their_age(
    room: BusRoom, apart_ms: int
) -> None:
    """They were handed out at once and have never been queued."""
    await room.register("v", "w")
    for name in ("b", "a", "later"):
        await room.add_and_submit(name)
        room.clock.now_ms += apart_ms
    await room.start("v", "b")
    await room.start("w", "a")
    await room.pass_seconds(1800)
    order = ["b", "a", "later"] if apart_ms else ["a", "b", "later"]
    assert [(await room.submit(name)).position for name in order] == [1, 2, 3]
    for name in order:
        assert (await room.given("v")).bead_id == name
        await room.ack("v", name)
        await room.done(name)


@pytest.mark.requirement("BUS-04")
async def test_a_failed_task_that_is_submitted_again_is_told_its_true_position(
    room: BusRoom,
) -> None:
    await room.register("w")
    await room.add_and_submit("t", "x", "y")
    await room.start("w", "t")
    await room.failed("t")  # the worker is given x at once
    answer = await room.submit("t")
    assert (answer.queued, answer.position) == (True, 1)
    assert (await room.submit("y")).position == 2


@pytest.mark.requirement("BUS-04")
async def test_a_task_waits_for_all_it_depends_on(room: BusRoom) -> None:
    """A diamond: the base, two sides, the top."""
    await room.register("v", "w")
    await room.add("base")
    await room.add("left", "right", after=["base"])
    await room.add("top", after=["left", "right"])
    answer = await room.submit("top")
    assert (answer.dispatched, answer.position) == (False, None)
    assert answer.waits_for == ["left", "right"]
    assert (await room.submit("right")).waits_for == ["base"]
    assert (await room.submit("left")).waits_for == ["base"]
    assert (await room.look("v")).task is None
    assert (await room.submit("base")).worker == "v"
    await room.start("v", "base")
    await room.done("base")
    held = {(await room.given(name)).bead_id: name for name in ("v", "w")}
    assert sorted(held) == ["left", "right"]
    for task, last in (("left", False), ("right", True)):
        await room.ack(held[task], task)
        await room.done(task)
        assert ((await room.show("top")).status == "active") is last
    await room.start((await room.show("top")).worker or "", "top")
    await room.done("top")
    assert (await room.show("top")).status == "done"


@pytest.mark.requirement("BUS-04")
async def test_a_failed_or_cancelled_dependency_keeps_its_dependents_waiting(
    room: BusRoom,
) -> None:
    await room.register("w")
    await room.add("one", "two")
    await room.add("after-one", after=["one"])
    await room.add("after-two", after=["two"])
    for name in ("after-one", "after-two", "one"):
        await room.submit(name)
    await room.start("w", "one")
    await room.failed("one")
    assert await room.cancel("two") == "cancelled"
    assert (await room.look("w")).task is None
    assert (await room.submit("after-one")).waits_for == ["one"]
    assert (await room.submit("after-two")).waits_for == ["two"]
    assert await room.retry("one") == "active"
    await room.start("w", "one")
    await room.done("one")
    assert (await room.given("w")).bead_id == "after-one"


@pytest.mark.requirement("BUS-04")
async def test_a_task_added_after_its_dependency_is_done_does_not_wait(room: BusRoom) -> None:
    await room.register("w")
    await room.add_and_submit("one")
    await room.start("w", "one")
    await room.done("one")
    await room.add("two", after=["one"])
    assert (await room.submit("two")).dispatched


@pytest.mark.requirement("BUS-04")
async def test_dependencies_must_exist_so_there_is_no_circle(room: BusRoom) -> None:
    with pytest.raises(UnknownTask) as unknown:
        await room.add("t", after=["none"])
    assert unknown.value.field == "depends_on"
    with pytest.raises(InvalidRequest):
        await room.add("t", after=["t"])
    with pytest.raises(InvalidRequest):
        await room.add("packet-1")
    assert (await room.rows()).tasks == {}


async def test_adding_the_same_task_again_changes_nothing_and_another_is_refused(
    room: BusRoom,
) -> None:
    await room.add("a", "b")
    request = AddTaskRequest(bead_id="t", title="T", depends_on=["b", "a", "b"])
    first = await room.desk.add_task(request)
    assert first.depends_on == ["a", "b"]
    room.clock.now_ms += 5
    assert await room.desk.add_task(request) == first
    for changed in ({"title": "U"}, {"priority": 1}, {"depends_on": ["a"]}, {"description": "d"}):
        with pytest.raises(TaskExists):
            await room.desk.add_task(request.model_copy(update=changed))
    assert (await room.kinds("t")).count("task_added") == 1


@pytest.fixture
async def busy(room: BusRoom) -> BusRoom:
    """`w` executes `held`, and `next` waits."""
    await room.register("w")
    await room.add_and_submit("held", "next")
    await room.start("w", "held")
    return room


@pytest.mark.requirement("BUS-04")
async def test_a_worker_that_registers_is_given_what_waits(busy: BusRoom) -> None:
    await busy.register("x")
    assert (await busy.show("next")).worker == "x"


@pytest.mark.requirement("BUS-04", "BUS-06")
async def test_a_worker_that_is_done_is_given_what_waits(busy: BusRoom) -> None:
    await busy.done("held")
    assert (await busy.show("next")).worker == "w"


@pytest.mark.requirement("BUS-04", "BUS-06")
async def test_a_worker_that_failed_is_given_what_waits(busy: BusRoom) -> None:
    await busy.failed("held")
    assert (await busy.show("next")).worker == "w"
    assert (await busy.show("held")).status == "failed"


@pytest.mark.requirement("BUS-04")
async def test_a_worker_whose_task_is_cancelled_is_given_what_waits(busy: BusRoom) -> None:
    await busy.cancel("held")
    assert (await busy.show("next")).worker == "w"


@pytest.mark.requirement("BUS-04", "BUS-07")
async def test_a_worker_that_is_reset_gets_the_oldest_task_which_may_be_its_own(
    busy: BusRoom,
) -> None:
    await busy.reset("w")
    task = await busy.given("w")
    assert (task.bead_id, task.epoch) == ("held", 2)
    assert [one["reason"] for one in task.salvage] == ["reset"]


@pytest.mark.requirement("BUS-04", "BUS-09")
async def test_the_end_of_a_lease_gives_the_task_to_another(busy: BusRoom) -> None:
    await busy.cancel("next")
    await busy.pass_seconds(900)
    await busy.register("x")
    await busy.pass_seconds(900)
    assert (await busy.show("held")).worker == "x"


@pytest.mark.requirement("BUS-04", "BUS-09")
async def test_a_worker_that_let_an_offer_lapse_is_given_what_waits_when_it_polls(
    busy: BusRoom,
) -> None:
    await busy.register("x")  # and is given `next`
    await busy.pass_seconds(60)
    assert (await busy.show("next")).status == "queued"
    assert (await busy.given("x")).bead_id == "next"


@pytest.mark.requirement("BUS-07")
async def test_a_retry_ends_the_attempt_and_hands_the_task_out_again(room: BusRoom) -> None:
    await room.register("v", "w")
    await room.add_and_submit("t")
    assert await room.start("v", "t") == 1
    assert await room.retry("t") == "active"
    task = await room.given("w")
    assert (task.bead_id, task.epoch) == ("t", 2)
    assert task.salvage == [{"epoch": 1, "worker": "v", "reason": "retried", "commits": []}]
    assert (await room.worker("v")).status == "idle"


async def test_a_queued_task_that_is_retried_stays_where_it_is(room: BusRoom) -> None:
    await room.add_and_submit("a", "b")
    before = await room.rows()
    assert await room.retry("b") == "queued"
    assert await room.rows() == before


async def test_a_cancelled_task_is_over(room: BusRoom) -> None:
    await room.register("w")
    await room.add_and_submit("held", "queued")
    await room.add("open")
    await room.start("w", "held")
    for name in ("open", "queued", "held"):
        assert await room.cancel(name) == "cancelled"
        assert await room.cancel(name) == "cancelled"
        with pytest.raises(TaskEnded):
            await room.submit(name)
        with pytest.raises(TaskEnded):
            await room.retry(name)
    assert (await room.rows()).assignments == {}
    assert (await room.worker("w")).status == "idle"


async def test_what_is_done_cannot_be_cancelled(room: BusRoom) -> None:
    await room.register("w")
    await room.add_and_submit("t")
    await room.start("w", "t")
    await room.done("t")
    with pytest.raises(TaskEnded):
        await room.cancel("t")
    assert (await room.show("t")).status == "done"


@pytest.mark.requirement("WP-05")
async def test_an_assign_message_gives_a_task_to_a_worker_of_choice(room: BusRoom) -> None:
    await room.register("v", "w")
    await room.add("t")
    answer = await room.say(
        MessageType.ASSIGN,
        "w",
        task_id="t",
        spec_path="spec.md",
        worktree_path="/w",
        timeout_seconds=90,
    )
    assert (answer.state, answer.bead_id, answer.epoch) == ("assigned", "t", 1)
    assert (await room.look("v")).task is None
    lease = await room.ack("w", (await room.given("w")).bead_id)
    assert lease.lease_expires_at == room.clock.now_ms + 90_000
