"""Servers on one PostgreSQL whose machines have different clocks: all go by the database's."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shiftboss.coordinator.clock import MachineClocks
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.deployment.database_clock import ClockSkewed
from shiftboss.coordinator.duties.lease_reaper import LeaseReaper
from shiftboss.protocol.events import EventKind
from shiftboss.store.open_store import store_at
from shiftboss.store.port import Transaction
from tests.conformance.bus.bus_fixtures import SWARM, BusFixture, StillClock

pytestmark = pytest.mark.anyio

HOUR = 3600


class Machine:
    """A machine whose wall clock is wrong by some seconds."""

    def __init__(self, ahead_seconds: float = 0) -> None:
        self.ahead_seconds = ahead_seconds
        self.clocks = MachineClocks(wall_ns=self._wall_ns)

    def _wall_ns(self) -> int:
        return time.time_ns() + round(self.ahead_seconds * 1e9)


class NoClock(StillClock):
    """Time passes by itself."""

    @property
    def now_ms(self) -> int:
        return 0

    @now_ms.setter
    def now_ms(self, at_ms: int) -> None:
        pass


@asynccontextmanager
async def server_on(
    address: str, machine: Machine, skew_max_seconds: float = 0
) -> AsyncIterator[BusFixture]:
    coordinator = Coordinator(
        store_at(address), machine=machine.clocks, clock_skew_max_seconds=skew_max_seconds
    )
    try:
        await coordinator.start()
        yield BusFixture(coordinator, NoClock())
    finally:
        await coordinator.stop()


async def reap(bus: BusFixture) -> None:
    """What the lease reaper of the server does when a lease may have ended."""
    coordinator = bus.coordinator
    await LeaseReaper(coordinator.store, coordinator.clock, coordinator.hub).run_once()


@pytest.mark.requirement("BUS-09")
@pytest.mark.parametrize("ahead_seconds", [2 * HOUR, 70, -2 * HOUR])
async def test_a_task_needs_one_attempt_although_the_clock_of_a_server_is_wrong(
    postgres_url: str, ahead_seconds: int
) -> None:
    right, wrong = Machine(), Machine(ahead_seconds)
    async with server_on(postgres_url, right) as one, server_on(postgres_url, wrong) as other:
        await one.register("w")
        await other.register("v")
        for number, (submits, works) in enumerate([(one, other), (other, one)]):
            task, worker = f"t{number}", "vw"[number]
            await submits.add_and_submit(task)
            for bus in (one, other):
                await reap(bus)
            held = await submits.show(task)
            name = held.worker or worker
            epoch = await works.start(name, task)
            for bus in (one, other):
                await reap(bus)
            await submits.beat(name)
            assert epoch == 1
            await works.done(task, name, epoch)
        for bus in (one, other):
            assert [(await bus.show(task)).status for task in ("t0", "t1")] == ["done", "done"]
        times = [event.at_ms for event in await one.coordinator.swarms.events_after(SWARM, 0, 99)]
        assert max(times) - min(times) < 60_000
        assert one.coordinator.clock_skew_ms == pytest.approx(0, abs=500)
        assert other.coordinator.clock_skew_ms == pytest.approx(ahead_seconds * 1000, abs=500)


@pytest.mark.parametrize("ahead_seconds", [2 * HOUR, -2 * HOUR])
async def test_a_server_with_a_wrong_clock_does_not_start(
    postgres_url: str, ahead_seconds: int
) -> None:
    with pytest.raises(ClockSkewed) as refused:
        async with server_on(postgres_url, Machine(ahead_seconds), skew_max_seconds=300):
            pass
    assert "7200.0 s" in refused.value.detail
    assert ("ahead of" in refused.value.detail) == (ahead_seconds > 0)
    assert "up to 300 s" in refused.value.detail
    assert "--clock-skew-max 0" in (refused.value.hint or "")


async def test_a_skew_is_warned_of_and_a_larger_one_makes_a_running_server_unready(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    machine = Machine(70)
    async with server_on(postgres_url, machine, skew_max_seconds=300) as bus:
        clock = bus.coordinator.database_clock
        assert clock is not None
        assert "70.0 s ahead of the clock of the database" in caplog.text
        assert clock.problem() is None
        before_ms = bus.coordinator.clock()
        machine.ahead_seconds = -301
        await clock.measure_again()
        await clock.measure_again()
        problem = clock.problem()
        assert problem is not None
        assert "301.0 s behind" in problem.detail
        assert caplog.text.count("no longer ready") == 1
        assert before_ms <= bus.coordinator.clock() < before_ms + 60_000
        await bus.register("w")
        machine.ahead_seconds = 0
        await clock.measure_again()
        assert clock.problem() is None
        assert "agrees with the clock of the database again" in caplog.text


async def test_a_server_goes_by_the_database_even_if_what_is_stored_is_later(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with server_on(postgres_url, Machine()) as one:
        await one.add("t")
        later_ms = one.coordinator.clock() + 2 * HOUR * 1000

        def add_event(tx: Transaction) -> None:
            tx.take_swarm(SWARM)
            tx.add_event(SWARM, EventKind.PROGRESS_UPDATE, later_ms, {})

        await one.coordinator.store.write(add_event, SWARM)
        async with server_on(postgres_url, Machine()) as other:
            assert abs(one.coordinator.clock() - other.coordinator.clock()) < 1000
            assert "7200 s ahead of the database's clock" in caplog.text


async def test_sqlite_has_no_clock_of_its_own(sqlite_path: str) -> None:
    async with server_on(sqlite_path, Machine(2 * HOUR), skew_max_seconds=300) as bus:
        assert bus.coordinator.clock_skew_ms is None
        assert abs(bus.coordinator.clock() - (time.time() + 2 * HOUR) * 1000) < 60_000
