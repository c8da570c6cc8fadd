"""Spawning a task with its contract, on both stores."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from shiftboss.errors import (
    DependenciesUnfinished,
    HandoffExists,
    IllegalTransition,
    InvalidRequest,
    TaskEnded,
    UnknownHandoff,
    UnknownRepo,
    UnknownSwarm,
    UnknownTask,
)
from shiftboss.protocol.handoff_requests import SpawnSubtaskRequest
from shiftboss.protocol.packets import CompleteRequest, RegisterRequest
from shiftboss.store.port import Transaction
from tests.conformance.handoffs.handoff_fixtures import HandoffRoom
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-01")]


def hash_of(handoff: dict[str, Any]) -> str:
    """By the words of the promise: sorted keys, no spaces, UTF-8."""
    text = json.dumps(handoff, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


async def test_the_first_version_is_stored_with_its_hash(shop: HandoffRoom) -> None:
    answer = await shop.spawn("Aufgabe.1", "src/ä.py", branch="task", target="main")
    assert (answer.contract_version, answer.status) == (1, "open")
    assert answer.contract_hash == hash_of(answer.handoff)
    assert (answer.base_commit, answer.branch) == (shop.repo.base, "task")
    assert answer.handoff["contract"] == {
        "task_id": "Aufgabe.1",
        "files_owned": ["src/ä.py"],
        "files_readonly": [],
        "dependencies_completed": [],
        "success_criteria": ["It works"],
    }
    shown = await shop.show_handoff("Aufgabe.1")
    assert (shown.version, shown.hash, shown.handoff) == (1, answer.contract_hash, answer.handoff)
    assert (shown.reason, shown.target, shown.last_claim) == ("spawned", "main", None)
    assert shown.prompt == answer.prompt
    (told,) = await shop.events("handoff_spawned")
    assert (told["bead_id"], told["contract_hash"]) == ("Aufgabe.1", answer.contract_hash)


async def test_a_handoff_is_found_by_its_exact_id(shop: HandoffRoom) -> None:
    await shop.spawn("bd-1.2")
    for other in ("bd-1", "bd-1.20", "BD-1.2", "bd-1_2"):
        with pytest.raises(UnknownHandoff):
            await shop.show_handoff(other)
        with pytest.raises(UnknownHandoff):
            await shop.complete(other)
    with pytest.raises(UnknownHandoff):
        await shop.show_handoff("bd-1.2", version=2)


@pytest.mark.parametrize(
    ("field", "members"),
    [
        ("files", {"files": []}),
        ("files", {"files": [""]}),
        ("bead_id", {"bead_id": ""}),
        ("surprise", {"surprise": 1}),
        ("policy.surprise", {"policy": {"surprise": 1}}),
        ("success_criteria", {"success_criteria": [""]}),
        ("strategy", {"strategy": "My Strategy"}),
        ("base", {"base": "--exec=x"}),
        ("branch", {"branch": "a b"}),
    ],
)
def test_words_that_no_handoff_can_have_are_refused(field: str, members: dict[str, Any]) -> None:
    said: dict[str, Any] = {"bead_id": "t", "files": ["a.py"]}
    SpawnSubtaskRequest(**said)
    with pytest.raises(ValidationError) as refused:
        SpawnSubtaskRequest(**(said | members))
    places = [".".join(str(part) for part in one["loc"]) for one in refused.value.errors()]
    assert any(place.startswith(field) for place in places)


@pytest.mark.parametrize(
    ("field", "members"),
    [
        ("files.1", {"files": ["a.py", "../b.py"]}),
        ("files.0", {"files": ["/etc/passwd"]}),
        ("files.0", {"files": [".git/hooks/pre-commit"]}),
        ("files_readonly.0", {"files_readonly": ["a\\b"]}),
        ("policy.generated.1", {"policy": {"generated": ["ok", "/abs"]}}),
        ("policy.setup.0", {"policy": {"setup": ["npm ci && rm -rf x"]}}),
        ("policy.environment.0", {"policy": {"environment": ["SHIFTBOSS_TOKEN"]}}),
        ("success_criteria.1", {"success_criteria": ["It works", "Tests pass: a | b"]}),
        ("base", {"base": "no-such-branch"}),
        ("subtask_title", {"subtask_title": None}),
    ],
)
async def test_what_cannot_be_kept_is_named_by_its_field_and_changes_nothing(
    shop: HandoffRoom, field: str, members: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await shop.spawn("t", **members)
    assert refused.value.field == field
    with pytest.raises(UnknownTask):
        await shop.show("t")
    assert await shop.owners() == set()


async def test_a_repo_or_a_swarm_that_is_not_there_is_named(
    shop: HandoffRoom, tmp_path: Any
) -> None:
    with pytest.raises(UnknownRepo):
        await shop.spawn("t", repo=str(tmp_path))
    with pytest.raises(UnknownSwarm):
        await shop.spawn("t", swarm_id="nowhere")


@pytest.mark.requirement("HO-05")
async def test_a_variable_that_the_operator_has_not_allowed_is_refused(shop: HandoffRoom) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await shop.spawn("t", policy={"environment": ["HOME"]})
    assert refused.value.field == "policy.environment.0"
    assert refused.value.hint == "start the server with --pass-environment HOME"
    with pytest.raises(UnknownTask):
        await shop.show("t")


@pytest.mark.requirement("HO-04")
async def test_the_target_is_remembered_as_it_was(shop: HandoffRoom, tmp_path: Path) -> None:
    """Whoever moves it later does not make what they put there somebody else's work."""
    repo = Repo(tmp_path / "own")
    repo.git("branch", "land")
    base = repo.base
    await shop.spawn("t", "a.py", repo=str(repo.path), target="land")
    await shop.spawn("none", "b.py", repo=str(repo.path))
    await shop.spawn("new", "c.py", repo=str(repo.path), target="not-there")
    moved = repo.commit("theirs", {"d.py": ""})
    repo.git("branch", "-f", "land", moved)
    for task, found in (("t", base), ("none", None), ("new", None)):
        await shop.claim(task)
        job = await shop.taken()
        assert (job.bead_id, job.target_base) == (task, found)
    # The operator may look again.
    await shop.spawn("u", "u.py", repo=str(repo.path), target="land")
    repo.git("branch", "-f", "land", base)
    await shop.replace("u", "u.py", "v.py", repo=str(repo.path), target="land")
    await shop.claim("u")
    assert (await shop.taken()).target_base == base


