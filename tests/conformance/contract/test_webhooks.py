"""A webhook and the watcher at the same time: no news are lost, and a tired forge is left alone."""

from __future__ import annotations

import pytest

from shiftboss.coordinator.contract import ci
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.webhooks import check_now
from shiftboss.rules.contract.records import Tracking
from tests.conformance.contract.contract_fixtures import ContractRoom, all_waiting, down, runs

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-03")]


async def told(site: ContractRoom, seen: Tracking) -> bool:
    now_ms = site.clock.now_ms
    return await site.coordinator.store.write(lambda tx: check_now(tx, seen, now_ms), site.swarm_id)


async def followed(site: ContractRoom) -> Tracking:
    await site.works_on("alphavm")
    sha = await site.pushes("alphavm")
    await site.ci_says(all_waiting(sha))
    return await site.tracking("alphavm")


async def test_the_look_is_due_at_once(site: ContractRoom) -> None:
    seen = await followed(site)
    assert seen.look_at_ms is not None
    assert seen.look_at_ms > site.clock.now_ms
    assert await told(site, seen)
    site.evidence.told[seen.sha] = runs(seen.sha)
    await site.watcher.run_once()
    assert (await site.tracking("alphavm")).state == "passed"


async def test_news_that_come_during_a_look_are_looked_at_next(site: ContractRoom) -> None:
    seen = await followed(site)
    site.clock.now_ms += 3_600_000
    # The look has begun; before it is written down, the forge tells.
    assert await told(site, seen)
    site.clock.now_ms += 10
    now_ms, active_policy = site.clock.now_ms, ActivePolicy(site.policy)
    report = all_waiting(seen.sha)
    await site.coordinator.store.write(
        lambda tx: ci.record_report(tx, active_policy, seen, report, now_ms), site.swarm_id
    )
    assert (await site.tracking("alphavm")).look_at_ms == now_ms


async def test_a_forge_that_did_not_answer_is_left_alone(site: ContractRoom) -> None:
    seen = await followed(site)
    site.evidence.told[seen.sha] = down()
    await site.ci_is_due()
    resting = await site.tracking("alphavm")
    assert not await told(site, resting)
    assert await site.tracking("alphavm") == resting


async def test_a_commit_that_was_replaced_is_not_looked_at(site: ContractRoom) -> None:
    seen = await followed(site)
    newer = await site.pushes("alphavm", 1)
    await site.ci_says(all_waiting(newer))
    waiting = await site.tracking("alphavm")
    assert not await told(site, seen)
    assert await site.tracking("alphavm") == waiting
