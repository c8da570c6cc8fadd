"""Webhooks alongside the watcher: no update is lost, and a failing forge is left alone."""

from __future__ import annotations

import pytest

from shiftboss.coordinator.contract import ci
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.webhooks import check_now
from shiftboss.rules.contract.records import Tracking
from tests.conformance.contract.contract_fixtures import ContractFixture, all_waiting, down, runs

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-03")]


async def told(contract: ContractFixture, seen: Tracking) -> bool:
    now_ms = contract.clock.now_ms
    return await contract.coordinator.store.write(
        lambda tx: check_now(tx, seen, now_ms), contract.swarm_id
    )


async def followed(contract: ContractFixture) -> Tracking:
    await contract.works_on("alphavm")
    sha = await contract.pushes("alphavm")
    await contract.ci_says(all_waiting(sha))
    return await contract.tracking("alphavm")


async def test_a_webhook_makes_the_next_check_due_immediately(contract: ContractFixture) -> None:
    seen = await followed(contract)
    assert seen.look_at_ms is not None
    assert seen.look_at_ms > contract.clock.now_ms
    assert await told(contract, seen)
    contract.evidence.told[seen.sha] = runs(seen.sha)
    await contract.watcher.run_once()
    assert (await contract.tracking("alphavm")).state == "passed"


async def test_a_webhook_that_arrives_during_a_check_triggers_another(
    contract: ContractFixture,
) -> None:
    seen = await followed(contract)
    contract.clock.now_ms += 3_600_000
    # The check has started; the webhook arrives before its result is stored.
    assert await told(contract, seen)
    contract.clock.now_ms += 10
    now_ms, active_policy = contract.clock.now_ms, ActivePolicy(contract.policy)
    report = all_waiting(seen.sha)
    await contract.coordinator.store.write(
        lambda tx: ci.record_report(tx, active_policy, seen, report, now_ms), contract.swarm_id
    )
    assert (await contract.tracking("alphavm")).look_at_ms == now_ms


async def test_a_webhook_does_not_cut_the_backoff_of_an_unresponsive_forge_short(
    contract: ContractFixture,
) -> None:
    seen = await followed(contract)
    contract.evidence.told[seen.sha] = down()
    await contract.ci_is_due()
    resting = await contract.tracking("alphavm")
    assert not await told(contract, resting)
    assert await contract.tracking("alphavm") == resting


async def test_a_replaced_commit_is_not_checked(contract: ContractFixture) -> None:
    seen = await followed(contract)
    newer = await contract.pushes("alphavm", 1)
    await contract.ci_says(all_waiting(newer))
    waiting = await contract.tracking("alphavm")
    assert not await told(contract, seen)
    assert await contract.tracking("alphavm") == waiting