# -- repeats and versions


async def test_the_same_words_again_get_the_same_answer(shop: HandoffRoom) -> None:
    await shop.add("before")
    await shop.done_by_hand("before")
    words: dict[str, Any] = {"dependencies_completed": ["before"], "strategy": "file-based"}
    first = await shop.spawn("t", **words)
    # What is generated would come out differently by now.
    await shop.add("next", after=["t"])
    shop.clock.now_ms += 5
    assert await shop.spawn("t", **words) == first
    assert len(await shop.events("handoff_spawned")) == 1


async def test_other_words_are_refused_and_change_nothing(shop: HandoffRoom) -> None:
    first = await shop.spawn("t", "a.py")
    for other in ({"files": ["b.py"]}, {"strategy": "risk-based"}, {"success_criteria": ["Else"]}):
        with pytest.raises(HandoffExists) as refused:
            await shop.spawn("t", **({"files": ["a.py"]} | other))
        assert refused.value.facts == {"contract_version": 1, "contract_hash": first.contract_hash}
    assert (await shop.show_handoff("t")).hash == first.contract_hash


async def test_the_operator_puts_a_new_version_in_force(shop: HandoffRoom) -> None:
    epoch = await shop.given_out("t", "w", "a.py")
    first = await shop.show_handoff("t")
    second = await shop.replace("t", "b.py")
    assert second.contract_version == 2
    assert await shop.replace("t", "b.py") == second  # the same words again
    shown = await shop.show_handoff("t")
    assert (shown.version, shown.reason) == (2, "replaced by the operator")
    assert (await shop.show_handoff("t", version=1)).handoff == first.handoff
    assert (await shop.attempt("t")).contract_version == 2
    (told,) = await shop.events("contract_changed")
    assert (told["worker"], told["contract_version"]) == ("w", 2)
    assert (await shop.attempt("t")).epoch == epoch


async def test_replacing_a_widened_contract_by_its_first_words_narrows_it(
    shop: HandoffRoom,
) -> None:
    await shop.given_out("t", "w", "a.py")
    assert (await shop.ask_for("t", "b.py")).status == "granted"
    again = await shop.spawn("t", "a.py", submit=True)
    assert again.contract_version == 2  # who spawns again means the contract in force
    third = await shop.replace("t", "a.py")
    assert third.contract_version == 3
    assert third.handoff["contract"]["files_owned"] == ["a.py"]


