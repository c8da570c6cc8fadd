"""Who gets which task, and when, on both stores."""

from __future__ import annotations

import pytest

from shiftboss.errors import InvalidRequest, TaskEnded, TaskExists, UnknownTask
from shiftboss.protocol.bus import AddTaskRequest
from shiftboss.protocol.messages import MessageType
from tests.conformance.bus.bus_fixtures import BusFixture

pytestmark = pytest.mark.anyio


@pytest.mark.requirement("BUS-04")
async def test_the_least_recently_used_worker_gets_the_task(bus: BusFixture) -> None:
    await bus.register("c", "a", "b")
    await bus.add("t1", "t2", "t3", "t4", "t5")
    assert [(await bus.submit(f"t{n}")).worker for n in (1, 2, 3)] == ["c", "a", "b"]
    for worker, task in (("a", "t2"), ("b", "t3"), ("c", "t1")):
        await bus.start(worker, task)
        bus.clock.now_ms += 1
        await bus.done(task)
    assert [(await bus.submit(f"t{n}")).worker for n in (4, 5)] == ["a", "b"]


@pytest.mark.requirement("BUS-04")
async def test_workers_of_the_same_age_are_chosen_by_name(bus: BusFixture) -> None:
    for name in ("b", "a"):
        await bus.register(name)
        bus.clock.now_ms -= 1
    await bus.add("t")
    assert (await bus.submit("t")).worker == "a"


@pytest.mark.requirement("BUS-04")
async def test_the_queue_is_ordered_by_priority_and_then_by_age(bus: BusFixture) -> None:
    for name, priority in (("z", 0), ("low", -5), ("a", 0), ("high", 7), ("m", 0), ("top", 7)):
        await bus.add(name, priority=priority)
        await bus.submit(name)
    await bus.register("w")
    order = []
    for _ in range(6):
        task = (await bus.given("w")).bead_id
        order.append(task)
        await bus.ack("w", task)
        await bus.done(task)
    assert order == ["high", "top", "z", "a", "m", "low"]


@pytest.mark.requirement("BUS-04")
async def test_the_position_counts_the_tasks_dispatched_up_to_and_including_this_one(
    bus: BusFixture,
) -> None:
    async def position(name: str, priority: int = 0) -> int | None:
        await bus.add(name, priority=priority)
        answer = await bus.submit(name)
        assert (answer.dispatched, answer.worker, answer.queued) == (False, None, True)
        return answer.position

    assert [await position("a"), await position("b"), await position("c")] == [1, 2, 3]
    assert await position("first", priority=1) == 1
    assert await position("last", priority=-1) == 5
    again = {name: (await bus.submit(name)).position for name in ("a", "b", "c", "first", "last")}
    assert again == {"first": 1, "a": 2, "b": 3, "c": 4, "last": 5}


@pytest.mark.requirement("BUS-04")
@pytest.mark.parametrize("apart_ms", [0, 1])
async def test_returned_tasks_go_to_the_front_of_the_queue_by_age(
    bus: BusFixture, apart_ms: int
) -> None:
    """They were dispatched directly and were never queued before."""
    await bus.register("v", "w")
    for name in ("b", "a", "later"):
        await bus.add_and_submit(name)
        bus.clock.now_ms += apart_ms
    await bus.start("v", "b")
    await bus.start("w", "a")
    await bus.pass_seconds(1800)
    order = ["b", "a", "later"] if apart_ms else ["a", "b", "later"]
    assert [(await bus.submit(name)).position for name in order] == [1, 2, 3]
    for name in order:
        assert (await bus.given("v")).bead_id == name
        await bus.ack("v", name)
        await bus.done(name)


@pytest.mark.requirement("BUS-04")
async def test_a_resubmitted_task_is_given_its_true_position(
    bus: BusFixture,
) -> None:
    await bus.register("w")
    await bus.add_and_submit("t", "x", "y")
    await bus.start("w", "t")
    await bus.failed("t")  # the worker gets x immediately
    answer = await bus.submit("t")
    assert (answer.queued, answer.position) == (True, 1)
    assert (await bus.submit("y")).position == 2


