"""The claims of a task, each with its verdict check by check, on both stores."""

from __future__ import annotations

import pytest

from shiftboss.errors import UnknownTask
from shiftboss.protocol.claims.verdicts import Canary, CheckResult, Mutant, MutantTotals
from shiftboss.protocol.history import ListTaskClaimsRequest, TaskClaimView
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, refused

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-04")]


async def claims_of(handoffs: HandoffFixture, task: str, limit: int = 20) -> list[TaskClaimView]:
    request = ListTaskClaimsRequest(swarm_id=handoffs.swarm_id, bead_id=task, limit=limit)
    return (await handoffs.coordinator.history.list_task_claims(request)).claims


async def test_each_claim_has_its_verdict(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w")
    assert await claims_of(handoffs, "t") == []
    await handoffs.claim("t", summary="first", name="w")
    (waiting,) = await claims_of(handoffs, "t")
    assert (waiting.state, waiting.checks, waiting.decided_at) == ("waiting", [], None)
    await handoffs.refuse()
    await handoffs.claim("t", summary="second", name="w")
    await handoffs.accept()
    second, first = await claims_of(handoffs, "t")
    assert (first.state, first.summary, first.receipt_id) == ("refused", "first", None)
    assert [(check.name, check.result) for check in first.checks] == [("scope", "failed")]
    assert first.violations[0].message == "README.md: is not in files_owned"
    assert (second.state, second.epoch, second.worker) == ("accepted", 1, "w")
    assert second.receipt_id is not None
    assert (second.commit, second.decided_at) != (None, None)
    assert await claims_of(handoffs, "t", limit=1) == [second]
    with pytest.raises(UnknownTask):
        await claims_of(handoffs, "nothing")


async def test_evidence_canaries_and_mutants_are_told_with_their_criterion(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.claim("t", name="w")
    job = await handoffs.taken()
    check = CheckResult(
        check="mutants",
        outcome="failed",
        message="one mutant survived",
        subject="Tests pass: pytest",
        exit_code=1,
        output_tail="1 failed",
        canaries=[Canary(test="test_a", change="assert False", outcome="failed")],
        mutants=[Mutant(path="a.py", line=3, change="+ to -", killed_by=None)],
        mutant_totals=MutantTotals(tried=2, killed=1),
    )
    await handoffs.report(job, refused(job, commit=None, tree=None, checks=[check]))
    (claim,) = await claims_of(handoffs, "t")
    (told,) = claim.checks
    assert (told.evidence, told.exit_code, told.subject) == ("1 failed", 1, "Tests pass: pytest")
    assert told.mutant_totals == MutantTotals(tried=2, killed=1)
    assert (claim.canaries[0].test, claim.canaries[0].subject) == ("test_a", "Tests pass: pytest")
    assert (claim.mutants[0].line, claim.mutants[0].killed_by) == (3, None)
