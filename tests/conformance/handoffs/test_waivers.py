"""The operator waives a check of a task. On both stores."""

from __future__ import annotations

import pytest

from shiftboss.errors import Conflict, InvalidRequest, UnknownHandoff
from shiftboss.protocol.claims.verdicts import CheckName
from shiftboss.protocol.handoff_requests import WaiveRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.runs.records import LandingRecord
from tests.conformance.handoffs.handoff_fixtures import COMMIT, HandoffFixture, refused

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-09")]


async def test_the_commit_check_cannot_be_waived(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("t")
    with pytest.raises(InvalidRequest) as error:
        await handoffs.handoff_service.waive(WaiveRequest(bead_id="t", check="commit", reason="r"))
    assert error.value.field == "check"
    assert (await handoffs.show_handoff("t")).waivers == []


async def test_a_waiver_of_something_that_the_contract_does_not_have_is_refused(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.spawn("t")
    unknown = WaiveRequest(bead_id="t", check="canary", subject="nothing", reason="r")
    with pytest.raises(InvalidRequest) as error:
        await handoffs.handoff_service.waive(unknown)
    assert error.value.field == "subject"
    assert (await handoffs.show_handoff("t")).waivers == []
    assert await handoffs.events("waiver_granted") == []


async def test_only_a_task_with_a_handoff_can_get_a_waiver(handoffs: HandoffFixture) -> None:
    with pytest.raises(UnknownHandoff):
        await handoffs.handoff_service.waive(WaiveRequest(bead_id="t", check="scope", reason="r"))
    await handoffs.spawn("t")
    await handoffs.handoff_service.waive(
        WaiveRequest(bead_id="t", check="scope", reason="r", granted_by="Zoë")
    )
    (told,) = await handoffs.events("waiver_granted")
    assert (told["check"], told["subject"], told["granted_by"]) == ("scope", "*", "Zoë")
    assert (await handoffs.show_handoff("t")).waivers[0]["reason"] == "r"


def waiver_of(check: CheckName) -> WaiveRequest:
    return WaiveRequest(bead_id="t", check=check, reason="agreed")


async def test_a_waiver_of_accepted_work_is_refused(handoffs: HandoffFixture) -> None:
    await handoffs.finished("t")
    with pytest.raises(Conflict, match="is accepted, so a waiver has no effect"):
        await handoffs.handoff_service.waive(waiver_of("scope"))
    landing = LandingRecord(handoffs.swarm_id, "t", "r", COMMIT, 1, "main", COMMIT, 2)
    handoffs.writes_rows = True
    await handoffs.coordinator.store.write(lambda tx: tx.put_landing(landing), handoffs.swarm_id)
    with pytest.raises(Conflict, match="t has landed, so a waiver has no effect") as error:
        await handoffs.handoff_service.waive(waiver_of("scope"))
    assert "shiftboss receipt show t --swarm" in (error.value.hint or "")
    assert (await handoffs.show_handoff("t")).waivers == []


@pytest.mark.parametrize("has_work", [True, False])
async def test_a_claim_without_work_gets_no_waiver_of_its_ancestry(
    handoffs: HandoffFixture, has_work: bool
) -> None:
    """Its receipt would contradict itself. Work that does not descend from the base is work."""
    await handoffs.given_out("t", "w")
    await handoffs.claim("t", name="w", commit="a" * 40)
    job = await handoffs.taken()
    claimed = "a" * 40 if has_work else job.base_commit
    await handoffs.report(job, refused(job, "ancestry", commit=claimed))
    if has_work:
        await handoffs.handoff_service.waive(waiver_of("ancestry"))
    else:
        with pytest.raises(Conflict, match="there is no work to accept") as error:
            await handoffs.handoff_service.waive(waiver_of("ancestry"))
        assert "shiftboss task retry t --swarm" in (error.value.hint or "")
    assert len((await handoffs.show_handoff("t")).waivers) == int(has_work)


async def test_waivers_of_all_that_was_refused_answer_the_question_about_it(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    for commit in ("a", "b", "c"):
        await handoffs.claim("t", name="w", commit=commit * 40)
        job = await handoffs.taken()
        both = refused(job).violations + refused(job, "tests_kept").violations
        await handoffs.report(job, refused(job, violations=both))
    assert (await handoffs.attempt("t")).state == WorkerState.BLOCKED
    await handoffs.handoff_service.waive(waiver_of("scope"))
    assert len(await handoffs.questions()) == 1, "the other reason is left"
    await handoffs.handoff_service.waive(waiver_of("tests_kept"))
    assert await handoffs.questions() == []
    assert (await handoffs.attempt("t")).state == WorkerState.EXECUTING
    (asked,) = await handoffs.questions(only_open=False)
    assert asked.answer == "The check tests_kept is waived: agreed"
