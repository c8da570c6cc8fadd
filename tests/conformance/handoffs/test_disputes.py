"""A worker disputes its contract, and nobody is punished for it. On both stores."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.errors import (
    AlreadyAnswered,
    IllegalTransition,
    InvalidRequest,
    KeyReused,
    NotHeld,
    OwnershipOverlap,
    StaleContract,
    StaleEpoch,
    TaskEnded,
    UnknownHandoff,
)
from shiftboss.protocol.bus import ReasonView, StatusRequest, TaskRequest
from shiftboss.protocol.handoff_requests import (
    AmendHandoffRequest,
    DecideScopeRequest,
    DisputeContractRequest,
    DisputeView,
    HandoffView,
    PlanRequest,
    WaiveRequest,
)
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.packets import RegisterRequest
from shiftboss.protocol.runs import ParkTaskRequest, ReleaseFilesRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import REFUSALS_MAX
from shiftboss.rules.tasks.leases import BLOCKED_LEASE_SECONDS
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-15")]

REASON = "the test expects 3, the specification says 4"


async def dispute(
    handoffs: HandoffFixture, task: str = "t", key: str | None = None, **members: Any
) -> DisputeView:
    content = {"kind": "wrong", "reason": REASON} | members
    request = DisputeContractRequest(swarm_id=handoffs.swarm_id, bead_id=task, **content)
    return await handoffs.handoff_service.dispute_contract(request, key)


async def amend(handoffs: HandoffFixture, task: str = "t", **members: Any) -> HandoffView:
    content = {"reason": "you are right"} | members
    return await handoffs.handoff_service.amend_handoff(
        AmendHandoffRequest(swarm_id=handoffs.swarm_id, bead_id=task, **content)
    )


async def reasons(handoffs: HandoffFixture, task: str = "t") -> list[ReasonView]:
    request = TaskRequest(swarm_id=handoffs.swarm_id, bead_id=task)
    return (await handoffs.bus_service.why_task(request)).reasons


async def answers(handoffs: HandoffFixture, worker: str = "w") -> list[str]:
    return [answer["answer"] for answer in (await handoffs.look(worker)).answers or []]


async def test_a_dispute_blocks_the_attempt_on_a_question_with_everything_needed_to_decide(
    handoffs: HandoffFixture,
) -> None:
    epoch = await handoffs.given_out("t", "w", "a.py", blocked_contact="alice")
    asked = await dispute(
        handoffs, evidence="AssertionError: 4 != 3", commit="a" * 40, name="w", epoch=epoch
    )
    assert (asked.status, asked.contact, asked.contract_version) == ("blocked", "alice", 1)
    assert (await handoffs.attempt("t")).state is WorkerState.BLOCKED
    (question,) = await handoffs.questions()
    assert (question.question_id, question.contact) == (asked.question_id, "alice")
    assert question.dispute is not None
    assert (question.dispute.kind, question.dispute.reason) == ("wrong", REASON)
    assert question.question.splitlines() == [
        f"w disputes the contract of t: it is wrong: {REASON}",
        "Change the contract: `shiftboss handoff amend t --swarm default`",
        "Insist on it: `shiftboss questions answer 1 'the contract stands' --swarm default`",
        "Give the task up: `shiftboss task cancel t --swarm default`",
        f"A commit that shows it: {'a' * 40}",
        "Evidence:",
        "    AssertionError: 4 != 3",
    ]
    (event,) = await handoffs.events("contract_disputed")
    assert (event["kind"], event["reason"], event["question_id"]) == ("wrong", REASON, 1)


async def test_why_and_status_say_that_the_contract_is_disputed(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    await dispute(handoffs, kind="impossible", reason="no such call")
    status = await handoffs.bus_service.get_status(
        StatusRequest(swarm_id=handoffs.swarm_id, waiting=True)
    )
    for found in (await reasons(handoffs), status.waiting):
        (reason,) = found
        assert (reason.kind, reason.question_id) == ("dispute", 1)
        assert reason.text == "w disputes its contract: it cannot be met: no such call"
        assert reason.command == "shiftboss handoff amend t --swarm default"
        assert len(reason.also) == 2


async def test_a_dispute_costs_nothing_and_is_counted_for_the_strategy(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py", strategy="file-based")
    await handoffs.claim("t", name="w")
    await handoffs.refuse("criterion")
    before = await handoffs.coordinator.store.read(lambda tx: tx.strategies())
    handoffs.clock.now_ms += 1000
    await dispute(handoffs)
    after = await handoffs.coordinator.store.read(lambda tx: tx.strategies())
    assert [record.disputes for record in (*before, *after)] == [0, 1]
    for old, new in zip(before, after, strict=True):
        assert (old.wins, old.losses, old.samples) == (new.wins, new.losses, new.samples)
    task = await handoffs.show("t")
    assert (task.failures, task.attempt) == (0, 1)
    assert (await handoffs.attempt("t")).refusals == 1, "only that of the claim"
    signals = await handoffs.coordinator.store.read(lambda tx: tx.signals("file-based", 9))
    assert [(signal.kind, signal.impact) for signal in signals] == [
        ("dispute", "neutral"),
        ("refusal", "neutral"),
    ]
    plan = await handoffs.handoff_service.swarm_plan(PlanRequest(seed=1))
    disputes = {row["strategy"]: row["disputes"] for row in plan.strategies}
    assert (disputes["file-based"], disputes["risk-based"]) == (1, 0)


async def test_a_repeat_with_the_same_key_counts_once_even_after_the_answer(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py")
    first = await dispute(handoffs, key="k")
    await handoffs.answer(first.question_id)
    assert await dispute(handoffs, key="k") == first
    assert (await handoffs.attempt("t")).state is WorkerState.EXECUTING
    assert len(await handoffs.events("contract_disputed")) == 1
    with pytest.raises(KeyReused):
        await dispute(handoffs, key="k", reason="another")


async def test_a_second_dispute_while_one_is_open_is_the_open_one(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    first = await dispute(handoffs)
    assert await dispute(handoffs, kind="impossible", reason="again") == first
    assert len(await handoffs.questions()) == 1
    await handoffs.answer(first.question_id, "the contract stands")
    assert await answers(handoffs) == ["the contract stands"]
    assert (await dispute(handoffs, reason="again")).question_id == 2


async def test_a_dispute_that_was_answered_is_not_asked_again(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    first = await dispute(handoffs)
    await handoffs.answer(first.question_id, "the contract stands")
    for repeat in (REASON, f"{REASON.upper()}\n"):
        with pytest.raises(AlreadyAnswered) as refused:
            await dispute(handoffs, reason=repeat)
        assert refused.value.facts == {"question_id": 1, "answer": "the contract stands"}
    assert (await handoffs.attempt("t")).state is WorkerState.EXECUTING
    assert (await dispute(handoffs, kind="impossible")).question_id == 2
    handoffs.clock.now_ms += 1
    await amend(handoffs, success_criteria=["Tests pass: pytest"])
    assert (await dispute(handoffs)).question_id == 3, "the contract is another one"


async def test_a_blocked_message_can_carry_the_dispute(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    payload = {"dispute": {"kind": "impossible", "reason": "no such call", "evidence": "log"}}
    answer = await handoffs.say(MessageType.BLOCKED, "w", payload=payload)
    assert (answer.state, answer.question_id) == ("blocked", 1)
    (question,) = await handoffs.questions()
    assert question.dispute is not None
    assert (question.dispute.kind, question.dispute.evidence) == ("impossible", "log")
    for wrong, field in (
        ({"kind": "odd", "reason": "r"}, "payload.dispute.kind"),
        ({"kind": "wrong", "reason": "  "}, "payload.dispute.reason"),
        ("wrong", "payload.dispute"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await handoffs.say(MessageType.BLOCKED, "w", payload={"dispute": wrong})
        assert refused.value.field == field


async def test_a_dispute_is_refused_while_the_server_verifies_or_follows_ci(
    handoffs: HandoffFixture,
) -> None:
    epoch = await handoffs.given_out("t", "w", "a.py")
    await handoffs.claim("t", name="w")
    with pytest.raises(IllegalTransition, match="claim 1 of t is being verified"):
        await dispute(handoffs)
    await handoffs.refuse("criterion")
    held = await handoffs.attempt("t")
    handoffs.writes_rows = True
    follows_ci = held._replace(state=WorkerState.VERIFYING, lease_expires_at_ms=None)
    await handoffs.coordinator.store.write(
        lambda tx: tx.save_assignment(follows_ci), handoffs.swarm_id
    )
    with pytest.raises(IllegalTransition, match="follows the CI of t"):
        await dispute(handoffs)
    with pytest.raises(StaleEpoch):
        await dispute(handoffs, epoch=epoch + 1)
    with pytest.raises(NotHeld):
        await dispute(handoffs, name="another")
    assert await handoffs.questions() == []


async def test_a_worker_that_was_refused_too_often_can_still_dispute_the_contract(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py")
    for number in range(REFUSALS_MAX):
        await handoffs.claim("t", summary=str(number), name="w")
        await handoffs.refuse("criterion")
    assert (await handoffs.attempt("t")).state is WorkerState.BLOCKED
    assert (await dispute(handoffs)).question_id == 2
    assert [reason.kind for reason in await reasons(handoffs)][:2] == ["question", "dispute"]


async def test_only_a_task_with_a_contract_has_something_to_dispute(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.register("w")
    await handoffs.add_and_submit("plain")
    await handoffs.start("w", "plain")
    with pytest.raises(UnknownHandoff):
        await dispute(handoffs, "plain")
    payload = {"dispute": {"kind": "wrong", "reason": REASON}}
    with pytest.raises(UnknownHandoff):
        await handoffs.say(MessageType.BLOCKED, "w", payload=payload)
    await handoffs.coordinator.swarms.register(
        handoffs.swarm_id,
        RegisterRequest(packet_id=7, packet_name="p", tasks_total=1, worktree="/w"),
    )
    await handoffs.spawn("packet-7", "p.py")
    with pytest.raises(InvalidRequest, match="packet-7 is a packet"):
        await dispute(handoffs, "packet-7")


async def test_after_an_amendment_the_same_worker_continues_with_the_new_version(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py", branch="task", target="main")
    before = await handoffs.show_handoff("t")
    await dispute(handoffs)
    amended = await amend(
        handoffs,
        files=["a.py", "./test_a.py"],
        success_criteria=["Command passes: true"],
        expectations_change=["test_a.py"],
        version=1,
    )
    contract = amended.handoff["contract"]
    assert (contract["files_owned"], contract["success_criteria"]) == (
        ["a.py", "test_a.py"],
        ["Command passes: true"],
    )
    assert amended.policy["expectations_change"] == ["test_a.py"]
    assert amended.reason == "amended by the operator: you are right"
    for kept in ("base_commit", "branch", "target", "strategy", "repo"):
        assert getattr(amended, kept) == getattr(before, kept)
    held = await handoffs.attempt("t")
    assert (held.state, held.contract_version) == (WorkerState.EXECUTING, 2)
    answer = "you are right (tests may change what they expect in test_a.py)"
    assert await answers(handoffs) == [f"The contract has version 2 now: {answer}"]
    assert 'these tests of the base expect: ["test_a.py"].' in amended.prompt
    assert await handoffs.questions() == []
    await handoffs.claim("t", contract_version=2)
    assert (await handoffs.taken()).contract_version == 2


@pytest.mark.parametrize(
    "members",
    [
        {"success_criteria": ["Command passes: true"]},
        {"files_readonly": ["b.py"]},
        {"expectations_change": ["test_a.py"]},
    ],
)
async def test_an_amendment_is_kept_by_a_repeated_spawn_and_undone_by_a_replacement(
    handoffs: HandoffFixture, members: dict[str, Any]
) -> None:
    await handoffs.spawn("t", "a.py")
    before = await handoffs.show_handoff("t")
    amended = await amend(handoffs, **members)
    assert (await handoffs.spawn("t", "a.py")).contract_hash == amended.hash
    assert (await handoffs.replace("t", "a.py")).contract_version == 3
    after = await handoffs.show_handoff("t")
    assert (after.handoff, after.policy) == (before.handoff, before.policy)
    assert (await handoffs.replace("t", "a.py")).contract_version == 3, "the same request again"


async def test_a_replaced_contract_a_waiver_and_a_grant_settle_a_dispute(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py")
    await dispute(handoffs)
    await handoffs.replace("t", "a.py", "b.py")
    assert await answers(handoffs) == ["The contract has version 2 now: replaced by the operator"]
    await dispute(handoffs)
    await handoffs.handoff_service.waive(
        WaiveRequest(
            swarm_id=handoffs.swarm_id,
            bead_id="t",
            check="criterion",
            subject="It works",
            reason="it cannot",
        )
    )
    assert await answers(handoffs) == ["The check criterion of It works is waived: it cannot"]
    asked = await handoffs.ask_for("t", "Makefile")
    await dispute(handoffs)
    await handoffs.handoff_service.decide_scope(
        DecideScopeRequest(swarm_id=handoffs.swarm_id, request_id=asked.request_id, granted=True)
    )
    assert await handoffs.questions() == []
    assert "The contract has version 3 now: it owns Makefile" in await answers(handoffs)


async def test_a_dispute_outlives_an_attempt_that_was_parked(handoffs: HandoffFixture) -> None:
    epoch = await handoffs.given_out("t", "w", "a.py")
    await dispute(handoffs)
    park = ParkTaskRequest(
        swarm_id=handoffs.swarm_id, bead_id="t", name="w", epoch=epoch, reason="it has exited"
    )
    await handoffs.coordinator.runs.park_task(park)
    (reason,) = await reasons(handoffs)
    assert reason.kind == "dispute"
    assert (await handoffs.look("w")).task is None
    await amend(handoffs, success_criteria=["Command passes: true"])
    task = await handoffs.given("w")
    assert (task.contract_version, (await handoffs.show("t")).failures) == (2, 0)
    assert task.checkpoint == {"instructions": "The contract has version 2 now: you are right"}


@pytest.mark.parametrize("ending", ["lease", "reset", "run"])
async def test_a_dispute_outlives_a_worker_that_is_gone(
    handoffs: HandoffFixture, ending: str
) -> None:
    """The next worker would get the same contract, so it waits for the operator."""
    await handoffs.given_out("t", "w", "a.py")
    await dispute(handoffs)
    if ending == "lease":
        await handoffs.pass_seconds(BLOCKED_LEASE_SECONDS)
    elif ending == "reset":
        await handoffs.reset("w")
    else:
        release = ReleaseFilesRequest(swarm_id=handoffs.swarm_id, workers=["w"])
        await handoffs.coordinator.runs.release_files(release)
    assert (await reasons(handoffs))[0].kind == "dispute"
    assert (await handoffs.look("w")).task is None
    await handoffs.answer(1, "the contract stands")
    assert (await handoffs.given("w")).checkpoint == {"instructions": "the contract stands"}
    assert (await handoffs.show("t")).failures == 0


async def test_a_cancelled_task_has_no_dispute_left(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    await dispute(handoffs)
    await handoffs.cancel("t")
    assert await handoffs.questions() == []
    with pytest.raises(TaskEnded):
        await amend(handoffs, success_criteria=["Command passes: true"])


async def test_an_amendment_that_cannot_be_used_changes_nothing(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("other", "other.py")
    await handoffs.given_out("t", "w", "a.py")
    await dispute(handoffs)
    useless: list[tuple[dict[str, Any], str]] = [
        ({}, "files"),
        ({"files": ["../up.py"]}, "files.0"),
        ({"success_criteria": ["Tests pass: pytest 'open"]}, "success_criteria.0"),
        ({"expectations_change": ["/etc"]}, "expectations_change.0"),
    ]
    for members, field in useless:
        with pytest.raises(InvalidRequest) as refused:
            await amend(handoffs, **members)
        assert refused.value.field == field
    with pytest.raises(OwnershipOverlap):
        await amend(handoffs, files=["*.py"])
    with pytest.raises(StaleContract):
        await amend(handoffs, files=["b.py"], version=2)
    with pytest.raises(UnknownHandoff):
        await amend(handoffs, "nobody", files=["b.py"])
    assert (await handoffs.show_handoff("t")).version == 1
    assert len(await handoffs.questions()) == 1
    await handoffs.answer(1)
    await handoffs.claim("t")
    with pytest.raises(IllegalTransition, match="is being verified"):
        await amend(handoffs, files=["b.py"])
