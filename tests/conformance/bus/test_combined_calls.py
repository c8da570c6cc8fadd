"""Calls that do the work of two, on both stores: what is lost, repeated or cut off in between."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from shiftboss.errors import (
    InvalidRequest,
    NotHeld,
    ShiftbossError,
    StaleEpoch,
    TaskExists,
    UnknownTask,
    UnknownWorker,
)
from shiftboss.protocol.bus import (
    AddTaskRequest,
    AddTasksRequest,
    DoneAnswer,
    DoneRequest,
    FailedAnswer,
    NewTask,
    PollAnswer,
    PollRequest,
    ReturnTaskRequest,
    TaskFailedRequest,
)
from shiftboss.protocol.runs import DeleteSwarmRequest, PauseSwarmRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from tests.conformance.bus.bus_fixtures import SWARM, BusFixture, open_bus
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-03")]

LONG_MS = 600_000


def polling(
    bus: BusFixture, name: str, key: str | None = None, timeout_ms: int = LONG_MS, **members: Any
) -> asyncio.Task[PollAnswer]:
    request = PollRequest(name=name, timeout_ms=timeout_ms, ack=True, **members)
    return asyncio.ensure_future(bus.bus_service.poll_task(request, key))


def done_and_poll(
    bus: BusFixture, task: str, name: str, key: str, **members: Any
) -> asyncio.Task[DoneAnswer]:
    members = {"timeout_ms": LONG_MS, "ack": True} | members
    request = DoneRequest(bead_id=task, name=name, poll=True, **members)
    return asyncio.ensure_future(bus.bus_service.worker_done(request, key))


async def answered(answer: asyncio.Task[Any]) -> Any:
    async with asyncio.timeout(30):
        return await answer


async def taken(poll: asyncio.Task[PollAnswer]) -> tuple[str, int]:
    """The task that a poll got, acknowledged."""
    answer: PollAnswer = await answered(poll)
    assert answer.acknowledged
    assert answer.task is not None
    return answer.task.bead_id, answer.task.epoch


async def is_parked(bus: BusFixture, name: str, call: asyncio.Task[Any]) -> None:
    await eventually(lambda: name in bus.coordinator.hub.parked_workers(SWARM), f"{name} polls")
    with suppress(UnknownWorker):  # writes are sequential: the call has asked the store by now
        await bus.look("nobody")
    assert not call.done()


async def nothing_for(bus: BusFixture, name: str, key: str | None = None) -> bool:
    answer = await answered(polling(bus, name, key, timeout_ms=0))
    return bool(answer == PollAnswer(task=None, timeout=True))


# -- adding


async def test_a_task_is_added_and_submitted_in_one_call(bus: BusFixture) -> None:
    request = AddTaskRequest(bead_id="t", title="T", submit=True)
    added = await bus.bus_service.add_task(request)
    assert (added.status, added.submitted and added.submitted.position) == ("queued", 1)
    await bus.register("w")
    again = await bus.bus_service.add_task(request)
    assert again.submitted is not None
    assert (again.submitted.dispatched, again.submitted.status) == (False, "pending")
    await bus.start("w", "t")
    await bus.done("t")
    last = await bus.bus_service.add_task(request)
    assert last.submitted is not None
    assert (last.status, last.submitted.status) == ("done", "done")
    assert (await bus.kinds("t")).count("task_done") == 1


async def test_a_free_worker_gets_an_added_task_at_once(bus: BusFixture) -> None:
    await bus.register("w")
    request = AddTaskRequest(bead_id="t", title="T", submit=True)
    added = await bus.bus_service.add_task(request, "key")
    assert added.submitted is not None
    assert (added.submitted.dispatched, added.submitted.worker) == (True, "w")
    assert await bus.bus_service.add_task(request, "key") == added


def plan(*tasks: tuple[str, list[str]]) -> list[NewTask]:
    return [NewTask(bead_id=name, title=name, depends_on=after) for name, after in tasks]


async def test_a_plan_is_added_in_any_order(bus: BusFixture) -> None:
    tasks = plan(("last", ["middle", "first"]), ("middle", ["first"]), ("first", []))
    request = AddTasksRequest(tasks=tasks, submit=True)
    answer = await bus.bus_service.add_tasks(request)
    assert answer.added == 3
    assert answer.submitted is not None
    assert [one.bead_id for one in answer.submitted] == ["last", "middle", "first"]
    assert [one.waits_for for one in answer.submitted] == [["first", "middle"], ["first"], None]
    again = await bus.bus_service.add_tasks(request)
    assert (again.added, again.submitted) == (0, answer.submitted)
    await bus.register("w")
    for name in ("first", "middle", "last"):
        await bus.start("w", name)
        await bus.done(name)


async def test_a_plan_that_is_only_added_waits_for_its_submit(bus: BusFixture) -> None:
    answer = await bus.bus_service.add_tasks(AddTasksRequest(tasks=plan(("a", []), ("b", []))))
    assert (answer.added, answer.submitted) == (2, None)
    assert (await bus.show("a")).status == "open"


@pytest.mark.parametrize(
    ("tasks", "error", "field"),
    [
        (plan(("a", []), ("b", ["nobody"])), UnknownTask, "tasks.1.depends_on"),
        (plan(("a", []), ("packet-1", [])), InvalidRequest, "tasks.1.bead_id"),
        (plan(("a", []), ("b", []), ("a", [])), InvalidRequest, "tasks.2.bead_id"),
        (plan(("a", []), ("b", ["c"]), ("c", ["b"])), InvalidRequest, "tasks.1.depends_on"),
        (plan(("a", []), ("b", ["b"])), InvalidRequest, "tasks.1.depends_on"),
        (plan(("a", []), ("old", [])), TaskExists, "tasks.1.bead_id"),
    ],
)
async def test_one_bad_task_of_a_plan_changes_nothing(
    bus: BusFixture, tasks: list[NewTask], error: type[ShiftbossError], field: str
) -> None:
    request = AddTaskRequest(bead_id="old", title="another title")
    await bus.bus_service.add_task(request)
    before = await bus.rows()
    with pytest.raises(error) as refused:
        await bus.bus_service.add_tasks(AddTasksRequest(tasks=tasks, submit=True))
    assert refused.value.field == field
    assert refused.value.detail.startswith(field.rpartition(".")[0])
    assert await bus.rows() == before


async def test_a_cycle_is_named(bus: BusFixture) -> None:
    tasks = plan(("a", ["c"]), ("b", ["a"]), ("c", ["b"]))
    with pytest.raises(InvalidRequest, match="a cycle: "):
        await bus.bus_service.add_tasks(AddTasksRequest(tasks=tasks))


# -- polls that acknowledge


async def test_a_parked_poll_is_handed_its_task_started(bus: BusFixture) -> None:
    await bus.register("w")
    poll = polling(bus, "w", "key", lease_seconds=10)
    await is_parked(bus, "w", poll)
    await bus.add_and_submit("t")
    assert await taken(poll) == ("t", 1)
    shown = await bus.show("t")
    assert shown.state == "executing"
    assert shown.lease_expires_at == bus.clock.now_ms + 10_000
    assert await bus.kinds("t") == ["task_added", "task_assigned", "task_started"]


async def test_a_waiting_offer_is_started_by_the_poll(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("t")
    assert await taken(polling(bus, "w", "key", timeout_ms=0, lease_seconds=10)) == ("t", 1)
    assert (await bus.show("t")).lease_expires_at == bus.clock.now_ms + 10_000
    await bus.pass_seconds(11)
    assert "attempt_ended" in await bus.kinds("t")


@pytest.mark.parametrize("parks", [True, False])
async def test_a_poll_whose_answer_was_lost_gets_the_same_attempt(
    bus: BusFixture, *, parks: bool
) -> None:
    await bus.register("w")
    if parks:
        lost = polling(bus, "w", "key")
        await is_parked(bus, "w", lost)
    await bus.add_and_submit("t")
    if not parks:
        lost = polling(bus, "w", "key")
    assert await taken(lost) == ("t", 1)
    bus.clock.now_ms += 1000
    assert await nothing_for(bus, "w", "another key")
    assert await nothing_for(bus, "w")
    assert await taken(polling(bus, "w", "key")) == ("t", 1)
    assert (await bus.kinds("t")).count("task_started") == 1
    shown = await bus.show("t")
    assert shown.lease_expires_at == bus.clock.now_ms + 1_800_000


async def test_without_a_key_the_attempt_is_given_until_its_worker_reports(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("t")
    assert await taken(polling(bus, "w")) == ("t", 1)
    bus.clock.now_ms += 1000
    assert await taken(polling(bus, "w")) == ("t", 1)
    bus.clock.now_ms += 1000
    assert await taken(polling(bus, "w")) == ("t", 1)
    await bus.beat("w", bead_id="t")
    assert await nothing_for(bus, "w")


async def test_a_repeat_may_come_after_the_attempt_has_ended(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("t")
    assert await taken(polling(bus, "w", "key", lease_seconds=5)) == ("t", 1)
    await bus.pass_seconds(6)
    assert await taken(polling(bus, "w", "key", lease_seconds=5)) == ("t", 2)
    await bus.done("t", "w", epoch=2)


async def test_a_killed_server_gives_the_same_attempt_after_its_restart(
    store_address: str,
) -> None:
    async with open_bus(store_address) as bus:
        await bus.register("w")
        await bus.add_and_submit("t")
        assert await taken(polling(bus, "w", "key")) == ("t", 1)
    async with open_bus(store_address) as bus:
        assert await taken(polling(bus, "w", "key")) == ("t", 1)
        await bus.done("t", "w", epoch=1)


async def test_a_cancelled_poll_leaves_an_offer_for_the_next_one(bus: BusFixture) -> None:
    await bus.register("w")
    gone = polling(bus, "w", "key")
    await is_parked(bus, "w", gone)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await bus.add_and_submit("t")
    assert (await bus.show("t")).state == "assigned"
    assert await taken(polling(bus, "w", "another")) == ("t", 1)


async def test_of_two_polls_of_one_name_one_gets_the_task(bus: BusFixture) -> None:
    await bus.register("w")
    older = polling(bus, "w", "older")
    await is_parked(bus, "w", older)
    newer = polling(bus, "w", "newer")
    await eventually(lambda: len(bus.coordinator.hub._parked[SWARM]["w"]) == 2, "both are parked")
    plain = asyncio.ensure_future(bus.bus_service.poll_task(PollRequest(name="w")))
    plain.cancel()
    await bus.add_and_submit("t", "u")
    assert await taken(newer) == ("t", 1)
    await is_parked(bus, "w", older)
    await bus.done("t", "w")
    assert await taken(older) == ("u", 1)


async def test_a_paused_swarm_hands_out_nothing_to_such_polls(bus: BusFixture) -> None:
    await bus.register("w")
    poll = polling(bus, "w", "key")
    await is_parked(bus, "w", poll)
    await bus.coordinator.runs.pause_swarm(PauseSwarmRequest(swarm_id=SWARM, reason="wait"))
    await bus.add_and_submit("t")
    await is_parked(bus, "w", poll)
    assert (await bus.show("t")).status == "queued"
    poll.cancel()


# -- the report of one task, and the next


async def test_done_answers_with_the_next_task_in_one_commit(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("a", "b")
    assert await taken(polling(bus, "w", "1")) == ("a", 1)
    answer = await answered(done_and_poll(bus, "a", "w", "2", epoch=1))
    assert (answer.success, answer.bead_id) == (True, "a")
    assert answer.next.task.bead_id == "b"
    assert answer.next.acknowledged
    assert (await bus.show("b")).state == "executing"


async def test_done_counts_while_its_poll_waits(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("a")
    assert await taken(polling(bus, "w", "1")) == ("a", 1)
    call = done_and_poll(bus, "a", "w", "2")
    await is_parked(bus, "w", call)
    assert (await bus.show("a")).status == "done"
    assert (await bus.worker("w")).status == "polling"
    await bus.add_and_submit("b")
    answer = await answered(call)
    assert answer.next.task.bead_id == "b"
    assert (await bus.kinds("b"))[-1] == "task_started"


async def test_a_repeat_after_a_lost_connection_counts_once_and_waits_on(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("a")
    assert await taken(polling(bus, "w", "1")) == ("a", 1)
    cut = done_and_poll(bus, "a", "w", "2")
    await is_parked(bus, "w", cut)
    cut.cancel()
    await asyncio.gather(cut, return_exceptions=True)
    again = done_and_poll(bus, "a", "w", "2")
    await is_parked(bus, "w", again)
    await bus.add_and_submit("b")
    assert (await answered(again)).next.task.bead_id == "b"
    # This answer is lost as well.
    last = await answered(done_and_poll(bus, "a", "w", "2"))
    assert (last.next.task.bead_id, last.next.task.epoch) == ("b", 1)
    assert (await bus.kinds("a")).count("task_done") == 1
    assert (await bus.kinds("b")).count("task_started") == 1


async def test_a_poll_goes_on_where_the_report_timed_out(bus: BusFixture) -> None:
    """The client keeps the key until it has a task: it may have been handed out at the end."""
    await bus.register("w")
    await bus.add_and_submit("a")
    assert await taken(polling(bus, "w", "1")) == ("a", 1)
    answer = await answered(done_and_poll(bus, "a", "w", "2", timeout_ms=0))
    assert answer.next == PollAnswer(task=None, timeout=True)
    await bus.add_and_submit("b")
    assert await taken(polling(bus, "w", "2")) == ("b", 1)
    assert await taken(polling(bus, "w", "2")) == ("b", 1)


async def test_a_stale_report_is_refused_and_takes_nothing(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("a")
    assert await taken(polling(bus, "w", "1", lease_seconds=5)) == ("a", 1)
    await bus.pass_seconds(6)
    assert await taken(polling(bus, "w", "2")) == ("a", 2)
    await bus.add_and_submit("b")
    with pytest.raises(StaleEpoch):
        await answered(done_and_poll(bus, "a", "w", "3", epoch=1))
    with pytest.raises(NotHeld):
        await answered(done_and_poll(bus, "b", "w", "4"))
    assert (await bus.show("b")).status == "queued"
    assert not bus.coordinator.hub.parked_workers(SWARM)


async def test_a_poll_after_a_report_needs_the_name_of_its_worker(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("x")
    await bus.start("w", "x")
    with pytest.raises(InvalidRequest) as refused:
        await bus.bus_service.worker_done(DoneRequest(bead_id="x", poll=True))
    assert refused.value.field == "name"
    assert (await bus.show("x")).status == "active"


@pytest.mark.parametrize("parks", [True, False])
async def test_a_failure_answers_with_the_next_task(bus: BusFixture, *, parks: bool) -> None:
    await bus.register("w")
    await bus.add_and_submit("a")
    assert await taken(polling(bus, "w", "1")) == ("a", 1)
    if not parks:
        await bus.add_and_submit("b")
    request = TaskFailedRequest(
        bead_id="a", name="w", reason="no", poll=True, ack=True, timeout_ms=LONG_MS
    )
    call = asyncio.ensure_future(bus.bus_service.task_failed(request, "2"))
    if parks:
        await is_parked(bus, "w", call)
        assert (await bus.show("a")).status == "failed"
        await bus.add_and_submit("b")
    answer: FailedAnswer = await answered(call)
    assert answer.status == "failed"
    assert answer.next is not None
    assert answer.next.task is not None
    assert answer.next.task.bead_id == "b"
    assert await answered(asyncio.ensure_future(bus.bus_service.task_failed(request, "2"))) == (
        answer
    )
    assert (await bus.kinds("a")).count("task_failed") == 1


async def test_a_plain_poll_after_a_report_acknowledges_nothing(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("a", "b")
    assert await taken(polling(bus, "w", "1")) == ("a", 1)
    answer = await answered(done_and_poll(bus, "a", "w", "2", ack=False))
    assert answer.next.task.bead_id == "b"
    assert answer.next.acknowledged is None
    assert (await bus.show("b")).state == "assigned"
    await bus.ack("w", "b")


async def test_a_deleted_swarm_does_not_hide_that_the_report_counted(store_address: str) -> None:
    async with open_bus(store_address) as default:
        await default.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id="s"))
        bus = BusFixture(default.coordinator, default.clock, "s")
        await bus.register("w")
        await bus.add_and_submit("a")
        await bus.start("w", "a")
        request = DoneRequest(
            swarm_id="s", bead_id="a", name="w", poll=True, ack=True, timeout_ms=LONG_MS
        )
        call = asyncio.ensure_future(bus.bus_service.worker_done(request, "1"))
        hub = default.coordinator.hub
        await eventually(lambda: "w" in hub.parked_workers("s"), "w polls")
        await bus.look("w")
        await default.coordinator.runs.delete_swarm(DeleteSwarmRequest(swarm_id="s"))
        hub.recheck()
        answer = await answered(call)
        assert (answer.success, answer.next) == (True, PollAnswer(task=None, timeout=True))


async def test_a_poll_on_another_server_starts_the_task_itself(postgres_url: str) -> None:
    async with open_bus(postgres_url) as one, open_bus(postgres_url) as other:
        await other.register("w")
        poll = polling(other, "w", "key")
        await eventually(lambda: "w" in other.coordinator.hub.parked_workers(SWARM), "w polls")
        await one.add_and_submit("t")
        assert await taken(poll) == ("t", 1)
        assert await taken(polling(one, "w", "key")) == ("t", 1)
        assert (await one.kinds("t")).count("task_started") == 1


async def test_a_task_that_was_not_begun_goes_back_to_the_queue(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("t")
    assert await taken(polling(bus, "w", "key")) == ("t", 1)
    request = ReturnTaskRequest(bead_id="t", name="w", epoch=1)
    answer = await bus.bus_service.return_task(request, "back")
    assert await bus.bus_service.return_task(request, "back") == answer
    shown = await bus.show("t")
    assert (shown.status, shown.failures) == ("queued", 0), "its worker leaves, and gets no more"
    with pytest.raises(NotHeld):
        await bus.bus_service.return_task(request)
    assert await taken(polling(bus, "w", "another")) == ("t", 2)
    with pytest.raises(StaleEpoch):
        await bus.bus_service.return_task(request)
