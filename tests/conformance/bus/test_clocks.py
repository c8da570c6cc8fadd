"""Leases while the wall clock is set, the server is restarted, or stands still; on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shiftboss.coordinator.clock import ServerClock
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties.lease_reaper import LeaseReaper
from shiftboss.coordinator.duties.suspend_detection import SuspendDetector
from shiftboss.errors import StoreUnavailable
from shiftboss.store.open_store import store_at
from tests.conformance.bus.bus_fixtures import START_MS, SWARM, BusFixture, StillClock
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("BUS-09")]

HOUR = 3600
LEASE = 1800
GRACE = 60
NS = 1_000_000


class MachineClock(StillClock):
    """The clock of a server on a machine whose wall clock the test sets. Moving it lets time pass,
    which both clocks of the machine show."""

    def __init__(self, wall_ms: int = START_MS) -> None:
        self.wall_ms = wall_ms
        self.elapsed_ms = 0
        self.server_clock = ServerClock(lambda: self.wall_ms * NS, lambda: self.elapsed_ms * NS)

    @property
    def now_ms(self) -> int:
        return self.server_clock()

    @now_ms.setter
    def now_ms(self, at_ms: int) -> None:
        passed_ms = at_ms - self.server_clock()
        self.wall_ms += passed_ms
        self.elapsed_ms += passed_ms


@asynccontextmanager
async def server_on(address: str, clock: MachineClock) -> AsyncIterator[BusFixture]:
    coordinator = Coordinator(store_at(address), clock=clock.server_clock)
    await coordinator.start()
    try:
        yield BusFixture(coordinator, clock)
    finally:
        await coordinator.stop()


async def start_task(bus: BusFixture) -> None:
    await bus.register("w")
    await bus.add_and_submit("t")
    await bus.start("w", "t")


async def lease_left(bus: BusFixture) -> float:
    """Seconds."""
    ends_at = (await bus.show("t")).lease_expires_at
    assert ends_at is not None
    return (ends_at - bus.clock.now_ms) / 1000


async def event_times(bus: BusFixture) -> list[int]:
    events = await bus.coordinator.swarms.events_after(SWARM, 0, 1000)
    return [event.at_ms for event in events]


@pytest.mark.parametrize("jump_seconds", [-5 * HOUR, 5 * HOUR])
async def test_a_wall_clock_that_is_set_neither_ends_nor_prolongs_a_lease(
    store_address: str, jump_seconds: int
) -> None:
    clock = MachineClock()
    async with server_on(store_address, clock) as bus:
        await start_task(bus)
        clock.wall_ms += jump_seconds * 1000
        await bus.pass_seconds(LEASE - 10)
        assert (await bus.show("t")).worker == "w"
        await bus.pass_seconds(10 + LEASE / 1000)
        assert (await bus.show("t")).status == "queued"
        times = await event_times(bus)
        assert times == sorted(times)


async def test_after_a_restart_with_a_clock_set_back_times_go_on_and_leases_keep_their_length(
    store_address: str,
) -> None:
    before = MachineClock()
    async with server_on(store_address, before) as bus:
        await start_task(bus)
        # Heartbeats add no events, and yet their time counts.
        await bus.pass_seconds(LEASE - 1)
        await bus.beat("w")
        stored_until_ms = before.now_ms
    after = MachineClock(stored_until_ms - 3 * HOUR * 1000)
    async with server_on(store_address, after) as bus:
        assert 0 < await lease_left(bus) <= LEASE
        await bus.add("u")
        times = await event_times(bus)
        assert times == sorted(times)
        assert times[-1] >= stored_until_ms
        await bus.pass_seconds(LEASE + 2)
        assert (await bus.show("t")).status == "queued"


async def test_after_a_restart_with_a_clock_set_forward_workers_have_time_to_report(
    store_address: str,
) -> None:
    before = MachineClock()
    async with server_on(store_address, before) as bus:
        await start_task(bus)
    async with server_on(store_address, MachineClock(before.now_ms + 24 * HOUR * 1000)) as bus:
        await bus.pass_seconds(GRACE - 1)
        assert (await bus.show("t")).worker == "w"
        await bus.beat("w")
        assert await lease_left(bus) == LEASE


async def test_a_server_that_stood_still_hears_its_workers_before_it_ends_their_leases(
    bus: BusFixture,
) -> None:
    """Stopped, or on a suspended laptop: no worker could send a heartbeat meanwhile."""
    asleep = [0.0]
    watch = SuspendDetector(lambda: asleep[0])
    reaper = LeaseReaper(bus.coordinator.store, bus.clock, bus.coordinator.hub, watch)
    await start_task(bus)
    watch.tick()
    asleep[0] += 8 * HOUR
    bus.clock.now_ms += 8 * HOUR * 1000
    await reaper.run_once()
    assert (await bus.show("t")).worker == "w"
    assert await lease_left(bus) == GRACE
    # The worker is silent while the server runs again: that counts.
    bus.clock.now_ms += GRACE * 1000
    await reaper.run_once()
    assert (await bus.show("t")).status == "queued"


async def test_leases_are_renewed_after_a_standstill_even_if_the_database_refuses_it_at_first(
    bus: BusFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database may have cut the connections of a server that was stopped."""
    asleep = [0.0]
    watch = SuspendDetector(lambda: asleep[0])
    store = bus.coordinator.store
    reaper = LeaseReaper(store, bus.clock, bus.coordinator.hub, watch)
    await start_task(bus)
    watch.tick()
    asleep[0] += 8 * HOUR
    bus.clock.now_ms += 8 * HOUR * 1000
    with monkeypatch.context() as patched:
        patched.setattr(store, "write", _refuse)
        with pytest.raises(StoreUnavailable):
            await reaper.run_once()
    await reaper.run_once()
    assert (await bus.show("t")).worker == "w"
    assert await lease_left(bus) == GRACE


async def _refuse(*_arguments: object, **_options: object) -> None:
    raise StoreUnavailable("the connection was lost")


async def test_a_running_lease_reaper_watches_for_a_standstill(bus: BusFixture) -> None:
    asleep = [0.0]
    loop = asyncio.get_running_loop()
    watch = SuspendDetector(lambda: loop.time() + asleep[0], tick_seconds=0.01)
    reaper = LeaseReaper(bus.coordinator.store, bus.clock, bus.coordinator.hub, watch)
    await start_task(bus)
    running = asyncio.create_task(reaper.run())
    try:
        await eventually(lambda: watch._ticked_at is not None, "it ticks")
        asleep[0] += HOUR
        await eventually(watch.take, "it was noticed")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