async def test_a_contract_is_not_replaced_while_a_claim_is_verified(shop: HandoffRoom) -> None:
    await shop.spawn("t", "a.py")
    await shop.claim("t")
    with pytest.raises(IllegalTransition):
        await shop.replace("t", "b.py")
    await shop.refuse()
    assert (await shop.replace("t", "b.py")).contract_version == 2


async def test_spawning_again_can_submit_what_was_only_spawned(shop: HandoffRoom) -> None:
    await shop.register("w")
    assert (await shop.spawn("t")).status == "open"
    assert (await shop.spawn("t", submit=True)).status == "active"
    delivered = await shop.given("w")
    assert delivered.contract_version == 1
    assert delivered.base_commit == shop.repo.base
    assert delivered.handoff == (await shop.show_handoff("t")).handoff
    # A repeat is not a second submit.
    await shop.ack("w", "t")
    await shop.failed("t")
    assert (await shop.spawn("t", submit=True)).status == "failed"


async def test_a_task_that_is_over_gets_no_contract(shop: HandoffRoom) -> None:
    await shop.add("gone")
    await shop.cancel("gone")
    with pytest.raises(TaskEnded):
        await shop.spawn("gone")
    there = await shop.in_swarm("packets")
    register = RegisterRequest(packet_id=1, packet_name="p", tasks_total=1, worktree="/w")
    await shop.coordinator.swarms.register("packets", register)
    await shop.coordinator.swarms.complete(
        "packets",
        CompleteRequest(packet_id=1, final_commit="abcdef0", tests_passed=True, review_passed=True),
    )
    with pytest.raises(TaskEnded):
        await there.spawn("packet-1")
    assert await shop.owners() == set()


# -- dependencies


@pytest.mark.requirement("HO-06")
async def test_a_task_is_spawned_after_those_it_depends_on(shop: HandoffRoom) -> None:
    await shop.add("a", "b")
    with pytest.raises(UnknownTask) as unknown:
        await shop.spawn("t", dependencies_completed=["a", "never"])
    assert unknown.value.field == "dependencies_completed"
    with pytest.raises(DependenciesUnfinished) as refused:
        await shop.spawn("t", dependencies_completed=["b", "a"])
    assert refused.value.facts == {"unfinished": ["a", "b"]}
    with pytest.raises(UnknownTask):
        await shop.show("t")
    await shop.done_by_hand("a", "b")
    answer = await shop.spawn("t", dependencies_completed=["b", "a"])
    assert answer.handoff["contract"]["dependencies_completed"] == ["b", "a"]


@pytest.mark.requirement("HO-06")
async def test_the_task_graph_counts_whatever_the_caller_says(shop: HandoffRoom) -> None:
    await shop.add("a")
    await shop.add("t", after=["a"])
    with pytest.raises(DependenciesUnfinished):
        await shop.spawn("t")
    await shop.done_by_hand("a")
    answer = await shop.spawn("t")
    assert answer.handoff["contract"]["dependencies_completed"] == ["a"]


@pytest.mark.requirement("HO-06")
async def test_dependencies_are_looked_at_again_at_completion(shop: HandoffRoom) -> None:
    await shop.add("a")
    await shop.done_by_hand("a")
    await shop.spawn("t", dependencies_completed=["a"])

    def reopen(tx: Transaction) -> None:
        task = tx.task(shop.swarm_id, "a")
        assert task is not None
        tx.save_task(task._replace(status="open"))

    await shop.coordinator.store.write(reopen, shop.swarm_id)
    with pytest.raises(DependenciesUnfinished) as refused:
        await shop.complete("t")
    assert refused.value.facts == {"unfinished": ["a"]}
    assert (await shop.status("t"), await shop.take()) == ("open", None)


@pytest.mark.requirement("HO-02")
async def test_the_worker_is_told_what_others_did_and_what_comes_next(shop: HandoffRoom) -> None:
    await shop.finished("schema", files=["schema.py"], subtask_title="Make the schema")
    await shop.add("epic")
    await shop.spawn("t", "t.py", dependencies_completed=["schema"], epic_id="epic")
    before = (await shop.show_handoff("t")).handoff["context"]
    assert before["what_others_did"].startswith("schema: Did schema (commit cccccccccccc")
    assert (before["epic_summary"], before["what_comes_next"]) == ("epic", "")
    await shop.add("u")
    await shop.add("routes", after=["u"])
    context = (await shop.spawn("u", "u.py")).handoff["context"]
    assert context["what_comes_next"] == "routes: routes"
    with pytest.raises(UnknownTask) as unknown:
        await shop.spawn("v", epic_id="never")
    assert unknown.value.field == "epic_id"
