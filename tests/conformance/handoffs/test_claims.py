"""Claims: a worker reports its task as done, and the server holds the attempt until it has been
verified. On both stores."""

from __future__ import annotations

import asyncio

import pytest

from shiftboss.errors import (
    IllegalTransition,
    InvalidRequest,
    KeyReused,
    NotHeld,
    StaleContract,
    StaleEpoch,
    TaskEnded,
    UnknownHandoff,
    UnknownSwarm,
)
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.states import WorkerState
from tests.conformance.bus.test_parked_polls import answer_of, parked
from tests.conformance.handoffs.handoff_fixtures import COMMIT, HandoffFixture
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-04")]

DAYS = 86_400


async def test_no_lease_runs_while_the_server_verifies(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.beat("w", lease_seconds=30)
    await handoffs.claim("t")
    held = await handoffs.attempt("t")
    assert (held.state, held.lease_expires_at_ms) == (WorkerState.VERIFYING, None)
    await handoffs.pass_seconds(3 * DAYS)
    # A heartbeat does not start it either.
    assert (await handoffs.beat("w", lease_seconds=5)).lease_expires_at is None
    await handoffs.pass_seconds(3 * DAYS)
    assert await handoffs.status("t") == "active"
    assert (await handoffs.attempt("t")).epoch == held.epoch
    await handoffs.accept()
    assert await handoffs.status("t") == "done"


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (MessageType.PROGRESS, {}),
        (MessageType.PROGRESS, {"state": "self_review"}),
        (MessageType.BLOCKED, {"question": "which?"}),
        (MessageType.CONTEXT_THRESHOLD, {}),
    ],
)
async def test_an_attempt_under_verification_takes_no_messages_from_its_worker(
    handoffs: HandoffFixture, kind: MessageType, payload: dict[str, str]
) -> None:
    await handoffs.given_out("t", "w")
    claim_id = await handoffs.claim("t")
    before = await handoffs.attempt("t")
    with pytest.raises(IllegalTransition) as refused:
        await handoffs.say(kind, "w", payload=payload)
    assert refused.value.facts == {"state": "verifying", "claim_id": claim_id}
    assert await handoffs.attempt("t") == before
    with pytest.raises(IllegalTransition):
        await handoffs.ask_for("t", "more.py")


