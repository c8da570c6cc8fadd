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
from shiftboss.protocol.bus import StatusRequest, TaskRequest
from shiftboss.protocol.handoff_requests import (
    DecideScopeRequest,
    ListScopeRequestsRequest,
    ScopeView,
)
from shiftboss.protocol.handoffs import PATHS_MAX
from shiftboss.protocol.runs import ParkTaskRequest
from shiftboss.protocol.states import WorkerState
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-09")]


async def decide(
    handoffs: HandoffFixture, request_id: int, granted: bool, words: str = ""
) -> ScopeView:
    return await handoffs.handoff_service.decide_scope(
        DecideScopeRequest(
            swarm_id=handoffs.swarm_id, request_id=request_id, granted=granted, decision=words
        )
    )


async def owned(handoffs: HandoffFixture) -> list[str]:
    files: list[str] = (await handoffs.show_handoff("t")).handoff["contract"]["files_owned"]
    return files


async def test_a_file_nobody_owns_is_granted_immediately(handoffs: HandoffFixture) -> None:
    epoch = await handoffs.given_out("t", "w", "a.py")
    granted = await handoffs.ask_for("t", "src/./b.py", "src/ü c.py", name="w", epoch=epoch)
    assert (granted.status, granted.contract_version) == ("granted", 2)
    assert granted.paths == ["src/b.py", "src/ü c.py"]
    assert await owned(handoffs) == ["a.py", "src/b.py", "src/ü c.py"]
    shown = await handoffs.show_handoff("t")
    assert shown.reason == "scope request 1 of w: needed"
    held = await handoffs.attempt("t")
    assert (held.state, held.contract_version) == (WorkerState.EXECUTING, 2)
    with pytest.raises(OwnershipOverlap):
        await handoffs.spawn("other", "src/*.py")
    with pytest.raises(StaleContract):
        await handoffs.complete("t", contract_version=1)
    await handoffs.claim("t", contract_version=2)
    assert (await handoffs.taken()).contract_version == 2


async def test_a_repeated_request_is_the_same_request(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    first = await handoffs.ask_for("t", "b.py")
    assert await handoffs.ask_for("t", "b.py") == first
    asked = await handoffs.ask_for("t", "Makefile")
    assert (await handoffs.ask_for("t", "Makefile")).request_id == asked.request_id
    assert len(await handoffs.questions()) == 1
    await decide(handoffs, asked.request_id, False)
    assert (await handoffs.ask_for("t", "Makefile")).request_id == 3


@pytest.mark.parametrize(
    ("path", "why", "members"),
    [
        ("theirs.py", "other owns theirs.py", {}),
        ("lib/x.py", "lib/x.py is read-only by contract", {}),
        ("LIB/X.py", "LIB/X.py is read-only by contract", {}),
        ("deep/conftest.py", "deep/conftest.py influences how the work is checked", {}),
        ("src/*.py", "src/*.py may cover more than one file", {}),
        ("src/", "src/ may cover more than one file", {}),
        ("src", "src may cover more than one file", {}),
        ("b.py", "the policy requires a decision", {"policy": {"scope_requests": "ask"}}),
    ],
)
async def test_other_files_need_the_contacts_decision(
    handoffs: HandoffFixture, path: str, why: str, members: dict[str, Any]
) -> None:
    await handoffs.spawn("other", "theirs.py")
    fields = {"files_readonly": ["lib/x.py"], "blocked_contact": "alice"} | members
    await handoffs.given_out("t", "w", "a.py", **fields)
    asked = await handoffs.ask_for("t", "free.py", path, reason="I need it")
    assert (asked.status, asked.contract_version) == ("open", 1)
    assert [holder["bead_id"] for holder in asked.holders] == (
        ["other"] if "theirs" in path else []
    )
    (question,) = await handoffs.questions()
    assert question.contact == "alice"
    assert f"not granted by rule: {why}" in question.question
    assert f"`shiftboss scope grant 1 --swarm {handoffs.swarm_id}`" in question.question
    assert asked.request_id == 1
    assert "I need it" in question.question
    assert (await handoffs.attempt("t")).state is WorkerState.BLOCKED
    assert await owned(handoffs) == ["a.py"]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("check.py", "is named by a command that checks the work"),
        ("checks/deep/x.py", "is named by a command that checks the work"),
        ("json.py", "is next to a script that checks the work, and may be imported by it"),
        ("src/json.py", "may be imported instead of json"),
        ("src/test_a.py", "belongs to the tests"),
        ("prepare/x.js", "is named by a command that checks the work"),
    ],
)
async def test_files_that_influence_the_checks_are_not_granted_automatically(
    handoffs: HandoffFixture, path: str, why: str
) -> None:
    await handoffs.given_out(
        "t",
        "w",
        "a.py",
        success_criteria=["Command passes: python3 check.py", "Tests pass: runner checks/"],
        policy={"setup": ["node prepare"]},
    )
    assert (await handoffs.ask_for("t", "src/plain.py")).status == "granted"
    asked = await handoffs.ask_for("t", path)
    assert (asked.status, asked.contract_version) == ("open", 2)
    assert await owned(handoffs) == ["a.py", "src/plain.py"]
    (question,) = await handoffs.questions()
    assert f"not granted by rule: {path} {why}" in question.question


