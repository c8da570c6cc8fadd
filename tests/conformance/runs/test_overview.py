"""What an operator sees of tasks and swarms, on both stores."""

from __future__ import annotations

import pytest

from shiftboss.coordinator.bus.questions import QUESTIONS_LISTED_MAX
from shiftboss.protocol.bus import FindTaskRequest, ListTasksRequest, TaskRequest
from shiftboss.protocol.runs import ParkTaskRequest, PauseSwarmRequest, ReportRunRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.rules.runs.records import WAITS_FOR_ANSWER, Hold, SpawnRefusal
from shiftboss.rules.tasks.tasks import Question
from shiftboss.store.port import Transaction
from tests.conformance.bus.bus_fixtures import BusFixture
from tests.conformance.opened import OpenStore
from tests.conformance.store.rows import SWARM

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-11")]


async def kinds_of(bus: BusFixture, task: str) -> list[str]:
    request = TaskRequest(swarm_id=bus.swarm_id, bead_id=task)
    return [reason.kind for reason in (await bus.bus_service.why_task(request)).reasons]


async def test_tasks_are_counted_by_status_and_say_why(bus: BusFixture) -> None:
    await bus.add("a", "b", "c")
    await bus.add("d", after=["a"])
    await bus.submit("a")
    assert await kinds_of(bus, "a") == ["queued"]
    assert await kinds_of(bus, "b") == ["not_submitted"]
    assert await kinds_of(bus, "d") == ["dependency"]
    waiting = await bus.coordinator.swarms.status(bus.swarm_id)
    assert (waiting.status, waiting.bus.workers) == ("waiting", 0)
    await bus.register("w")
    await bus.start("w", "a")
    assert await kinds_of(bus, "a") == ["at_work"]
    await bus.cancel("b")
    await bus.failed("a")
    await bus.submit("c")
    seen = await bus.coordinator.swarms.status(bus.swarm_id)
    work = seen.bus
    assert (work.total, work.open, work.active) == (4, 1, 1)
    assert (work.failed, work.cancelled, work.workers) == (1, 1, 1)
    assert [(reason.kind, reason.bead_id) for reason in seen.waiting] == [("failed", "a")]
    (listed,) = (await bus.coordinator.swarms.list_swarms(None, 10)).swarms
    assert (listed.status, listed.bus) == (seen.status, work) == ("running", work)


async def waiting_in(bus: BusFixture) -> list[tuple[str, str | None]]:
    status = await bus.coordinator.swarms.status(bus.swarm_id)
    return [(reason.kind, reason.bead_id) for reason in status.waiting]


async def test_a_task_that_waits_for_a_cancelled_one_needs_a_person(bus: BusFixture) -> None:
    await bus.add("a", "z")
    await bus.add("b", "c", after=["a"])
    await bus.cancel("a")
    await bus.cancel("z")
    await bus.cancel("c")
    assert await waiting_in(bus) == [("dependency", "b")]
    status = await bus.coordinator.swarms.status(bus.swarm_id)
    assert status.waiting[0].command == f"shiftboss task cancel b --swarm {bus.swarm_id}"
    await bus.cancel("b")
    assert await waiting_in(bus) == []


@pytest.mark.parametrize("task", ["a", None], ids=["task", "swarm"])
async def test_holds_of_what_is_over_are_not_shown_until_it_is_brought_back(
    bus: BusFixture, task: str | None
) -> None:
    async def holds() -> tuple[list[tuple[str, str | None]], int]:
        status = await bus.coordinator.swarms.status(bus.swarm_id)
        return await waiting_in(bus), status.bus.holds

    await bus.add("a")
    request = PauseSwarmRequest(swarm_id=bus.swarm_id, bead_id=task, reason="lunch")
    await bus.coordinator.runs.pause_swarm(request)
    assert await holds() == ([("pause", task)], 1)
    await bus.cancel("a")
    assert await holds() == ([], 0)
    await bus.retry("a")
    assert await holds() == ([("pause", task)], 1)
    (listed,) = (await bus.bus_service.list_tasks(ListTasksRequest(swarm_id=bus.swarm_id))).tasks
    assert listed.hold == "pause"