async def test_a_repeated_claim_is_one_claim_and_a_different_one_must_wait(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    first = await handoffs.claim("t", commit=COMMIT, summary="s", cost=1.5)
    assert await handoffs.claim("t", commit=COMMIT, summary="s", cost=1.75, name="w") == first
    await handoffs.taken()
    assert await handoffs.claim("t", commit=COMMIT, summary="s") == first
    for commit, summary in (("a" * 40, "s"), (COMMIT, "x")):
        with pytest.raises(IllegalTransition):
            await handoffs.complete("t", commit=commit, summary=summary)
    assert len(await handoffs.events("claim_made")) == 1


async def test_an_idempotency_key_belongs_to_one_claim_forever(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.claim("t", key="k1", summary="s")
    with pytest.raises(KeyReused):
        await handoffs.complete("t", key="k1", summary="other words")
    await handoffs.refuse()
    assert (await handoffs.refusal_of("t", key="k1", summary="s")).facts["claim_id"] == 1
    assert await handoffs.claim("t", key="k2", summary="s") == 2
    # A late repeat of the first call is not a third claim.
    assert (await handoffs.refusal_of("t", key="k1", summary="s")).facts["claim_id"] == 1
    await handoffs.accept()
    assert (await handoffs.complete("t", key="k2", summary="s")).success is True
    assert len(await handoffs.events("claim_made")) == 2


async def test_a_verdict_nobody_waited_for_is_returned_to_a_repeated_claim(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.claim("t", name="w")
    await handoffs.refuse()
    assert (await handoffs.refusal_of("t")).facts["claim_id"] == 1
    assert (await handoffs.attempt("t")).refusals == 1
    # Repeating the claim after its verdict was delivered is a new claim.
    assert await handoffs.claim("t") == 2
    await handoffs.accept()
    assert (await handoffs.complete("t")).status == "accepted"
    assert (await handoffs.complete("t")).claim_id == 2


@pytest.mark.requirement("OWN-02")
async def test_an_accepted_claim_ends_the_task_and_frees_its_worker(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.add("next", after=["t"])
    await handoffs.submit("next")
    call = await handoffs.waiting("t", commit=COMMIT, summary="did it")
    await handoffs.accept()
    answer = await call
    assert (answer.success, answer.status, answer.commit) == (True, "accepted", COMMIT)
    receipt = await handoffs.receipt("t")
    assert receipt["receipt_id"] == answer.receipt_id
    assert (receipt["worker"], receipt["summary"], receipt["epoch"]) == ("w", "did it", 1)
    assert (await handoffs.status("t"), await handoffs.owners()) == ("done", set())
    # Its dependent goes to the worker that is now free.
    assert (await handoffs.given("w")).bead_id == "next"
    kinds = await handoffs.kinds("t")
    assert kinds[-3:] == ["claim_made", "claim_accepted", "task_done"]
    shown = await handoffs.show_handoff("t")
    assert shown.last_claim is not None
    assert (shown.last_claim["state"], shown.last_claim["verdict"]["commit"]) == (
        "accepted",
        COMMIT,
    )
    with pytest.raises(TaskEnded):
        await handoffs.complete("t", summary="other words")


async def test_the_workers_parked_poll_returns_the_verdict(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w")
    for verdict, kind in ((handoffs.refuse, "claim_refused"), (handoffs.accept, "claim_accepted")):
        await handoffs.claim("t", summary=kind)
        poll = await parked(handoffs, "w")
        await verdict()
        woken = await answer_of(poll)
        assert woken.task is None
        assert woken.verdict is not None
        assert (woken.verdict["kind"], woken.verdict["bead_id"]) == (kind, "t")


async def test_a_later_poll_returns_the_refusal_once(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.claim("t")
    await handoffs.refuse()
    verdict = (await handoffs.look("w")).verdict
    assert verdict is not None
    assert verdict["violations"][0]["message"] == "README.md: is not in files_owned"
    assert (await handoffs.look("w")).verdict is None
    assert (await handoffs.look("w")).timeout is True


# -- who may claim


async def test_a_claim_must_match_the_worker_the_attempt_and_the_contract(
    handoffs: HandoffFixture,
) -> None:
    epoch = await handoffs.given_out("t", "w", "a.py")
    await handoffs.replace("t", "b.py")
    with pytest.raises(NotHeld):
        await handoffs.complete("t", name="other")
    with pytest.raises(StaleEpoch):
        await handoffs.complete("t", epoch=epoch + 1)
    with pytest.raises(StaleContract) as stale:
        await handoffs.complete("t", contract_version=1)
    assert stale.value.facts == {"current_version": 2}
    with pytest.raises(UnknownHandoff):
        await handoffs.complete("t2")
    with pytest.raises(UnknownSwarm):
        await handoffs.complete("t", swarm_id="nowhere")
    assert await handoffs.take() is None
    await handoffs.claim("t", name="w", epoch=epoch, contract_version=2)
    # Not even with the content of an existing claim.
    for other in ({"name": "other"}, {"epoch": epoch + 1}):
        with pytest.raises((NotHeld, StaleEpoch)):
            await handoffs.complete("t", **other)


async def test_a_claim_for_a_lost_attempt_is_refused(handoffs: HandoffFixture) -> None:
    epoch = await handoffs.given_out("t", "w")
    await handoffs.pass_seconds(3600)
    await handoffs.register("v")
    await handoffs.start("v", "t")
    with pytest.raises(StaleEpoch):
        await handoffs.complete("t", name="w", epoch=epoch)
    with pytest.raises(NotHeld):
        await handoffs.complete("t", name="w")
    assert await handoffs.take() is None


async def test_a_claim_for_an_unassigned_task_opens_an_attempt(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.spawn("open", "a.py")
    await handoffs.spawn("queued", "b.py", submit=True)
    for task, name in (("open", None), ("queued", "helper")):
        await handoffs.claim(task, name=name)
        held = await handoffs.attempt(task)
        assert (held.epoch, held.worker) == (1, name or "unnamed")
        await handoffs.accept()
        assert await handoffs.status(task) == "done"
    assert (await handoffs.rows()).ready == {0: 0}
    await handoffs.register("w")
    assert (await handoffs.look("w")).task is None


async def test_an_attempt_opened_by_a_refused_claim_has_a_lease(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("t")
    await handoffs.claim("t")
    await handoffs.refuse()
    await handoffs.pass_seconds(1801)
    assert await handoffs.status("t") == "queued"


async def test_a_failed_task_can_be_claimed_only_after_a_new_submit(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.failed("t")
    with pytest.raises(NotHeld):
        await handoffs.complete("t")
    await handoffs.submit("t")
    await handoffs.start("w", "t")
    await handoffs.claim("t")


async def test_a_task_waiting_with_a_full_context_cannot_be_claimed(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w")
    await handoffs.say(MessageType.CONTEXT_THRESHOLD, "w")
    with pytest.raises(NotHeld):
        await handoffs.complete("t")


async def test_a_blocked_worker_cannot_claim_before_its_answer(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w")
    asked = await handoffs.say(MessageType.BLOCKED, "w", payload={"question": "which?"})
    with pytest.raises(IllegalTransition):
        await handoffs.complete("t")
    assert asked.question_id is not None
    await handoffs.answer(asked.question_id)
    await handoffs.claim("t")


async def test_a_packet_is_completed_by_its_own_report(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("packet-1")
    with pytest.raises(InvalidRequest) as refused:
        await handoffs.complete("packet-1")
    assert "swarm_packet_complete" in (refused.value.hint or "")


async def test_a_stopping_coordinator_answers_waiting_claims(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("t")
    waiting = await handoffs.waiting("t")
    await handoffs.taken()
    verifier = asyncio.create_task(handoffs.take("late", wait_ms=600_000))
    await eventually(lambda: handoffs.claim_service._takers, "a verifier waits")
    handoffs.coordinator.hub.close()
    async with asyncio.timeout(30):
        assert (await waiting).status == "verifying"
        assert await verifier is None