async def test_a_worker_cannot_answer_its_own_request(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    asked = await handoffs.ask_for("t", "Makefile")
    (question,) = await handoffs.questions()
    with pytest.raises(Forbidden) as refused:
        await handoffs.answer(question.question_id, "granted")
    assert refused.value.hint is not None
    assert f"shiftboss scope grant {asked.request_id}" in refused.value.hint
    assert (await handoffs.attempt("t")).state is WorkerState.BLOCKED
    assert [question.answer for question in await handoffs.questions()] == [None]
    await decide(handoffs, asked.request_id, False)
    with pytest.raises(AlreadyAnswered):
        await handoffs.answer(question.question_id, "granted")


async def test_a_request_ends_with_the_attempt_that_made_it(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    await handoffs.ask_for("t", "Makefile")
    assert [request.status for request in await listed(handoffs, only_open=True)] == ["open"]
    await handoffs.reset("w")
    assert await listed(handoffs, only_open=True) == []
    assert [request.status for request in await listed(handoffs)] == ["over"]
    await handoffs.start("w", "t")
    assert await listed(handoffs, only_open=True) == []
    again = await handoffs.ask_for("t", "Makefile")
    assert [request.request_id for request in await listed(handoffs, only_open=True)] == [
        again.request_id
    ]


async def test_a_request_outlives_an_attempt_that_was_parked(handoffs: HandoffFixture) -> None:
    epoch = await handoffs.given_out("t", "w", "a.py")
    asked = await handoffs.ask_for("t", "Makefile")
    park = ParkTaskRequest(
        swarm_id=handoffs.swarm_id, bead_id="t", name="w", epoch=epoch, reason="it has exited"
    )
    await handoffs.coordinator.runs.park_task(park)
    assert [request.status for request in await listed(handoffs, only_open=True)] == ["open"]
    assert [request.status for request in await listed(handoffs)] == ["open"]
    command = f"shiftboss scope grant {asked.request_id} --swarm {handoffs.swarm_id}"
    why = TaskRequest(swarm_id=handoffs.swarm_id, bead_id="t")
    status = await handoffs.bus_service.get_status(
        StatusRequest(swarm_id=handoffs.swarm_id, waiting=True)
    )
    for reasons in ((await handoffs.bus_service.why_task(why)).reasons, status.waiting):
        assert [(reason.kind, reason.command) for reason in reasons] == [("scope_request", command)]
    work = (await handoffs.coordinator.swarms.status(handoffs.swarm_id)).bus
    assert (work.questions, work.scope_requests, work.holds) == (1, 1, 1)
    assert (await decide(handoffs, asked.request_id, True)).status == "granted"
    assert (await handoffs.given("w")).bead_id == "t"


async def test_the_operators_grant_answers_the_waiting_worker(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py", files_readonly=["lib.py", "x.py"])
    asked = await handoffs.ask_for("t", "lib.py")
    granted = await decide(handoffs, asked.request_id, True, "be careful")
    assert (granted.status, granted.contract_version) == ("granted", 2)
    contract = (await handoffs.show_handoff("t")).handoff["contract"]
    assert (contract["files_owned"], contract["files_readonly"]) == (["a.py", "lib.py"], ["x.py"])
    answers = (await handoffs.look("w")).answers
    assert answers is not None
    assert answers[0]["answer"] == (
        "Scope request 1 was granted; the contract has version 2 now: be careful"
    )
    assert (await handoffs.attempt("t")).state is WorkerState.EXECUTING
    assert await decide(handoffs, asked.request_id, True) == granted
    with pytest.raises(AlreadyAnswered):
        await decide(handoffs, asked.request_id, False)
    assert [event["state"] for event in await handoffs.events("scope_decided")] == ["granted"]


async def test_the_operators_refusal_keeps_the_contract_and_unblocks_the_worker(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py")
    asked = await handoffs.ask_for("t", "Makefile")
    no = await decide(handoffs, asked.request_id, False, "not yours")
    assert (no.status, no.contract_version, no.decision) == ("refused", 1, "not yours")
    assert await decide(handoffs, asked.request_id, False, "other words") == no
    with pytest.raises(AlreadyAnswered):
        await decide(handoffs, asked.request_id, True)
    answers = (await handoffs.look("w")).answers
    assert answers is not None
    assert answers[0]["answer"] == "Scope request 1 was refused: not yours"
    assert (await handoffs.attempt("t")).state is WorkerState.EXECUTING
    assert await owned(handoffs) == ["a.py"]
    with pytest.raises(UnknownQuestion):
        await decide(handoffs, 99, True)


async def test_a_file_owned_by_another_task_cannot_be_granted(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("other", "b.py")
    await handoffs.given_out("t", "w", "a.py")
    asked = await handoffs.ask_for("t", "b.py")
    with pytest.raises(OwnershipOverlap) as refused:
        await decide(handoffs, asked.request_id, True)
    assert refused.value.field == "paths"
    assert (await listed(handoffs))[0].status == "open"
    await handoffs.cancel("other")
    assert (await decide(handoffs, asked.request_id, True)).contract_version == 2


async def test_a_grant_the_verifier_would_not_honour_is_refused(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py", files_readonly=["lib/**"])
    asked = await handoffs.ask_for("t", "lib/x.py")
    with pytest.raises(InvalidRequest) as refused:
        await decide(handoffs, asked.request_id, True)
    assert "files_readonly" in refused.value.detail


async def test_a_contract_has_a_maximum_size(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", *(f"d{number}.py" for number in range(PATHS_MAX)))
    with pytest.raises(InvalidRequest) as refused:
        await handoffs.ask_for("t", "b.py")
    assert refused.value.field == "paths"
    assert (await handoffs.show_handoff("t")).version == 1


async def test_a_finished_task_is_granted_nothing(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    asked = await handoffs.ask_for("t", "Makefile")
    await handoffs.cancel("t")
    with pytest.raises(TaskEnded):
        await decide(handoffs, asked.request_id, True)
    assert await handoffs.owners() == set()
    assert (await decide(handoffs, asked.request_id, False)).status == "refused"


async def test_a_worker_can_request_files_only_for_its_own_task(handoffs: HandoffFixture) -> None:
    epoch = await handoffs.given_out("t", "w", "a.py")
    with pytest.raises(NotHeld):
        await handoffs.ask_for("t", "b.py", name="other")
    with pytest.raises(UnknownHandoff):
        await handoffs.ask_for("t2", "b.py")
    with pytest.raises(InvalidRequest) as refused:
        await handoffs.ask_for("t", "ok.py", "../b.py")
    assert refused.value.field == "paths.1"
    await handoffs.reset("w")
    with pytest.raises(NotHeld):
        await handoffs.ask_for("t", "b.py", name="w", epoch=epoch + 1)
    assert await listed(handoffs) == []


async def listed(handoffs: HandoffFixture, *, only_open: bool = False) -> list[ScopeView]:
    request = ListScopeRequestsRequest(swarm_id=handoffs.swarm_id, only_open=only_open)
    return (await handoffs.handoff_service.list_scope_requests(request)).requests


async def test_requests_are_listed(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    await handoffs.ask_for("t", "b.py")
    await handoffs.ask_for("t", "Makefile")
    assert [request.paths for request in await listed(handoffs)] == [["Makefile"], ["b.py"]]
    assert [request.paths for request in await listed(handoffs, only_open=True)] == [["Makefile"]]
    with pytest.raises(UnknownSwarm):
        await handoffs.handoff_service.list_scope_requests(
            ListScopeRequestsRequest(swarm_id="nowhere")
        )


async def test_a_request_with_an_idempotency_key_is_made_once(handoffs: HandoffFixture) -> None:
    await handoffs.given_out("t", "w", "a.py")
    first = await handoffs.ask_for("t", "b.py", key="k")
    await handoffs.replace("t", "a.py", submit=True)
    assert await handoffs.ask_for("t", "b.py", key="k") == first
    # Without the key, a revoked grant is requested again.
    assert (await handoffs.ask_for("t", "b.py")).request_id == 2
