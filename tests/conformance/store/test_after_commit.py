"""Effects after a commit, on both stores."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from shiftboss.coordinator.after_commit import outcome_log, runner
from shiftboss.coordinator.after_commit.registry import EFFECTS
from shiftboss.coordinator.after_commit.runner import AfterCommit, Effect
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.event_hub import Hub
from shiftboss.errors import InvalidRequest, LeadershipLost
from shiftboss.protocol.events import Event, EventKind
from shiftboss.protocol.packets import CompleteRequest, RegisterRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.store.open_store import store_at
from shiftboss.store.port import Transaction, Transactions
from tests.conformance.store.rows import swarm
from tests.waiting import eventually

pytestmark = pytest.mark.anyio


class Recorder:
    """An effect that records the swarms it ran for; idempotent, as effects must be."""

    def __init__(self, name: str = "recorder", kind: EventKind = EventKind.SWARM_CREATED) -> None:
        self.runs: list[str] = []
        self.catch_ups = 0
        self.effect = Effect(name, frozenset({kind}), self._run, self._catch_up)

    @property
    def swarms(self) -> set[str]:
        return set(self.runs)

    async def _run(self, event: Event) -> None:
        self.runs.append(event.swarm_id)

    async def _catch_up(self, store: Transactions) -> None:
        rows = await store.read(lambda tx: tx.swarms_before(None, 100))
        self.runs += [row.swarm.swarm_id for row in rows]
        self.catch_ups += 1


@asynccontextmanager
async def coordinating(address: str, *effects: Effect) -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(store_at(address), effects=effects)
    await coordinator.start()
    try:
        yield coordinator
    finally:
        await coordinator.stop()


async def create(coordinator: Coordinator, *swarm_ids: str) -> None:
    for swarm_id in swarm_ids:
        await coordinator.swarms.create_swarm(CreateSwarmRequest(swarm_id=swarm_id))


async def test_an_effect_runs_for_committed_events_of_its_kinds_in_order(
    store_address: str,
) -> None:
    recorder = Recorder()
    completions = Recorder(kind=EventKind.SWARM_COMPLETE)
    async with coordinating(store_address, completions.effect, recorder.effect) as coordinator:
        await eventually(lambda: recorder.catch_ups == 1, "the effects have started")
        await create(coordinator, "a", "b", "c")
        await eventually(lambda: len(recorder.runs) == 3, "the effect ran")
    assert recorder.runs == ["a", "b", "c"]
    assert completions.runs == []


async def test_a_rolled_back_event_has_no_effect(store_address: str) -> None:
    recorder = Recorder()

    def refuse(tx: Transaction) -> None:
        tx.take_swarm("a")
        tx.add_event("a", EventKind.SWARM_CREATED, 1, {"swarm_id": "a"})
        raise InvalidRequest("refused after a write")

    async with coordinating(store_address, recorder.effect) as coordinator:
        await eventually(lambda: recorder.catch_ups == 1, "the effects have started")
        await create(coordinator, "a")
        with pytest.raises(InvalidRequest):
            await coordinator.store.write(refuse, "a")
        await create(coordinator, "b")
        await eventually(lambda: "b" in recorder.swarms, "the effect ran")
    assert recorder.runs == ["a", "b"]


async def test_an_effect_that_fails_or_hangs_is_logged_and_the_others_run(
    store_address: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "EFFECT_SECONDS_MAX", 0.01)

    async def fail(_event: Event) -> None:
        raise ZeroDivisionError

    async def hang(_event: Event) -> None:
        await asyncio.Event().wait()

    kinds = frozenset({EventKind.SWARM_CREATED})
    recorder = Recorder()
    effects = [Effect("fails", kinds, fail), Effect("hangs", kinds, hang), recorder.effect]
    async with coordinating(store_address, *effects) as coordinator:
        await eventually(lambda: recorder.catch_ups == 1, "the effects have started")
        await create(coordinator, "a", "b")
        await eventually(lambda: recorder.runs == ["a", "b"], "the other effect ran")
    messages = [record.getMessage() for record in caplog.records]
    assert messages.count("effect fails failed") == 2
    assert messages.count("effect hangs was cancelled after 0 s") == 2


async def test_effects_skipped_by_a_crash_run_at_the_next_start(store_address: str) -> None:
    """The process that committed "a" ends before any effect has run."""
    async with coordinating(store_address) as coordinator:
        await create(coordinator, "a")
    recorder = Recorder()
    async with coordinating(store_address, recorder.effect) as coordinator:
        await eventually(lambda: recorder.swarms == {"a"}, "the effect is caught up")
        await create(coordinator, "b")
        await eventually(lambda: recorder.swarms == {"a", "b"}, "the next one runs")


async def test_a_reply_does_not_wait_for_an_effect(store_address: str) -> None:
    started, finish = asyncio.Event(), asyncio.Event()

    async def wait(_event: Event) -> None:
        started.set()
        await finish.wait()

    effect = Effect("slow", frozenset({EventKind.SWARM_CREATED}), wait)
    recorder = Recorder()
    async with coordinating(store_address, recorder.effect, effect) as coordinator:
        await eventually(lambda: recorder.catch_ups == 1, "the effects have started")
        await create(coordinator, "a")
        async with asyncio.timeout(30):
            await started.wait()
        await create(coordinator, "b")
        assert not finish.is_set()
        finish.set()
        await eventually(lambda: recorder.swarms == {"a", "b"}, "the queue goes on")


async def test_a_full_queue_catches_up_from_the_store(
    sqlite_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "QUEUED_EVENTS_MAX", 1)
    hub, recorder = Hub(), Recorder()
    store = store_at(sqlite_path)
    await store.open(hub.publish, lambda: None)
    effects = AfterCommit(store, hub, [recorder.effect])
    hub.publish([Event("nobody", 1, EventKind.SWARM_CREATED.value, 0, "{}")])
    running = asyncio.create_task(effects.run())
    try:
        await eventually(lambda: recorder.catch_ups == 1, "the effects have started")
        assert recorder.runs == [], "nothing is queued while the effects do not run"
        hub.publish([Event(f"s{n}", 1, EventKind.SWARM_CREATED.value, 0, "{}") for n in range(3)])
        await eventually(lambda: recorder.catch_ups == 2, "what did not fit is read again")
        await eventually(lambda: recorder.runs == ["s0"], "what did fit has run")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.close()


async def test_one_of_two_servers_runs_the_effects_for_both(postgres_url: str) -> None:
    first, second = Recorder(), Recorder()
    async with coordinating(postgres_url, first.effect) as one:
        await eventually(lambda: first.catch_ups == 1, "the first server has the duties")
        async with coordinating(postgres_url, second.effect) as other:
            await create(one, "a")
            await create(other, "b")
            await eventually(lambda: first.swarms == {"a", "b"}, "the first runs both effects")
            assert second.runs == []
        assert second.catch_ups == 0


async def test_outcomes_are_logged(store_address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=outcome_log.__name__)
    started = Recorder()
    async with coordinating(store_address, *EFFECTS, started.effect) as coordinator:
        await eventually(lambda: started.catch_ups == 1, "the effects have started")
        await create(coordinator, "s")
        packet = RegisterRequest(packet_id=1, packet_name="p", tasks_total=1, worktree="/w")
        await coordinator.swarms.register("s", packet)
        done = CompleteRequest(
            packet_id=1, final_commit="abcdef0", tests_passed=True, review_passed=True
        )
        assert (await coordinator.swarms.complete("s", done)).swarm_complete
        await eventually(lambda: bool(caplog.records), "the outcome is logged")
    (record,) = [record for record in caplog.records if record.name == outcome_log.__name__]
    assert record.getMessage() == "swarm_complete: swarm s (event 4)"


async def test_a_server_that_does_not_lead_any_more_runs_no_effect(store_address: str) -> None:
    """It was stopped, and does not know yet that another server has caught up."""
    recorder = Recorder()
    asked: list[bool] = []
    leads = True

    def leads_now() -> bool:
        asked.append(leads)
        return leads

    store = store_at(store_address)
    hub = Hub(is_alone=not store.shared)
    await store.open(hub.publish, lambda: None)
    effects = AfterCommit(store, hub, [recorder.effect], leads_now)
    running = asyncio.create_task(effects.run())
    try:
        await eventually(lambda: recorder.catch_ups == 1, "the effects have started")
        leads = False
        await store.write(lambda tx: tx.add_swarm(swarm("a")), "a")
        await store.write(lambda tx: tx.add_event("a", EventKind.SWARM_CREATED, 1, {}), "a")
        await eventually(lambda: asked[-2:] == [False, False], "it has asked twice")
        assert recorder.runs == []
        # The lease was only renewed late.
        leads = True
        await eventually(lambda: recorder.runs == ["a"], "the effect ran")
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.close()


async def test_a_lease_that_ends_for_a_moment_does_not_lose_effects(store_address: str) -> None:
    """The leader was stopped while it caught up, and renewed its lease before anybody took over."""
    recorder = Recorder()
    attempts = 0

    async def catch_up(store: Transactions) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise LeadershipLost
        assert recorder.effect.catch_up is not None
        await recorder.effect.catch_up(store)

    effect = recorder.effect._replace(catch_up=catch_up)
    async with coordinating(store_address, effect):
        await eventually(lambda: recorder.catch_ups == 1, "it caught up later")
