"""A year of work on one database: what is kept does not grow with the time that has passed."""

from __future__ import annotations

import pytest

from shiftboss.coordinator.duties.cleaner import DAY_MS, Cleaner
from shiftboss.coordinator.runs import landings
from shiftboss.protocol.bus import DEFAULT_SWARM
from shiftboss.protocol.packets import CompleteRequest, RegisterRequest
from shiftboss.protocol.runs import ReportLandedRequest, ReportRunRequest
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.store.runs import cleaning_rows
from tests.conformance.bus.bus_fixtures import BusFixture
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture
from tests.conformance.runs.test_completion import Completing
from tests.conformance.runs.test_retention import execute
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-11")]

ROUNDS = 15
ROUND_DAYS = 25
# After these, as much is deleted as comes.
ROUNDS_TO_FILL = 4
# A receipt for each accepted task.
KEPT_FOR_EVER = {"receipts"}
# What is kept of each strategy is much; here it is less.
SIGNALS_KEPT = 2


async def run_a_plan(handoffs: HandoffFixture, swarm_id: str) -> HandoffFixture:
    """Accepted work lands, one task is given up, one is cancelled."""
    run = await handoffs.in_swarm(swarm_id)
    await run.coordinator.runs.report_run(
        ReportRunRequest(swarm_id=swarm_id, plan_file="/plan.yaml", auto_merge=True)
    )
    await run.finished("t", files_readonly=["docs/x"])
    landing = await run.coordinator.store.read(lambda tx: tx.landing(swarm_id, "t"))
    assert landing is not None
    report = ReportLandedRequest(
        swarm_id=swarm_id,
        bead_id="t",
        commit=landing.commit_sha,
        target="main",
        landed_commit=landing.commit_sha,
    )
    await run.coordinator.store.write(
        lambda tx: landings.record_landed(tx, report, None, run.clock.now_ms), swarm_id
    )
    await run.add_and_submit("fails")
    await run.register(f"agent-{swarm_id}")
    await run.start(f"agent-{swarm_id}", "fails")
    await run.failed("fails")
    await run.add("cancelled")
    await run.cancel("cancelled")
    return run


async def complete_packets(handoffs: HandoffFixture, swarm_id: str) -> None:
    swarms = handoffs.coordinator.swarms
    await swarms.create_swarm(CreateSwarmRequest(swarm_id=swarm_id))
    await swarms.register(
        swarm_id, RegisterRequest(packet_id=1, packet_name="p", tasks_total=1, worktree="/w")
    )
    await swarms.complete(
        swarm_id,
        CompleteRequest(packet_id=1, final_commit="abc1234", tests_passed=True, review_passed=True),
    )


async def work_on_the_bus(bus: BusFixture, number: int) -> None:
    """Each with a worker that never comes back."""
    worker = f"worker-{number}"
    await bus.register(worker)
    for task in (f"a-{number}", f"b-{number}"):
        await bus.add_and_submit(task)
        await bus.start(worker, task)
        await bus.done(task, worker)


def counts(store_address: str) -> dict[str, int]:
    is_file = "://" not in store_address
    tables = execute(
        store_address,
        "SELECT name FROM sqlite_schema WHERE type = 'table'"
        if is_file
        else "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
    )
    return {
        name: execute(store_address, f"SELECT count(*) FROM {name}")[0][0] for (name,) in tables
    }


async def counts_at_rest(store_address: str) -> dict[str, int]:
    """When the duty that empties the outbox has caught up."""

    def is_empty() -> bool:
        return counts(store_address)["notification_outbox"] == 0

    await eventually(is_empty, "the outbox is empty")
    return counts(store_address)


async def test_rows_stay_bounded(
    handoffs: HandoffFixture, store_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning_rows, "SIGNALS_KEPT", SIGNALS_KEPT)
    completing = Completing(handoffs)
    cleaner = Cleaner(handoffs.coordinator.store, handoffs.clock, retention_days=30)
    default = BusFixture(handoffs.coordinator, handoffs.clock, DEFAULT_SWARM)
    filled: dict[str, int] = {}
    for number in range(ROUNDS):
        run = await run_a_plan(handoffs, f"run-{number}")
        await complete_packets(handoffs, f"packets-{number}")
        await work_on_the_bus(default, number)
        await completing.look()
        status = await handoffs.coordinator.swarms.status(run.swarm_id)
        assert (status.status, status.completed_at is not None) == ("failed", True)
        handoffs.clock.now_ms += ROUND_DAYS * DAY_MS
        await cleaner.run_once()
        if number == ROUNDS_TO_FILL:
            filled = await counts_at_rest(store_address)
    rows = await counts_at_rest(store_address)
    grown = {name for name, count in rows.items() if count > filled[name]}
    assert grown == KEPT_FOR_EVER, {name: (filled[name], rows[name]) for name in grown}
    assert rows["receipts"] == ROUNDS
    assert rows["swarms"] < ROUNDS_TO_FILL, "the default swarm, and the last ones"
