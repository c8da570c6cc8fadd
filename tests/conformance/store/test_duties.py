"""The duties, on both stores, with a clock moved by the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shiftboss.coordinator.clock import system_clock
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties.cleaner import DAY_MS, Cleaner
from shiftboss.coordinator.duties.retry_scheduler import RetryScheduler
from shiftboss.coordinator.event_hub import Hub
from shiftboss.coordinator.event_subscriptions import Subscription
from shiftboss.errors import UnknownSwarm
from shiftboss.protocol.packets import (
    CompleteRequest,
    ErrorRequest,
    ProgressRequest,
    RegisterRequest,
)
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.rules.tasks.retry import RetryPolicy
from shiftboss.store.open_store import store_at

pytestmark = pytest.mark.anyio

START_MS = 1_800_000_000_000


class TestClock:
    __test__ = False

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


@asynccontextmanager
async def coordinating(
    address: str, clock: TestClock | None = None, policy: RetryPolicy | None = None
) -> AsyncIterator[tuple[Coordinator, Subscription]]:
    coordinator = Coordinator(store_at(address), clock=clock or system_clock, retry_policy=policy)
    # Before the start, so that nothing a duty does immediately is missed.
    heard = coordinator.hub.subscribe("s")
    await coordinator.start()
    try:
        yield coordinator, heard
    finally:
        await coordinator.stop()


async def failing_worker(coordinator: Coordinator, swarm_id: str = "s") -> None:
    await coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=swarm_id))
    await coordinator.swarms.register(
        swarm_id, RegisterRequest(packet_id=1, packet_name="p", tasks_total=3, worktree="/w")
    )
    await fail(coordinator, swarm_id)


async def fail(coordinator: Coordinator, swarm_id: str = "s") -> None:
    answer = await coordinator.swarms.error(
        swarm_id,
        ErrorRequest(
            packet_id=1, task_id="t", error_type="rate_limit", message="", recoverable=True
        ),
    )
    assert answer.retry_scheduled


async def hear_of_retry(heard: Subscription) -> None:
    frames = b""
    async with asyncio.timeout(30):
        while b"event: retry_due" not in frames:
            await heard.wait(10)
            frames += b"".join(frame for _, frame in heard.take())


async def kinds(coordinator: Coordinator, swarm_id: str = "s") -> list[str]:
    return [event.kind for event in await coordinator.swarms.events_after(swarm_id, 0, 1000)]


@pytest.mark.requirement("SW-08")
async def test_a_retry_becomes_due_at_its_time_and_not_earlier(store_address: str) -> None:
    clock = TestClock()
    async with coordinating(store_address, clock) as (coordinator, _):
        await failing_worker(coordinator)
        scheduler = RetryScheduler(coordinator.store, clock, coordinator.hub)
        clock.now_ms += 29_999
        assert await scheduler.run_once() == pytest.approx(0.001)
        assert "retry_due" not in await kinds(coordinator)
        clock.now_ms += 1
        await scheduler.run_once()
        assert (await kinds(coordinator))[-1] == "retry_due"
        (worker,) = (await coordinator.swarms.status("s")).workers
        assert [(r.task_id, r.attempt, r.state) for r in worker.retries] == [("t", 1, "due")]
        await scheduler.run_once()
        assert (await kinds(coordinator)).count("retry_due") == 1


@pytest.mark.requirement("SW-08")
async def test_a_scheduled_retry_survives_a_restart(store_address: str) -> None:
    clock = TestClock()
    async with coordinating(store_address, clock) as (coordinator, _):
        await failing_worker(coordinator)
    clock.now_ms += 3_600_000
    async with coordinating(store_address, clock) as (coordinator, heard):
        await hear_of_retry(heard)  # the duty of the restarted coordinator finds it by itself
        await fail(coordinator)
        (worker,) = (await coordinator.swarms.status("s")).workers
        assert [(r.attempt, r.state) for r in worker.retries] == [(2, "scheduled")]


@pytest.mark.requirement("SW-08", "SW-09")
async def test_an_error_wakes_the_duty_that_fires_the_retry(store_address: str) -> None:
    policy = RetryPolicy(backoff_base=1)
    async with coordinating(store_address, policy=policy) as (coordinator, heard):
        await failing_worker(coordinator)
        await hear_of_retry(heard)


@pytest.mark.requirement("SW-08")
async def test_a_retry_that_was_closed_does_not_fire(store_address: str) -> None:
    clock = TestClock()
    async with coordinating(store_address, clock) as (coordinator, _):
        await failing_worker(coordinator)
        await coordinator.swarms.progress(
            "s",
            ProgressRequest(
                packet_id=1,
                task_id="t",
                task_name="T",
                status="started",
                tasks_completed=0,
                tasks_total=3,
            ),
        )
        clock.now_ms += 60_000
        await RetryScheduler(coordinator.store, clock, Hub()).run_once()
        assert "retry_due" not in await kinds(coordinator)


async def test_the_cleaner_removes_swarms_completed_long_ago_and_no_others(
    store_address: str,
) -> None:
    clock = TestClock()
    async with coordinating(store_address, clock) as (coordinator, _):
        for swarm_id in ("old", "young", "open"):
            await coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=swarm_id))
            await coordinator.swarms.register(
                swarm_id,
                RegisterRequest(packet_id=1, packet_name="p", tasks_total=3, worktree="/w"),
            )
        done = CompleteRequest(
            packet_id=1, final_commit="abcdef0", tests_passed=True, review_passed=True
        )
        await coordinator.swarms.complete("old", done)
        clock.now_ms += 2 * DAY_MS
        await coordinator.swarms.complete("young", done)
        clock.now_ms += 29 * DAY_MS
        assert await Cleaner(coordinator.store, clock, retention_days=30).run_once() == 1
        with pytest.raises(UnknownSwarm):
            await coordinator.swarms.status("old")
        assert (await coordinator.swarms.status("young")).workers_complete == 1
        assert (await coordinator.swarms.status("open")).workers_registered == 1
        # The name is free again, and its history starts over.
        await coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id="old"))
        assert await kinds(coordinator, "old") == ["swarm_created"]
