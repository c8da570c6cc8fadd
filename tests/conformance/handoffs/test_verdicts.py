"""What happens to a claim after its verification, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from shiftboss.errors import ContractViolations, InvalidRequest, NotHeld
from shiftboss.protocol.states import WorkerState
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, accepted, refused

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-04")]


async def test_a_refusal_names_every_violation_and_closes_nothing(handoffs: HandoffFixture) -> None:
    epoch = await handoffs.given_out("t", "w")
    await handoffs.beat("w", lease_seconds=300)
    call = await handoffs.waiting("t", name="w")
    job = await handoffs.taken()
    verdict = refused(job)
    more = verdict.violations[0].model_copy(update={"message": "b.py: is a submodule"})
    await handoffs.report(
        job, verdict.model_copy(update={"violations": [*verdict.violations, more]})
    )
    with pytest.raises(ContractViolations) as refusal:
        await call
    assert refusal.value.detail == (
        "Contract violations detected:\n- README.md: is not in files_owned\n- b.py: is a submodule"
    )
    assert refusal.value.hint == "change it back"
    held = await handoffs.attempt("t")
    assert (held.state, held.epoch, held.claim_id, held.refusals) == (
        WorkerState.EXECUTING,
        epoch,
        None,
        1,
    )
    # A new lease of the normal length.
    assert held.lease_expires_at_ms == handoffs.clock.now_ms + 300_000
    assert (await handoffs.status("t"), await handoffs.owners()) == ("active", {"t"})
    with pytest.raises(NotHeld):
        await handoffs.complete("t", name="other")
    await handoffs.pass_seconds(301)
    assert (await handoffs.kinds("t"))[-2:] == ["attempt_ended", "task_queued"]


async def test_after_three_consecutive_refusals_the_contact_is_asked(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", blocked_contact="alice")
    for number in range(1, 4):
        assert (await handoffs.attempt("t")).state is WorkerState.EXECUTING
        assert await handoffs.questions() == []
        await handoffs.claim("t", summary=str(number), name="w")
        await handoffs.refuse()
    assert [event["escalated"] for event in await handoffs.events("claim_refused")] == [
        False,
        False,
        True,
    ]
    (question,) = await handoffs.questions()
    assert (question.contact, question.worker, question.bead_id) == ("alice", "w", "t")
    assert "refused 3 times in a row" in question.question
    assert "README.md" in question.question
    assert (await handoffs.attempt("t")).state is WorkerState.BLOCKED

    await handoffs.answer(question.question_id, "leave README.md alone")
    answers = (await handoffs.look("w")).answers
    assert answers is not None
    assert answers[0]["answer"] == "leave README.md alone"
    # The count restarts.
    for number in range(2):
        await handoffs.claim("t", summary=f"again {number}", name="w")
        await handoffs.refuse()
    assert await handoffs.questions() == []
    await handoffs.claim("t", summary="mended")
    await handoffs.accept()
    assert await handoffs.status("t") == "done"


async def test_the_question_about_refusals_is_withdrawn_when_another_attempt_starts(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    for number in range(3):
        await handoffs.claim("t", summary=str(number), name="w")
        await handoffs.refuse()
    await handoffs.failed("t")
    assert len(await handoffs.questions()) == 1, "until somebody decides"
    await handoffs.retry("t")
    assert await handoffs.questions() == []


@pytest.mark.requirement("HO-06")
async def test_anonymous_claims_do_not_count_against_the_holder(
    handoffs: HandoffFixture,
) -> None:
    """Anybody who knows the task can make them."""
    epoch = await handoffs.given_out("t", "w")
    for number in range(4):
        await handoffs.claim("t", summary=f"bad {number}")
        await handoffs.refuse()
    assert [event["refusals"] for event in await handoffs.events("claim_refused")] == [0, 0, 0, 0]
    assert (await handoffs.questions(), (await handoffs.attempt("t")).refusals) == ([], 0)
    # A caller with the epoch or the name acts for the holder.
    await handoffs.claim("t", summary="with an epoch", epoch=epoch)
    await handoffs.refuse()
    await handoffs.claim("t", summary="with a name", name="w")
    await handoffs.refuse()
    await handoffs.claim("t", summary="nobody again")
    await handoffs.refuse()
    assert (await handoffs.attempt("t")).refusals == 2
    assert await handoffs.questions() == []


@pytest.mark.requirement("HO-06")
async def test_completing_an_unassigned_task_makes_the_caller_its_holder(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.spawn("t")
    for number in range(3):
        await handoffs.claim("t", summary=str(number))
        await handoffs.refuse()
    (question,) = await handoffs.questions()
    assert question.worker == "unnamed"


@pytest.mark.requirement("OWN-02")
@pytest.mark.parametrize("name", ["w", None])
async def test_the_receipt_says_who_claimed(handoffs: HandoffFixture, name: str | None) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.claim("t", name=name)
    await handoffs.accept()
    receipt = await handoffs.receipt("t")
    assert (receipt["worker"], receipt["claimed_by"]) == ("w", name)
    last = (await handoffs.show_handoff("t")).last_claim
    assert last is not None
    assert last["claimed_by"] == name


Ending = Callable[[HandoffFixture], Awaitable[object]]
ENDINGS: dict[str, Ending] = {
    "reset": lambda handoffs: handoffs.reset("w"),
    "retry": lambda handoffs: handoffs.retry("t"),
    "cancel": lambda handoffs: handoffs.cancel("t"),
    "failed": lambda handoffs: handoffs.failed("t"),
}


@pytest.mark.parametrize("how", ENDINGS)
async def test_a_verdict_that_arrives_after_the_attempt_changes_nothing(
    handoffs: HandoffFixture, how: str
) -> None:
    await handoffs.given_out("t", "w")
    call = await handoffs.waiting("t")
    job = await handoffs.taken()
    await ENDINGS[how](handoffs)
    with pytest.raises(NotHeld):  # woken at once
        async with asyncio.timeout(30):
            await call
    assert (await handoffs.last_claim("t")).state == "void"
    assert await handoffs.renew(job) is False
    before = await handoffs.rows()
    for verdict in (accepted(job), refused(job)):
        assert await handoffs.report(job, verdict) == "void"
    assert await handoffs.not_seen(job) == "void"
    assert await handoffs.rows() == before
    assert await handoffs.take() is None
    kinds = await handoffs.kinds("t")
    assert not {"claim_accepted", "claim_refused", "task_done"} & set(kinds)


async def test_a_late_verdict_does_not_affect_the_next_attempt(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.claim("t", summary="s")
    first = await handoffs.taken()
    await handoffs.reset("w")
    await handoffs.start("w", "t")
    assert await handoffs.claim("t", summary="s") == 2  # the same content, another attempt
    assert await handoffs.report(first, accepted(first)) == "void"
    assert await handoffs.status("t") == "active"
    second = await handoffs.taken()
    assert (second.claim_id, second.epoch) == (2, 2)
    assert await handoffs.report(second, accepted(second)) == "accepted"
    assert await handoffs.report(second, refused(second)) == "void"


async def test_only_the_verifier_that_took_the_claim_can_report_its_verdict(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.spawn("t")
    await handoffs.claim("t")
    job = await handoffs.taken("one")
    assert await handoffs.report(job, accepted(job), "other") == "void"
    assert await handoffs.renew(job, "other") is False
    assert await handoffs.status("t") == "active"
    assert await handoffs.report(job, accepted(job), "one") == "accepted"


async def test_a_verdict_that_contradicts_itself_is_refused(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("t")
    await handoffs.claim("t")
    job = await handoffs.taken()
    good, bad = accepted(job), refused(job)
    for wrong in (
        good.model_copy(update={"commit": None}),
        good.model_copy(update={"tree": None}),
        good.model_copy(update={"commit": "abc1234"}),
        good.model_copy(update={"violations": bad.violations}),
        good.model_copy(update={"checks": bad.checks}),
        good.model_copy(update={"base_commit": "e" * 40}),
    ):
        with pytest.raises(InvalidRequest) as refusal:
            await handoffs.report(job, wrong)
        assert refusal.value.field == "verdict"
    assert (await handoffs.last_claim("t")).state == "taken"
    assert await handoffs.report(job, good) == "accepted"