@pytest.mark.requirement("BUS-04")
async def test_a_task_waits_for_all_its_dependencies(bus: BusFixture) -> None:
    """A diamond of dependencies: base, two sides, top."""
    await bus.register("v", "w")
    await bus.add("base")
    await bus.add("left", "right", after=["base"])
    await bus.add("top", after=["left", "right"])
    answer = await bus.submit("top")
    assert (answer.dispatched, answer.position) == (False, None)
    assert answer.waits_for == ["left", "right"]
    assert (await bus.submit("right")).waits_for == ["base"]
    assert (await bus.submit("left")).waits_for == ["base"]
    assert (await bus.look("v")).task is None
    assert (await bus.submit("base")).worker == "v"
    await bus.start("v", "base")
    await bus.done("base")
    held = {(await bus.given(name)).bead_id: name for name in ("v", "w")}
    assert sorted(held) == ["left", "right"]
    for task, last in (("left", False), ("right", True)):
        await bus.ack(held[task], task)
        await bus.done(task)
        assert ((await bus.show("top")).status == "active") is last
    await bus.start((await bus.show("top")).worker or "", "top")
    await bus.done("top")
    assert (await bus.show("top")).status == "done"


@pytest.mark.requirement("BUS-04")
async def test_a_failed_or_cancelled_dependency_keeps_its_dependents_waiting(
    bus: BusFixture,
) -> None:
    await bus.register("w")
    await bus.add("one", "two")
    await bus.add("after-one", after=["one"])
    await bus.add("after-two", after=["two"])
    for name in ("after-one", "after-two", "one"):
        await bus.submit(name)
    await bus.start("w", "one")
    await bus.failed("one")
    assert await bus.cancel("two") == "cancelled"
    assert (await bus.look("w")).task is None
    assert (await bus.submit("after-one")).waits_for == ["one"]
    assert (await bus.submit("after-two")).waits_for == ["two"]
    assert await bus.retry("one") == "active"
    await bus.start("w", "one")
    await bus.done("one")
    assert (await bus.given("w")).bead_id == "after-one"


