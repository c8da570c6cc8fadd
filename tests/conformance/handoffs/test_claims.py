"""Claims: a worker says that its task is done, and the server holds the attempt until it has
looked. On both stores."""

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
from tests.conformance.handoffs.handoff_fixtures import COMMIT, HandoffRoom
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-04")]

DAYS = 86_400


async def test_no_lease_runs_while_the_server_verifies(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w")
    await shop.beat("w", lease_seconds=30)
    await shop.claim("t")
    held = await shop.attempt("t")
    assert (held.state, held.lease_expires_at_ms) == (WorkerState.VERIFYING, None)
    await shop.pass_seconds(3 * DAYS)
    # A sign of life does not start it either.
    assert (await shop.beat("w", lease_seconds=5)).lease_expires_at is None
    await shop.pass_seconds(3 * DAYS)
    assert await shop.status("t") == "active"
    assert (await shop.attempt("t")).epoch == held.epoch
    await shop.accept()
    assert await shop.status("t") == "done"


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (MessageType.PROGRESS, {}),
        (MessageType.PROGRESS, {"state": "self_review"}),
        (MessageType.BLOCKED, {"question": "which?"}),
        (MessageType.CONTEXT_THRESHOLD, {}),
    ],
)
async def test_an_attempt_that_is_verified_is_in_the_servers_hands(
    shop: HandoffRoom, kind: MessageType, payload: dict[str, str]
) -> None:
    await shop.given_out("t", "w")
    claim_id = await shop.claim("t")
    before = await shop.attempt("t")
    with pytest.raises(IllegalTransition) as refused:
        await shop.say(kind, "w", payload=payload)
    assert refused.value.facts == {"state": "verifying", "claim_id": claim_id}
    assert await shop.attempt("t") == before
    with pytest.raises(IllegalTransition):
        await shop.ask_for("t", "more.py")


