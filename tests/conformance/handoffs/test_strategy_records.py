"""What completions, refusals and failures teach about their strategy, on both stores."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss.protocol.claims.verdicts import Change
from shiftboss.protocol.handoff_requests import PlanAnswer, PlanRequest
from shiftboss.protocol.packets import ErrorRequest, RegisterRequest
from shiftboss.rules.handoffs.handoffs import Signal
from shiftboss.rules.handoffs.strategies import KNOWN_STRATEGIES, StrategyRecord
from shiftboss.store.port import Transaction
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-08")]


async def signals(handoffs: HandoffFixture, strategy: str = "file-based") -> list[Signal]:
    return await handoffs.coordinator.store.read(lambda tx: tx.signals(strategy, 100))


def about(signal: Signal) -> dict[str, Any]:
    details: dict[str, Any] = json.loads(signal.details)
    return details


async def plan(handoffs: HandoffFixture, seed: int) -> PlanAnswer:
    return await handoffs.handoff_service.swarm_plan(PlanRequest(goal="Add a login", seed=seed))


async def test_every_outcome_of_a_claim_or_an_attempt_is_one_signal(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py", "b.py", strategy="file-based")
    handoffs.clock.now_ms += 1000
    await handoffs.failed("t", "Build failed")
    await handoffs.submit("t")
    await handoffs.start("w", "t")
    handoffs.clock.now_ms += 2000
    await handoffs.claim("t", summary="1", cost=0.5, name="w")
    await handoffs.refuse()
    await handoffs.claim("t", summary="2", name="w")
    await handoffs.refuse("criterion")
    handoffs.clock.now_ms += 3000
    await handoffs.claim("t", summary="3", cost=2.25)
    await handoffs.accept(changes=[Change(path="a.py", status="M")], files_changed=1)

    recorded = list(reversed(await signals(handoffs)))
    assert [(signal.kind, signal.impact, signal.violation_type) for signal in recorded] == [
        ("failure", "negative", "failure"),
        ("refusal", "negative", "scope_creep"),
        ("refusal", "neutral", "criterion"),
        ("completion", "positive", None),
    ]
    failure, refusal, _, completion = map(about, recorded)
    assert (failure["reason"], failure["duration_ms"], failure["retries"]) == (
        "Build failed",
        1000,
        0,
    )
    assert refusal["violations"] == ["README.md: is not in files_owned"]
    assert (refusal["duration_ms"], refusal["cost"]) == (2000, 0.5)
    assert completion["files_planned"] == ["a.py", "b.py"]
    assert completion["files_changed"] == ["a.py"]
    assert (completion["duration_ms"], completion["cost"]) == (5000, 2.25)
    assert (completion["retries"], completion["refusals"]) == (1, 2)


async def test_an_attempt_without_an_outcome_records_no_signal(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", strategy="file-based")
    await handoffs.claim("t")
    job = await handoffs.taken()
    await handoffs.reset("w")
    await handoffs.not_seen(job)
    assert await signals(handoffs) == []
    await handoffs.cancel("t")
    # Without a handoff the strategy is unknown.
    await handoffs.add_and_submit("plain")
    await handoffs.start("w", "plain")
    await handoffs.failed("plain")
    assert await handoffs.coordinator.store.read(lambda tx: tx.strategies()) == []


async def test_tasks_without_a_strategy_are_recorded_separately(handoffs: HandoffFixture) -> None:
    await handoffs.finished("t")
    assert [signal.kind for signal in await signals(handoffs, "unnamed")] == ["completion"]
    assert {row["strategy"] for row in (await plan(handoffs, 1)).strategies} == set(
        KNOWN_STRATEGIES
    )


async def test_a_failed_packet_records_a_signal_too(handoffs: HandoffFixture) -> None:
    there = await handoffs.in_swarm("packets")
    await there.spawn("packet-1", "a.py", strategy="file-based")
    register = RegisterRequest(packet_id=1, packet_name="p", tasks_total=1, worktree="/w")
    await handoffs.coordinator.swarms.register("packets", register)
    error = ErrorRequest(
        packet_id=1, task_id="s", error_type="logic_error", message="boom", recoverable=False
    )
    await handoffs.coordinator.swarms.error("packets", error)
    await handoffs.coordinator.swarms.error("packets", error)  # the packet has already failed
    (signal,) = await signals(handoffs)
    assert (signal.kind, signal.task_id, about(signal)["reason"]) == ("failure", "packet-1", "boom")


async def test_the_choice_follows_the_evidence(handoffs: HandoffFixture) -> None:
    before = await plan(handoffs, 7)
    assert await plan(handoffs, 7) == before
    assert "samples" in before.reason
    outcomes = dict.fromkeys(KNOWN_STRATEGIES, False) | {"feature-based": True}
    for strategy, good in outcomes.items():
        for number in range(4):
            name = f"{strategy}-{number}"
            await handoffs.spawn(name, f"{name}.py", strategy=strategy)
            await handoffs.claim(name)
            await (handoffs.accept() if good else handoffs.refuse())
            handoffs.clock.now_ms += 1
    chosen = [(await plan(handoffs, seed)).strategy for seed in range(20)]
    assert chosen.count("feature-based") >= 15
    rows = {row["strategy"]: row for row in (await plan(handoffs, 1)).strategies}
    assert rows["feature-based"]["samples"] == rows["file-based"]["samples"] == 4
    assert rows["feature-based"]["mean"] > 0.7
    assert rows["file-based"]["mean"] < 0.3
    # Half of it is forgotten after ninety days.
    handoffs.clock.now_ms += 90 * 86_400_000
    faded = {row["strategy"]: row for row in (await plan(handoffs, 1)).strategies}
    assert faded["file-based"]["losses"] == pytest.approx(rows["file-based"]["losses"] / 2)


async def test_a_plan_shows_what_went_wrong_with_its_strategy(handoffs: HandoffFixture) -> None:
    strategy = (await plan(handoffs, 3)).strategy
    await handoffs.given_out("t", "w", strategy=strategy)
    for check in ("scope", "criterion"):
        await handoffs.claim("t", summary=check)
        await handoffs.refuse(check)
        handoffs.clock.now_ms += 1
    await handoffs.claim("t", summary="mended")
    await handoffs.accept()

    def others_are_worse(tx: Transaction) -> None:
        for name in set(KNOWN_STRATEGIES) - {strategy}:
            tx.put_strategy(StrategyRecord(name, 0.0, 50.0, 50, handoffs.clock.now_ms))

    await handoffs.coordinator.store.write(others_are_worse, handoffs.swarm_id)
    answer = await plan(handoffs, 1)
    assert answer.strategy == strategy
    assert [lesson["violation_type"] for lesson in answer.lessons] == ["criterion", "scope_creep"]
    assert answer.lessons[1]["violations"] == ["README.md: is not in files_owned"]
