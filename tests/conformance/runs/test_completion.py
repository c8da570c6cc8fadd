"""Swarms with tasks of the bus complete when nothing is left to do, and open again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties.cleaner import DAY_MS, Cleaner
from shiftboss.coordinator.duties.swarm_completion import QUIET_SECONDS, SwarmCompletion
from shiftboss.protocol.runs import ReportRunRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.store.open_store import store_at
from tests.conformance.bus.bus_fixtures import BusFixture, StillClock
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def started(address: str, clock: StillClock) -> AsyncIterator[BusFixture]:
    """For its own duty, no time passes."""
    coordinator = Coordinator(store_at(address), clock=clock, elapsed=lambda: 0.0)
    await coordinator.start()
    try:
        yield BusFixture(coordinator, clock, "s")
    finally:
        await coordinator.stop()


@pytest.fixture
async def bus(store_address: str) -> AsyncIterator[BusFixture]:
    async with started(store_address, StillClock()) as it:
        yield it


class Completing:
    """The duty with a clock that only the test moves."""

    def __init__(self, bus: BusFixture) -> None:
        self.seconds = 0.0
        self._store = bus.coordinator.store
        self.duty = SwarmCompletion(
            self._store, bus.clock, bus.coordinator.hub, lambda: self.seconds
        )

    async def look(self, after_seconds: float = QUIET_SECONDS) -> None:
        self.seconds += after_seconds
        await self.duty.settle_quiet()


async def swarm(bus: BusFixture, swarm_id: str = "s") -> BusFixture:
    await bus.coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=swarm_id))
    other = BusFixture(bus.coordinator, bus.clock, swarm_id)
    await other.register("a")
    return other


async def finish(bus: BusFixture, task: str) -> None:
    await bus.add_and_submit(task)
    await bus.start("a", task)
    await bus.done(task, "a")


async def completed_at(bus: BusFixture) -> str | None:
    status = await bus.coordinator.swarms.status(bus.swarm_id)
    (listed,) = [
        each
        for each in (await bus.coordinator.swarms.list_swarms(None, 50)).swarms
        if each.swarm_id == bus.swarm_id
    ]
    assert listed.completed_at == status.completed_at
    return status.completed_at


async def kinds(bus: BusFixture) -> list[str]:
    events = await bus.coordinator.swarms.events_after(bus.swarm_id, 0, 1000)
    return [event.kind for event in events if event.kind.startswith("swarm_")]


async def test_a_swarm_completes_when_its_tasks_are_over_and_opens_with_new_work(
    bus: BusFixture,
) -> None:
    completing = Completing(bus)
    other = await swarm(bus)
    await finish(other, "one")
    await other.add("two")
    await completing.look()
    assert await completed_at(other) is None
    await other.cancel("two")
    await completing.look()
    assert await completed_at(other) is not None
    assert await kinds(other) == ["swarm_created", "swarm_complete"]
    await other.add("three")
    assert await completed_at(other) is None, "at once, not when the duty looks"
    await completing.look()
    assert (await kinds(other))[-1] == "swarm_reopened"
    await finish(other, "four")
    await other.cancel("three")
    await completing.look()
    assert await completed_at(other) is not None


async def test_a_swarm_completes_some_quiet_seconds_after_its_last_change(bus: BusFixture) -> None:
    completing = Completing(bus)
    other = await swarm(bus)
    await finish(other, "one")
    await completing.look(QUIET_SECONDS / 2)
    await finish(other, "two")
    await completing.look(QUIET_SECONDS / 2)
    assert await completed_at(other) is None, "something has just happened"
    await completing.look(QUIET_SECONDS / 2)
    assert await completed_at(other) is not None


async def test_work_that_was_given_up_completes_the_swarm_as_failed(bus: BusFixture) -> None:
    completing = Completing(bus)
    other = await swarm(bus)
    await other.add_and_submit("t")
    await other.start("a", "t")
    await other.failed("t")
    await completing.look()
    status = await bus.coordinator.swarms.status("s")
    assert (status.status, status.completed_at is not None) == ("failed", True)
    assert not status.ready_for_merge
    await other.retry("t")
    await completing.look()
    assert await completed_at(other) is None


async def test_the_default_swarm_stays_open(bus: BusFixture) -> None:
    completing = Completing(bus)
    default = BusFixture(bus.coordinator, bus.clock)
    await default.register("a")
    await finish(default, "t")
    await completing.look()
    assert await completed_at(default) is None


async def test_accepted_work_of_a_plan_completes_its_swarm_when_it_has_landed(
    handoffs: HandoffFixture,
) -> None:
    completing = Completing(handoffs)
    run = await handoffs.in_swarm("s")
    await run.finished("t")
    await run.coordinator.runs.report_run(
        ReportRunRequest(swarm_id="s", plan_file="/plan.yaml", auto_merge=True)
    )
    await completing.look()
    assert await completed_at(run) is None, "it has not landed"
    handoffs.writes_rows = True
    await run.coordinator.store.write(lambda tx: tx.drop_landing("s", "t"), "s")
    await run.add("other")
    await run.cancel("other")
    await completing.look()
    assert await completed_at(run) is not None


async def test_a_server_that_ends_completes_what_is_over(store_address: str) -> None:
    """The server of a run ends with the run."""
    clock = StillClock()
    async with started(store_address, clock) as bus:
        await finish(await swarm(bus), "t")
        assert await completed_at(bus) is None
    async with started(store_address, clock) as bus:
        assert await completed_at(bus) is not None


async def test_what_was_over_long_before_completes_at_its_last_change(bus: BusFixture) -> None:
    """Databases of earlier versions: their swarms are not kept for longer than others."""
    other = await swarm(bus)
    await finish(other, "t")
    over_at_ms = bus.clock.now_ms
    bus.clock.now_ms += 20 * DAY_MS
    completing = Completing(bus)
    await completing.duty.find_missed()
    await completing.look(0)
    row = await bus.coordinator.store.read(lambda tx: tx.swarm("s"))
    assert row is not None
    assert row.completed_at_ms == over_at_ms
    bus.clock.now_ms += 11 * DAY_MS
    assert await Cleaner(bus.coordinator.store, bus.clock, retention_days=30).run_once() == 1