async def test_the_same_words_are_one_claim_and_others_have_to_wait(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w")
    first = await shop.claim("t", commit=COMMIT, summary="s", cost=1.5)
    assert await shop.claim("t", commit=COMMIT, summary="s", cost=1.75, name="w") == first
    await shop.taken()
    assert await shop.claim("t", commit=COMMIT, summary="s") == first
    for commit, summary in (("a" * 40, "s"), (COMMIT, "x")):
        with pytest.raises(IllegalTransition):
            await shop.complete("t", commit=commit, summary=summary)
    assert len(await shop.events("claim_made")) == 1


async def test_a_key_is_one_claim_for_ever(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w")
    await shop.claim("t", key="k1", summary="s")
    with pytest.raises(KeyReused):
        await shop.complete("t", key="k1", summary="other words")
    await shop.refuse()
    assert (await shop.refusal_of("t", key="k1", summary="s")).facts["claim_id"] == 1
    assert await shop.claim("t", key="k2", summary="s") == 2
    # A late repeat of the first call is not a third claim.
    assert (await shop.refusal_of("t", key="k1", summary="s")).facts["claim_id"] == 1
    await shop.accept()
    assert (await shop.complete("t", key="k2", summary="s")).success is True
    assert len(await shop.events("claim_made")) == 2


async def test_a_verdict_that_nobody_waited_for_is_told_to_who_asks_again(
    shop: HandoffRoom,
) -> None:
    await shop.given_out("t", "w")
    await shop.claim("t", name="w")
    await shop.refuse()
    assert (await shop.refusal_of("t")).facts["claim_id"] == 1
    assert (await shop.attempt("t")).refusals == 1
    # Who has heard it and says the same again wants another look.
    assert await shop.claim("t") == 2
    await shop.accept()
    assert (await shop.complete("t")).status == "accepted"
    assert (await shop.complete("t")).claim_id == 2


@pytest.mark.requirement("OWN-02")
async def test_an_accepted_claim_ends_the_task_and_frees_its_worker(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w")
    await shop.add("next", after=["t"])
    await shop.submit("next")
    call = await shop.waiting("t", commit=COMMIT, summary="did it")
    await shop.accept()
    answer = await call
    assert (answer.success, answer.status, answer.commit) == (True, "accepted", COMMIT)
    receipt = await shop.receipt("t")
    assert receipt["receipt_id"] == answer.receipt_id
    assert (receipt["worker"], receipt["summary"], receipt["epoch"]) == ("w", "did it", 1)
    assert (await shop.status("t"), await shop.owners()) == ("done", set())
    # What waited for it goes to the worker that is free now.
    assert (await shop.given("w")).bead_id == "next"
    kinds = await shop.kinds("t")
    assert kinds[-3:] == ["claim_made", "claim_accepted", "task_done"]
    shown = await shop.show_handoff("t")
    assert shown.last_claim is not None
    assert (shown.last_claim["state"], shown.last_claim["verdict"]["commit"]) == (
        "accepted",
        COMMIT,
    )
    with pytest.raises(TaskEnded):
        await shop.complete("t", summary="other words")


async def test_the_parked_poll_of_the_worker_hears_the_verdict(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w")
    for verdict, kind in ((shop.refuse, "claim_refused"), (shop.accept, "claim_accepted")):
        await shop.claim("t", summary=kind)
        poll = await parked(shop, "w")
        await verdict()
        woken = await answer_of(poll)
        assert woken.task is None
        assert woken.verdict is not None
        assert (woken.verdict["kind"], woken.verdict["bead_id"]) == (kind, "t")


async def test_a_worker_that_polls_later_is_told_the_refusal_once(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w")
    await shop.claim("t")
    await shop.refuse()
    verdict = (await shop.look("w")).verdict
    assert verdict is not None
    assert verdict["violations"][0]["message"] == "README.md: is not in files_owned"
    assert (await shop.look("w")).verdict is None
    assert (await shop.look("w")).timeout is True


# -- who may claim


async def test_a_claim_is_of_this_worker_this_attempt_and_this_contract(
    shop: HandoffRoom,
) -> None:
    epoch = await shop.given_out("t", "w", "a.py")
    await shop.replace("t", "b.py")
    with pytest.raises(NotHeld):
        await shop.complete("t", name="other")
    with pytest.raises(StaleEpoch):
        await shop.complete("t", epoch=epoch + 1)
    with pytest.raises(StaleContract) as stale:
        await shop.complete("t", contract_version=1)
    assert stale.value.facts == {"current_version": 2}
    with pytest.raises(UnknownHandoff):
        await shop.complete("t2")
    with pytest.raises(UnknownSwarm):
        await shop.complete("t", swarm_id="nowhere")
    assert await shop.take() is None
    await shop.claim("t", name="w", epoch=epoch, contract_version=2)
    # Not even with the words of a claim that is there.
    for other in ({"name": "other"}, {"epoch": epoch + 1}):
        with pytest.raises((NotHeld, StaleEpoch)):
            await shop.complete("t", **other)


async def test_a_claim_of_a_lost_attempt_is_refused(shop: HandoffRoom) -> None:
    epoch = await shop.given_out("t", "w")
    await shop.pass_seconds(3600)
    await shop.register("v")
    await shop.start("v", "t")
    with pytest.raises(StaleEpoch):
        await shop.complete("t", name="w", epoch=epoch)
    with pytest.raises(NotHeld):
        await shop.complete("t", name="w")
    assert await shop.take() is None


async def test_a_claim_about_a_task_that_nobody_was_given_opens_the_attempt(
    shop: HandoffRoom,
) -> None:
    await shop.spawn("open", "a.py")
    await shop.spawn("queued", "b.py", submit=True)
    for task, name in (("open", None), ("queued", "helper")):
        await shop.claim(task, name=name)
        held = await shop.attempt(task)
        assert (held.epoch, held.worker) == (1, name or "unnamed")
        await shop.accept()
        assert await shop.status(task) == "done"
    assert (await shop.rows()).ready == {0: 0}
    await shop.register("w")
    assert (await shop.look("w")).task is None


async def test_a_refused_attempt_that_a_claim_opened_has_a_lease(shop: HandoffRoom) -> None:
    await shop.spawn("t")
    await shop.claim("t")
    await shop.refuse()
    await shop.pass_seconds(1801)
    assert await shop.status("t") == "queued"


async def test_a_failed_task_is_claimed_after_a_new_submit_only(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w")
    await shop.failed("t")
    with pytest.raises(NotHeld):
        await shop.complete("t")
    await shop.submit("t")
    await shop.start("w", "t")
    await shop.claim("t")


async def test_a_task_that_waits_with_a_full_context_cannot_be_claimed(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w")
    await shop.say(MessageType.CONTEXT_THRESHOLD, "w")
    with pytest.raises(NotHeld):
        await shop.complete("t")


async def test_a_blocked_worker_waits_for_its_answer_first(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w")
    asked = await shop.say(MessageType.BLOCKED, "w", payload={"question": "which?"})
    with pytest.raises(IllegalTransition):
        await shop.complete("t")
    assert asked.question_id is not None
    await shop.answer(asked.question_id)
    await shop.claim("t")


async def test_a_packet_is_completed_by_its_own_report(shop: HandoffRoom) -> None:
    await shop.spawn("packet-1")
    with pytest.raises(InvalidRequest) as refused:
        await shop.complete("packet-1")
    assert "swarm_packet_complete" in (refused.value.hint or "")


async def test_a_coordinator_that_stops_answers_who_waits(shop: HandoffRoom) -> None:
    await shop.spawn("t")
    waiting = await shop.waiting("t")
    await shop.taken()
    verifier = asyncio.create_task(shop.take("late", wait_ms=600_000))
    await eventually(lambda: shop.handoffs._takers, "a verifier waits")
    shop.coordinator.hub.close()
    async with asyncio.timeout(10):
        assert (await waiting).status == "verifying"
        assert await verifier is None