async def test_a_plan_is_named_by_the_advice(bus: BusFixture) -> None:
    await bus.add("a")
    for plan_file in ("/plans/old.yaml", "/plans/plan.yaml"):
        request = ReportRunRequest(swarm_id=bus.swarm_id, plan_file=plan_file)
        await bus.coordinator.runs.report_run(request)
    answer = await bus.bus_service.why_task(TaskRequest(swarm_id=bus.swarm_id, bead_id="a"))
    assert answer.reasons[0].command == "shiftboss run /plans/plan.yaml"


@pytest.mark.requirement("OWN-11")
async def test_the_advice_does_not_land_what_is_left_to_the_user(bus: BusFixture) -> None:
    await bus.add("a", "b")
    request = ReportRunRequest(swarm_id=bus.swarm_id, plan_file="/plan.yaml", auto_merge=False)
    await bus.coordinator.runs.report_run(request)
    command = "shiftboss run /plan.yaml --no-auto-merge"
    status = await bus.coordinator.swarms.status(bus.swarm_id)
    assert [status.run_command, status.waiting[0].command] == [command, command]


async def test_the_swarms_of_a_task_are_found(bus: BusFixture) -> None:
    async def find(task: str) -> list[tuple[str, str | None]]:
        found = await bus.bus_service.find_task(FindTaskRequest(bead_id=task))
        return [(place.swarm_id, place.status) for place in found.swarms]

    await bus.add("a", "b")
    await bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id="another"))
    other = BusFixture(bus.coordinator, bus.clock, "another")
    await other.add("a")
    await other.cancel("a")
    assert await find("a") == [("another", "cancelled"), (bus.swarm_id, "open")]
    assert await find("b") == [(bus.swarm_id, "open")]
    assert await find("c") == []


async def test_a_refused_start_is_replaced_and_dropped(with_swarm: OpenStore) -> None:
    first = SpawnRefusal(SWARM, "t", "repo_blocked", "blocked", [{"repo": "core"}], 5)

    def put(tx: Transaction) -> None:
        tx.put_spawn_refusal(first)
        tx.put_spawn_refusal(first._replace(detail="ü", holders=[]))
        tx.put_spawn_refusal(first._replace(task_id="u"))

    await with_swarm.write(put)
    assert await with_swarm.read(lambda tx: tx.spawn_refusals(SWARM, 5)) == [
        first._replace(detail="ü", holders=[]),
        first._replace(task_id="u"),
    ]
    await with_swarm.write(lambda tx: tx.drop_spawn_refusal(SWARM, "t"))
    assert await with_swarm.read(lambda tx: tx.spawn_refusal(SWARM, "t")) is None


async def test_a_task_keeps_its_own_questions_among_many(bus: BusFixture) -> None:
    """Many older questions of other tasks are open."""
    bus.writes_rows = True
    await bus.register("w")
    await bus.add_and_submit("a")
    epoch = await bus.start("w", "a")
    asked = Question(bus.swarm_id, 0, "other", 1, "v", "operator", "Why?", 1)

    def ask(tx: Transaction) -> list[int]:
        for _ in range(QUESTIONS_LISTED_MAX):
            tx.add_question(asked)
        mine = asked._replace(task_id="a", epoch=epoch, worker="w", asked_at_ms=2)
        return [tx.add_question(mine) for _ in range(2)]

    first, _ = await bus.coordinator.store.write(ask, bus.swarm_id)
    park = ParkTaskRequest(
        swarm_id=bus.swarm_id, bead_id="a", name="w", epoch=epoch, reason="it has exited"
    )
    assert await kinds_of(bus, "a") == ["question", "question", "at_work"]

    def hold(tx: Transaction) -> None:
        tx.put_hold(Hold(bus.swarm_id, "a", "answer", WAITS_FOR_ANSWER, 3, None))

    await bus.coordinator.store.write(hold, bus.swarm_id)
    await bus.coordinator.runs.park_task(park)
    await bus.answer(first, "because")
    assert await kinds_of(bus, "a") == ["question"], "it is still held"
    assert (await bus.show("a")).status == "queued"
