"""Held-out tests are kept by the server and given to verifiers only, on both stores."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shiftboss.errors import Forbidden, HandoffExists, InvalidRequest
from shiftboss.protocol.claims.verdicts import Outcome
from shiftboss.protocol.handoff_requests import AmendHandoffRequest, SpawnAnswer
from shiftboss.protocol.handoffs import HeldOutTests, held_out_hash
from shiftboss.store.port import Transaction
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, accepted

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-14")]

MARKER = "zebra"
FILES = {f"tests/test_{MARKER}.py": f"def test_{MARKER}(): ...\0ä\n"}
HELD_OUT: dict[str, Any] = {
    "files": FILES,
    "criterion": f"Tests pass: python -m pytest tests/test_{MARKER}.py",
}


async def spawn(handoffs: HandoffFixture, task: str, **members: Any) -> SpawnAnswer:
    """As the operator."""
    members.setdefault("held_out", HELD_OUT)
    return await handoffs.handoff_service.spawn_subtask(handoffs.spawn_request(task, **members))


async def test_only_a_verifier_gets_them(handoffs: HandoffFixture) -> None:
    answer = await spawn(handoffs, "bd-1", submit=True)
    assert MARKER not in answer.model_dump_json()
    shown = await handoffs.show_handoff("bd-1")
    tests = HeldOutTests(**HELD_OUT)
    assert shown.held_out == held_out_hash(tests)
    assert MARKER not in shown.model_dump_json()
    await handoffs.claim("bd-1")
    assert (await handoffs.taken()).held_out == tests


async def test_only_the_operator_may_give_them(handoffs: HandoffFixture) -> None:
    with pytest.raises(Forbidden) as refused:
        await handoffs.spawn("bd-1", held_out=HELD_OUT)
    assert refused.value.field == "held_out"
    assert MARKER not in repr(refused.value.facts) + str(refused.value)
    assert await handoffs.owners() == set()


async def test_a_wider_contract_keeps_them(handoffs: HandoffFixture) -> None:
    await handoffs.register("w")
    await spawn(handoffs, "bd-1", submit=True)
    await handoffs.start("w", "bd-1")
    granted = await handoffs.ask_for("bd-1", "src/more.py")
    assert granted.contract_version == 2
    await handoffs.claim("bd-1")
    job = await handoffs.taken()
    assert job.contract_version == 2
    assert job.held_out is not None
    assert job.held_out.files == FILES


async def test_a_repeated_spawn_is_the_same_contract_and_another_set_is_another(
    handoffs: HandoffFixture,
) -> None:
    first = await spawn(handoffs, "bd-1")
    assert await spawn(handoffs, "bd-1") == first
    for other in ({"files": {"tests/test_a.py": "x"}, "criterion": HELD_OUT["criterion"]}, None):
        with pytest.raises(HandoffExists) as refused:
            await spawn(handoffs, "bd-1", held_out=other)
        assert MARKER not in str(refused.value) + repr(refused.value.facts)
    replaced = await handoffs.replace("bd-1", held_out=None)
    # The worker's part of the contract is the same.
    assert (replaced.contract_version, replaced.contract_hash) == (2, first.contract_hash)
    await handoffs.claim("bd-1")
    assert (await handoffs.taken()).held_out is None


async def test_they_are_deleted_with_their_swarm(handoffs: HandoffFixture) -> None:
    other = await handoffs.in_swarm("other")
    await spawn(other, "bd-1")
    handoff = await handoffs.coordinator.store.read(lambda tx: tx.handoff("other", "bd-1"))
    assert handoff is not None

    def delete(tx: Transaction) -> None:
        tx.delete_swarm("other")

    await handoffs.coordinator.store.write(delete, "other")
    with pytest.raises(AssertionError, match="stored with the handoff"):
        await handoffs.coordinator.store.read(lambda tx: tx.held_out_tests(handoff))


@pytest.mark.parametrize(
    ("field", "members"),
    [
        ("held_out.files", {"files": {"../a.py": "x"}}),
        ("held_out.files", {"files": {".git/config": "x"}}),
        ("held_out.files", {"files": {f"{number}.py": "x" * 50_000 for number in range(4)}}),
        ("held_out.criterion", {"criterion": "Command passes: true"}),
        ("held_out.criterion", {"criterion": "Tests pass: a | b"}),
        ("held_out", {"criterion": None}),
    ],
)
async def test_a_set_that_cannot_be_run_is_refused(
    handoffs: HandoffFixture, field: str, members: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await spawn(handoffs, "bd-1", held_out=HELD_OUT | members)
    assert refused.value.field == field


async def test_an_amendment_must_keep_a_criterion_that_runs_them(handoffs: HandoffFixture) -> None:
    shared = {"files": FILES}
    await spawn(handoffs, "shared", success_criteria=["Tests pass: pytest"], held_out=shared)
    await spawn(handoffs, "own")

    async def amend(task: str, criterion: str) -> int:
        request = AmendHandoffRequest(
            swarm_id=handoffs.swarm_id, bead_id=task, success_criteria=[criterion], reason="easier"
        )
        return (await handoffs.handoff_service.amend_handoff(request)).version

    with pytest.raises(InvalidRequest) as refused:
        await amend("shared", "Command passes: true")
    assert refused.value.field == "success_criteria"
    assert (await handoffs.show_handoff("shared")).version == 1
    assert await amend("shared", "Tests pass: pytest tests") == 2
    assert await amend("own", "Command passes: true") == 2


@pytest.mark.parametrize("outcome", [None, "unverifiable"])
async def test_a_verdict_that_leaves_them_out_is_not_signed(
    handoffs: HandoffFixture, outcome: Outcome | None
) -> None:
    await spawn(handoffs, "bd-1")
    await handoffs.claim("bd-1")
    job = await handoffs.taken()
    scope, held_out = accepted(job).checks
    other = [held_out.model_copy(update={"outcome": outcome})] if outcome else []
    with pytest.raises(InvalidRequest) as refusal:
        await handoffs.report(job, accepted(job, checks=[scope, *other]))
    assert refusal.value.field == "verdict"
    assert (await handoffs.last_claim("bd-1")).state == "taken"
    waived = held_out.model_copy(update={"outcome": "waived"})
    assert await handoffs.report(job, accepted(job, checks=[scope, waived])) == "accepted"


async def test_no_event_and_no_receipt_has_them(handoffs: HandoffFixture) -> None:
    await handoffs.register("w")
    await spawn(handoffs, "bd-1", submit=True)
    await handoffs.start("w", "bd-1")
    await handoffs.claim("bd-1", name="w")
    await handoffs.refuse("held_out")
    await handoffs.refusal_of("bd-1", name="w")
    await handoffs.claim("bd-1", name="w", summary="again")
    await handoffs.accept()
    events = await handoffs.coordinator.swarms.events_after(handoffs.swarm_id, 0, 1000)
    assert len(events) > 5
    assert MARKER not in "".join(event.data for event in events)
    assert MARKER not in json.dumps(await handoffs.receipt("bd-1"))
