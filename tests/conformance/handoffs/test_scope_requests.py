"""A worker asks for more files; a rule or the operator decides. On both stores."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.errors import (
    AlreadyAnswered,
    Forbidden,
    InvalidRequest,
    NotHeld,
    OwnershipOverlap,
    StaleContract,
    TaskEnded,
    UnknownHandoff,
    UnknownQuestion,
    UnknownSwarm,
)
from shiftboss.protocol.handoff_requests import (
    DecideScopeRequest,
    ListScopeRequestsRequest,
    ScopeView,
    WaiveRequest,
)
from shiftboss.protocol.handoffs import PATHS_MAX
from shiftboss.protocol.states import WorkerState
from tests.conformance.handoffs.handoff_fixtures import HandoffRoom

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-09")]


async def decide(shop: HandoffRoom, request_id: int, granted: bool, words: str = "") -> ScopeView:
    return await shop.handoffs.decide_scope(
        DecideScopeRequest(
            swarm_id=shop.swarm_id, request_id=request_id, granted=granted, decision=words
        )
    )


async def owned(shop: HandoffRoom) -> list[str]:
    files: list[str] = (await shop.show_handoff("t")).handoff["contract"]["files_owned"]
    return files


async def test_a_file_that_nobody_owns_is_granted_at_once(shop: HandoffRoom) -> None:
    epoch = await shop.given_out("t", "w", "a.py")
    granted = await shop.ask_for("t", "src/./b.py", "src/ü c.py", name="w", epoch=epoch)
    assert (granted.status, granted.contract_version) == ("granted", 2)
    assert granted.paths == ["src/b.py", "src/ü c.py"]
    assert await owned(shop) == ["a.py", "src/b.py", "src/ü c.py"]
    shown = await shop.show_handoff("t")
    assert shown.reason == "scope request 1 of w: needed"
    held = await shop.attempt("t")
    assert (held.state, held.contract_version) == (WorkerState.EXECUTING, 2)
    with pytest.raises(OwnershipOverlap):
        await shop.spawn("other", "src/*.py")
    with pytest.raises(StaleContract):
        await shop.complete("t", contract_version=1)
    await shop.claim("t", contract_version=2)
    assert (await shop.taken()).contract_version == 2


async def test_the_same_words_again_are_the_same_request(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w", "a.py")
    first = await shop.ask_for("t", "b.py")
    assert await shop.ask_for("t", "b.py") == first
    asked = await shop.ask_for("t", "Makefile")
    assert (await shop.ask_for("t", "Makefile")).request_id == asked.request_id
    assert len(await shop.questions()) == 1
    await decide(shop, asked.request_id, False)
    assert (await shop.ask_for("t", "Makefile")).request_id == 3


@pytest.mark.parametrize(
    ("path", "why", "members"),
    [
        ("theirs.py", "other owns theirs.py", {}),
        ("lib/x.py", "lib/x.py is read-only by contract", {}),
        ("LIB/X.py", "LIB/X.py is read-only by contract", {}),
        ("deep/conftest.py", "deep/conftest.py decides how the work is checked", {}),
        ("src/*.py", "src/*.py may be more than one file", {}),
        ("src/", "src/ may be more than one file", {}),
        ("src", "src may be more than one file", {}),
        ("b.py", "the policy requires a decision", {"policy": {"scope_requests": "ask"}}),
    ],
)
async def test_all_else_is_asked_of_the_contact(
    shop: HandoffRoom, path: str, why: str, members: dict[str, Any]
) -> None:
    await shop.spawn("other", "theirs.py")
    said = {"files_readonly": ["lib/x.py"], "blocked_contact": "alice"} | members
    await shop.given_out("t", "w", "a.py", **said)
    asked = await shop.ask_for("t", "free.py", path, reason="I need it")
    assert (asked.status, asked.contract_version) == ("open", 1)
    assert [one["bead_id"] for one in asked.holders] == (["other"] if "theirs" in path else [])
    (question,) = await shop.questions()
    assert question.contact == "alice"
    assert f"not granted by rule: {why}" in question.question
    assert "I need it" in question.question
    assert (await shop.attempt("t")).state is WorkerState.BLOCKED
    assert await owned(shop) == ["a.py"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("check.py", "is named by a command that checks the work"),
        ("checks/deep/x.py", "is named by a command that checks the work"),
        ("json.py", "lies beside a script that checks the work, and may be imported by it"),
        ("src/json.py", "may be imported in place of json"),
        ("src/test_a.py", "belongs to the tests"),
        ("prepare/x.js", "is named by a command that checks the work"),
    ],
)
async def test_what_decides_how_the_work_is_checked_is_not_granted_by_rule(
    shop: HandoffRoom, path: str, why: str
) -> None:
    await shop.given_out(
        "t",
        "w",
        "a.py",
        success_criteria=["Command passes: python3 check.py", "Tests pass: runner checks/"],
        policy={"setup": ["node prepare"]},
    )
    assert (await shop.ask_for("t", "src/plain.py")).status == "granted"
    asked = await shop.ask_for("t", path)
    assert (asked.status, asked.contract_version) == ("open", 2)
    assert await owned(shop) == ["a.py", "src/plain.py"]
    (question,) = await shop.questions()
    assert f"not granted by rule: {path} {why}" in question.question


async def test_a_worker_cannot_answer_its_own_request(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w", "a.py")
    asked = await shop.ask_for("t", "Makefile")
    (question,) = await shop.questions()
    with pytest.raises(Forbidden) as refused:
        await shop.answer(question.question_id, "granted")
    assert refused.value.hint is not None
    assert f"shiftboss scope grant {asked.request_id}" in refused.value.hint
    assert (await shop.attempt("t")).state is WorkerState.BLOCKED
    assert [one.answer for one in await shop.questions()] == [None]
    await decide(shop, asked.request_id, False)
    with pytest.raises(AlreadyAnswered):
        await shop.answer(question.question_id, "granted")


async def test_a_request_is_over_with_the_attempt_that_made_it(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w", "a.py")
    await shop.ask_for("t", "Makefile")
    assert [one.status for one in await listed(shop, only_open=True)] == ["open"]
    await shop.reset("w")
    assert await listed(shop, only_open=True) == []
    assert [one.status for one in await listed(shop)] == ["over"]
    await shop.start("w", "t")
    assert await listed(shop, only_open=True) == []
    again = await shop.ask_for("t", "Makefile")
    assert [one.request_id for one in await listed(shop, only_open=True)] == [again.request_id]


async def test_the_operators_grant_is_the_answer_that_the_worker_waits_for(
    shop: HandoffRoom,
) -> None:
    await shop.given_out("t", "w", "a.py", files_readonly=["lib.py", "x.py"])
    asked = await shop.ask_for("t", "lib.py")
    granted = await decide(shop, asked.request_id, True, "be careful")
    assert (granted.status, granted.contract_version) == ("granted", 2)
    contract = (await shop.show_handoff("t")).handoff["contract"]
    assert (contract["files_owned"], contract["files_readonly"]) == (["a.py", "lib.py"], ["x.py"])
    answers = (await shop.look("w")).answers
    assert answers is not None
    assert answers[0]["answer"] == (
        "Scope request 1 was granted; the contract has version 2 now: be careful"
    )
    assert (await shop.attempt("t")).state is WorkerState.EXECUTING
    assert await decide(shop, asked.request_id, True) == granted
    with pytest.raises(AlreadyAnswered):
        await decide(shop, asked.request_id, False)
    assert [one["state"] for one in await shop.events("scope_decided")] == ["granted"]


async def test_the_operators_refusal_leaves_the_contract_and_lets_the_worker_go_on(
    shop: HandoffRoom,
) -> None:
    await shop.given_out("t", "w", "a.py")
    asked = await shop.ask_for("t", "Makefile")
    no = await decide(shop, asked.request_id, False, "not yours")
    assert (no.status, no.contract_version, no.decision) == ("refused", 1, "not yours")
    assert await decide(shop, asked.request_id, False, "other words") == no
    with pytest.raises(AlreadyAnswered):
        await decide(shop, asked.request_id, True)
    answers = (await shop.look("w")).answers
    assert answers is not None
    assert answers[0]["answer"] == "Scope request 1 was refused: not yours"
    assert (await shop.attempt("t")).state is WorkerState.EXECUTING
    assert await owned(shop) == ["a.py"]
    with pytest.raises(UnknownQuestion):
        await decide(shop, 99, True)


async def test_what_another_task_owns_cannot_be_granted(shop: HandoffRoom) -> None:
    await shop.spawn("other", "b.py")
    await shop.given_out("t", "w", "a.py")
    asked = await shop.ask_for("t", "b.py")
    with pytest.raises(OwnershipOverlap) as refused:
        await decide(shop, asked.request_id, True)
    assert refused.value.field == "paths"
    assert (await listed(shop))[0].status == "open"
    await shop.cancel("other")
    assert (await decide(shop, asked.request_id, True)).contract_version == 2


async def test_a_grant_that_the_verifier_would_not_honour_is_refused(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w", "a.py", files_readonly=["lib/**"])
    asked = await shop.ask_for("t", "lib/x.py")
    with pytest.raises(InvalidRequest) as refused:
        await decide(shop, asked.request_id, True)
    assert "files_readonly" in refused.value.detail


async def test_a_contract_does_not_grow_without_end(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w", *(f"d{number}.py" for number in range(PATHS_MAX)))
    with pytest.raises(InvalidRequest) as refused:
        await shop.ask_for("t", "b.py")
    assert refused.value.field == "paths"
    assert (await shop.show_handoff("t")).version == 1


async def test_a_task_that_is_over_is_granted_nothing(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w", "a.py")
    asked = await shop.ask_for("t", "Makefile")
    await shop.cancel("t")
    with pytest.raises(TaskEnded):
        await decide(shop, asked.request_id, True)
    assert await shop.owners() == set()
    assert (await decide(shop, asked.request_id, False)).status == "refused"


async def test_a_worker_asks_for_its_own_task_only(shop: HandoffRoom) -> None:
    epoch = await shop.given_out("t", "w", "a.py")
    with pytest.raises(NotHeld):
        await shop.ask_for("t", "b.py", name="other")
    with pytest.raises(UnknownHandoff):
        await shop.ask_for("t2", "b.py")
    with pytest.raises(InvalidRequest) as refused:
        await shop.ask_for("t", "ok.py", "../b.py")
    assert refused.value.field == "paths.1"
    await shop.reset("w")
    with pytest.raises(NotHeld):
        await shop.ask_for("t", "b.py", name="w", epoch=epoch + 1)
    assert await listed(shop) == []


async def listed(shop: HandoffRoom, *, only_open: bool = False) -> list[ScopeView]:
    request = ListScopeRequestsRequest(swarm_id=shop.swarm_id, only_open=only_open)
    return (await shop.handoffs.list_scope_requests(request)).requests


async def test_requests_are_listed(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w", "a.py")
    await shop.ask_for("t", "b.py")
    await shop.ask_for("t", "Makefile")
    assert [one.paths for one in await listed(shop)] == [["Makefile"], ["b.py"]]
    assert [one.paths for one in await listed(shop, only_open=True)] == [["Makefile"]]
    with pytest.raises(UnknownSwarm):
        await shop.handoffs.list_scope_requests(ListScopeRequestsRequest(swarm_id="nowhere"))


async def test_a_request_with_a_key_is_made_once(shop: HandoffRoom) -> None:
    await shop.given_out("t", "w", "a.py")
    first = await shop.ask_for("t", "b.py", key="k")
    await shop.replace("t", "a.py", submit=True)
    assert await shop.ask_for("t", "b.py", key="k") == first
    # Without it, a grant that was undone is asked for anew.
    assert (await shop.ask_for("t", "b.py")).request_id == 2


async def test_that_there_is_a_commit_cannot_be_waived(shop: HandoffRoom) -> None:
    await shop.spawn("t")
    with pytest.raises(InvalidRequest) as refused:
        await shop.handoffs.waive(WaiveRequest(bead_id="t", check="commit", reason="r"))
    assert refused.value.field == "check"
    assert (await shop.show_handoff("t")).waivers == []


async def test_a_waiver_is_for_a_task_with_a_handoff(shop: HandoffRoom) -> None:
    with pytest.raises(UnknownHandoff):
        await shop.handoffs.waive(WaiveRequest(bead_id="t", check="scope", reason="r"))
    await shop.spawn("t")
    await shop.handoffs.waive(
        WaiveRequest(bead_id="t", check="scope", reason="r", granted_by="Zoë")
    )
    (told,) = await shop.events("waiver_granted")
    assert (told["check"], told["subject"], told["granted_by"]) == ("scope", "*", "Zoë")
    assert (await shop.show_handoff("t")).waivers[0]["reason"] == "r"