@pytest.mark.requirement("BUS-04")
async def test_a_task_added_after_its_dependency_is_done_does_not_wait(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("one")
    await bus.start("w", "one")
    await bus.done("one")
    await bus.add("two", after=["one"])
    assert (await bus.submit("two")).dispatched


@pytest.mark.requirement("BUS-04")
async def test_dependencies_must_exist_so_cycles_are_impossible(bus: BusFixture) -> None:
    with pytest.raises(UnknownTask) as unknown:
        await bus.add("t", after=["none"])
    assert unknown.value.field == "depends_on"
    with pytest.raises(InvalidRequest):
        await bus.add("t", after=["t"])
    with pytest.raises(InvalidRequest):
        await bus.add("packet-1")
    assert (await bus.rows()).tasks == {}


async def test_adding_a_task_again_changes_nothing_and_a_different_one_is_refused(
    bus: BusFixture,
) -> None:
    await bus.add("a", "b")
    request = AddTaskRequest(bead_id="t", title="T", depends_on=["b", "a", "b"])
    first = await bus.bus_service.add_task(request)
    assert first.depends_on == ["a", "b"]
    bus.clock.now_ms += 5
    assert await bus.bus_service.add_task(request) == first
    for changed in ({"title": "U"}, {"priority": 1}, {"depends_on": ["a"]}, {"description": "d"}):
        with pytest.raises(TaskExists):
            await bus.bus_service.add_task(request.model_copy(update=changed))
    assert (await bus.kinds("t")).count("task_added") == 1


@pytest.fixture
async def busy(bus: BusFixture) -> BusFixture:
    """`w` executes `held`, and `next` waits."""
    await bus.register("w")
    await bus.add_and_submit("held", "next")
    await bus.start("w", "held")
    return bus


@pytest.mark.requirement("BUS-04")
async def test_a_worker_that_registers_is_given_a_waiting_task(busy: BusFixture) -> None:
    await busy.register("x")
    assert (await busy.show("next")).worker == "x"


@pytest.mark.requirement("BUS-04", "BUS-06")
async def test_a_worker_that_is_done_is_given_a_waiting_task(busy: BusFixture) -> None:
    await busy.done("held")
    assert (await busy.show("next")).worker == "w"


@pytest.mark.requirement("BUS-04", "BUS-06")
async def test_a_worker_that_failed_is_given_a_waiting_task(busy: BusFixture) -> None:
    await busy.failed("held")
    assert (await busy.show("next")).worker == "w"
    assert (await busy.show("held")).status == "failed"


@pytest.mark.requirement("BUS-04")
async def test_a_worker_whose_task_is_cancelled_is_given_a_waiting_task(busy: BusFixture) -> None:
    await busy.cancel("held")
    assert (await busy.show("next")).worker == "w"


@pytest.mark.requirement("BUS-04", "BUS-07")
async def test_a_reset_worker_gets_the_oldest_task_even_if_it_was_its_own(
    busy: BusFixture,
) -> None:
    await busy.reset("w")
    task = await busy.given("w")
    assert (task.bead_id, task.epoch) == ("held", 2)
    assert [entry["reason"] for entry in task.salvage] == ["reset"]


@pytest.mark.requirement("BUS-04", "BUS-09")
async def test_a_task_whose_lease_expires_goes_to_another_worker(busy: BusFixture) -> None:
    await busy.cancel("next")
    await busy.pass_seconds(900)
    await busy.register("x")
    await busy.pass_seconds(900)
    assert (await busy.show("held")).worker == "x"


@pytest.mark.requirement("BUS-04", "BUS-09")
async def test_a_worker_that_let_an_offer_lapse_gets_a_task_at_its_next_poll(
    busy: BusFixture,
) -> None:
    await busy.register("x")  # and is given `next`
    await busy.pass_seconds(60)
    assert (await busy.show("next")).status == "queued"
    assert (await busy.given("x")).bead_id == "next"


@pytest.mark.requirement("BUS-07")
async def test_a_retry_ends_the_attempt_and_dispatches_the_task_again(bus: BusFixture) -> None:
    await bus.register("v", "w")
    await bus.add_and_submit("t")
    assert await bus.start("v", "t") == 1
    assert await bus.retry("t") == "active"
    task = await bus.given("w")
    assert (task.bead_id, task.epoch) == ("t", 2)
    assert task.salvage == [{"epoch": 1, "worker": "v", "reason": "retried", "commits": []}]
    assert (await bus.worker("v")).status == "idle"


async def test_retrying_a_queued_task_does_not_move_it(bus: BusFixture) -> None:
    await bus.add_and_submit("a", "b")
    before = await bus.rows()
    assert await bus.retry("b") == "queued"
    assert await bus.rows() == before


async def test_a_cancelled_task_stays_cancelled_until_it_is_retried(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("held", "queued")
    await bus.add("open")
    await bus.start("w", "held")
    for name in ("open", "queued", "held"):
        assert await bus.cancel(name) == "cancelled"
        assert await bus.cancel(name) == "cancelled"
        with pytest.raises(TaskEnded):
            await bus.submit(name)
    assert (await bus.rows()).assignments == {}
    assert (await bus.worker("w")).status == "idle"
    assert await bus.retry("open") == "open", "it was never submitted"
    assert await bus.retry("held") == "active"
    assert await bus.retry("queued") == "queued"
    assert "task_reopened" in await bus.kinds("held")


async def test_a_finished_task_cannot_be_cancelled(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("t")
    await bus.start("w", "t")
    await bus.done("t")
    with pytest.raises(TaskEnded):
        await bus.cancel("t")
    assert (await bus.show("t")).status == "done"


@pytest.mark.requirement("WP-05")
async def test_an_assign_message_gives_a_task_to_the_named_worker(bus: BusFixture) -> None:
    await bus.register("v", "w")
    await bus.add("t")
    answer = await bus.say(
        MessageType.ASSIGN,
        "w",
        task_id="t",
        spec_path="spec.md",
        worktree_path="/w",
        timeout_seconds=90,
    )
    assert (answer.state, answer.bead_id, answer.epoch) == ("assigned", "t", 1)
    assert (await bus.look("v")).task is None
    lease = await bus.ack("w", (await bus.given("w")).bead_id)
    assert lease.lease_expires_at == bus.clock.now_ms + 90_000
