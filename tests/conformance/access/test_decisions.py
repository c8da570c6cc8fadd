"""Receipts, waivers and reviews name who acted, by the token."""

from __future__ import annotations

import pytest

from shiftboss.protocol.handoff_requests import WaiveRequest
from shiftboss.protocol.runs import ApproveRequest
from shiftboss.rules.access.actors import LOCAL, OPERATOR, Actor
from shiftboss.rules.access.roles import Role
from tests.conformance.current_actor import acting_as
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-06", "OWN-02")]

ALICE = Actor("alice", Role.OPERATOR, token_id="tok-1")
AGENT = Actor("agent:t", Role.WORKER, "default", "t", token_id="tok-2")


async def test_a_receipt_names_who_made_the_claim(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("t")
    with acting_as(AGENT):
        await handoffs.claim("t")
    # Whoever repeats it, and whoever verifies it, is not who made it.
    with acting_as(LOCAL):
        await handoffs.claim("t")
    with acting_as(ALICE):
        await handoffs.accept()
    receipt = await handoffs.receipt("t")
    assert (receipt["format"], receipt["actor"]) == ("shiftboss-receipt/3", "agent:t")


@pytest.mark.parametrize(("actor", "name"), [(ALICE, "alice"), (OPERATOR, "ada"), (LOCAL, "ada")])
async def test_a_waiver_and_a_review_name_the_token(
    handoffs: HandoffFixture, actor: Actor, name: str
) -> None:
    await handoffs.plan("t", review="required")
    with acting_as(actor):
        await handoffs.handoff_service.waive(
            WaiveRequest(bead_id="t", check="scope", reason="r", granted_by="ada")
        )
        [granted] = await handoffs.events("waiver_granted")
        assert granted["granted_by"] == name
        await handoffs.claim("t")
        await handoffs.accept()
        await handoffs.coordinator.runs.approve(ApproveRequest(bead_id="t", by="ada"))
    [approved] = await handoffs.events("review_approved")
    assert approved["by"] == name
