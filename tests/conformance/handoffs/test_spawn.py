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
from shiftboss.protocol.handoffs import canonical_json
from shiftboss.protocol.packets import CompleteRequest, RegisterRequest
from shiftboss.store.port import Transaction
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-01")]


def hash_of(handoff: dict[str, Any]) -> str:
    """As documented: sorted keys, no spaces, UTF-8."""
    text = json.dumps(handoff, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


async def test_the_first_version_is_stored_with_its_hash(handoffs: HandoffFixture) -> None:
    answer = await handoffs.spawn("Aufgabe.1", "src/ä.py", branch="task", target="main")
    assert (answer.contract_version, answer.status) == (1, "open")
    assert answer.contract_hash == hash_of(answer.handoff)
    assert (answer.base_commit, answer.branch) == (handoffs.repo.base, "task")
    assert answer.handoff["contract"] == {
        "task_id": "Aufgabe.1",
        "files_owned": ["src/ä.py"],
        "files_readonly": [],
        "dependencies_completed": [],
        "success_criteria": ["It works"],
    }
    shown = await handoffs.show_handoff("Aufgabe.1")
    assert (shown.version, shown.hash, shown.handoff) == (1, answer.contract_hash, answer.handoff)
    assert (shown.reason, shown.target, shown.last_claim) == ("spawned", "main", None)
    assert shown.prompt == answer.prompt
    (told,) = await handoffs.events("handoff_spawned")
    assert (told["bead_id"], told["contract_hash"]) == ("Aufgabe.1", answer.contract_hash)


async def test_a_handoff_is_found_by_its_exact_id(handoffs: HandoffFixture) -> None:
    await handoffs.spawn("bd-1.2")
    for other in ("bd-1", "bd-1.20", "BD-1.2", "bd-1_2"):
        with pytest.raises(UnknownHandoff):
            await handoffs.show_handoff(other)
        with pytest.raises(UnknownHandoff):
            await handoffs.complete(other)
    with pytest.raises(UnknownHandoff):
        await handoffs.show_handoff("bd-1.2", version=2)


@pytest.mark.parametrize(
    ("field", "members"),
    [
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
def test_invalid_fields_are_refused_by_name(field: str, members: dict[str, Any]) -> None:
    valid: dict[str, Any] = {"bead_id": "t", "files": ["a.py"]}
    SpawnSubtaskRequest(**valid)
    with pytest.raises(ValidationError) as refused:
        SpawnSubtaskRequest(**(valid | members))
    places = [".".join(str(part) for part in error["loc"]) for error in refused.value.errors()]
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
async def test_an_impossible_contract_is_refused_by_field_and_changes_nothing(
    handoffs: HandoffFixture, field: str, members: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await handoffs.spawn("t", **members)
    assert refused.value.field == field
    with pytest.raises(UnknownTask):
        await handoffs.show("t")
    assert await handoffs.owners() == set()


async def test_an_unknown_repo_or_swarm_is_named(handoffs: HandoffFixture, tmp_path: Any) -> None:
    with pytest.raises(UnknownRepo):
        await handoffs.spawn("t", repo=str(tmp_path))
    with pytest.raises(UnknownSwarm):
        await handoffs.spawn("t", swarm_id="nowhere")


@pytest.mark.requirement("HO-05")
async def test_a_variable_the_operator_has_not_allowed_is_refused(
    handoffs: HandoffFixture,
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await handoffs.spawn("t", policy={"environment": ["HOME"]})
    assert refused.value.field == "policy.environment.0"
    assert refused.value.hint == "start the server with --pass-environment HOME"
    with pytest.raises(UnknownTask):
        await handoffs.show("t")


@pytest.mark.requirement("HO-04")
async def test_the_target_commit_is_recorded_at_spawn(
    handoffs: HandoffFixture, tmp_path: Path
) -> None:
    """Commits added to the target later do not count as somebody else's work."""
    repo = Repo(tmp_path / "own")
    repo.git("branch", "land")
    base = repo.base
    await handoffs.spawn("t", "a.py", repo=str(repo.path), target="land")
    await handoffs.spawn("none", "b.py", repo=str(repo.path))
    await handoffs.spawn("new", "c.py", repo=str(repo.path), target="not-there")
    moved = repo.commit("theirs", {"d.py": ""})
    repo.git("branch", "-f", "land", moved)
    for task, found in (("t", base), ("none", None), ("new", None)):
        await handoffs.claim(task)
        job = await handoffs.taken()
        assert (job.bead_id, job.target_base) == (task, found)
    # The operator may record it again.
    await handoffs.spawn("u", "u.py", repo=str(repo.path), target="land")
    repo.git("branch", "-f", "land", base)
    await handoffs.replace("u", "u.py", "v.py", repo=str(repo.path), target="land")
    await handoffs.claim("u")
    assert (await handoffs.taken()).target_base == base


# -- repeats and versions


async def test_a_repeated_spawn_gets_the_same_answer(handoffs: HandoffFixture) -> None:
    await handoffs.add("before")
    await handoffs.done_by_hand("before")
    words: dict[str, Any] = {"dependencies_completed": ["before"], "strategy": "file-based"}
    first = await handoffs.spawn("t", **words)
    # The generated parts would be different by now.
    await handoffs.add("next", after=["t"])
    handoffs.clock.now_ms += 5
    assert await handoffs.spawn("t", **words) == first
    assert len(await handoffs.events("handoff_spawned")) == 1


async def test_a_different_spawn_of_the_same_task_is_refused_and_changes_nothing(
    handoffs: HandoffFixture,
) -> None:
    first = await handoffs.spawn("t", "a.py")
    for other in ({"files": ["b.py"]}, {"strategy": "risk-based"}, {"success_criteria": ["Else"]}):
        with pytest.raises(HandoffExists) as refused:
            await handoffs.spawn("t", **({"files": ["a.py"]} | other))
        assert refused.value.facts == {"contract_version": 1, "contract_hash": first.contract_hash}
    assert (await handoffs.show_handoff("t")).hash == first.contract_hash


async def test_a_contract_of_an_earlier_version_is_repeated_although_members_were_added(
    handoffs: HandoffFixture,
) -> None:
    """Its digest included defaults, and its policy lacks the members that are new."""
    first = await handoffs.plan("t", "a.py")
    policy = {
        "generated": [],
        "unverifiable": "allow",
        "test_removal": "refuse",
        "setup": [],
        "environment": [],
        "command_seconds": 600,
        "command_megabytes": 4096,
        "scope_requests": "grant_unowned",
        "target_commits": "trust",
    }
    request = handoffs.spawn_request("t", "a.py")
    members = request.model_dump(mode="json", exclude={"submit", "merges", "held_out"})
    digest = hashlib.sha256(canonical_json(members | {"policy": policy})).hexdigest()

    def make_older(tx: Transaction) -> None:
        current = tx.handoff(handoffs.swarm_id, "t")
        assert current is not None
        tx.add_handoff(current._replace(version=2, said=digest, policy=json.dumps(policy)))

    await handoffs.coordinator.store.write(make_older, handoffs.swarm_id)
    for again in (handoffs.plan, handoffs.replace):
        answer = await again("t", "a.py")
        assert (answer.contract_version, answer.contract_hash) == (2, first.contract_hash)
    with pytest.raises(HandoffExists):
        await handoffs.plan("t", "a.py", policy={"canaries": "off"})


async def test_the_operator_puts_a_new_version_in_force(handoffs: HandoffFixture) -> None:
    epoch = await handoffs.given_out("t", "w", "a.py")
    first = await handoffs.show_handoff("t")
    second = await handoffs.replace("t", "b.py")
    assert second.contract_version == 2
    assert await handoffs.replace("t", "b.py") == second  # the same spawn again
    shown = await handoffs.show_handoff("t")
    assert (shown.version, shown.reason) == (2, "replaced by the operator")
    assert (await handoffs.show_handoff("t", version=1)).handoff == first.handoff
    assert (await handoffs.attempt("t")).contract_version == 2
    (told,) = await handoffs.events("contract_changed")
    assert (told["worker"], told["contract_version"]) == ("w", 2)
    assert (await handoffs.attempt("t")).epoch == epoch


async def test_replacing_a_widened_contract_with_the_original_narrows_it(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.given_out("t", "w", "a.py")
    assert (await handoffs.ask_for("t", "b.py")).status == "granted"
    again = await handoffs.spawn("t", "a.py", submit=True)
    assert again.contract_version == 2  # spawning again refers to the contract in force
    third = await handoffs.replace("t", "a.py")
    assert third.contract_version == 3
    assert third.handoff["contract"]["files_owned"] == ["a.py"]


async def test_a_contract_is_not_replaced_while_a_claim_is_verified(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.spawn("t", "a.py")
    await handoffs.claim("t")
    with pytest.raises(IllegalTransition):
        await handoffs.replace("t", "b.py")
    await handoffs.refuse()
    assert (await handoffs.replace("t", "b.py")).contract_version == 2


async def test_spawning_again_can_submit_a_task_that_was_only_spawned(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.register("w")
    assert (await handoffs.spawn("t")).status == "open"
    assert (await handoffs.spawn("t", submit=True)).status == "active"
    delivered = await handoffs.given("w")
    assert delivered.contract_version == 1
    assert delivered.base_commit == handoffs.repo.base
    assert delivered.handoff == (await handoffs.show_handoff("t")).handoff
    # A repeat is not a second submit.
    await handoffs.ack("w", "t")
    await handoffs.failed("t")
    assert (await handoffs.spawn("t", submit=True)).status == "failed"


async def test_a_finished_task_gets_no_contract(handoffs: HandoffFixture) -> None:
    await handoffs.add("gone")
    await handoffs.cancel("gone")
    with pytest.raises(TaskEnded):
        await handoffs.spawn("gone")
    there = await handoffs.in_swarm("packets")
    register = RegisterRequest(packet_id=1, packet_name="p", tasks_total=1, worktree="/w")
    await handoffs.coordinator.swarms.register("packets", register)
    await handoffs.coordinator.swarms.complete(
        "packets",
        CompleteRequest(packet_id=1, final_commit="abcdef0", tests_passed=True, review_passed=True),
    )
    with pytest.raises(TaskEnded):
        await there.spawn("packet-1")
    assert await handoffs.owners() == set()


# -- dependencies


@pytest.mark.requirement("HO-06")
async def test_a_task_can_be_spawned_only_after_its_dependencies(handoffs: HandoffFixture) -> None:
    await handoffs.add("a", "b")
    with pytest.raises(UnknownTask) as unknown:
        await handoffs.spawn("t", dependencies_completed=["a", "never"])
    assert unknown.value.field == "dependencies_completed"
    with pytest.raises(DependenciesUnfinished) as refused:
        await handoffs.spawn("t", dependencies_completed=["b", "a"])
    assert refused.value.facts == {"unfinished": ["a", "b"]}
    with pytest.raises(UnknownTask):
        await handoffs.show("t")
    await handoffs.done_by_hand("a", "b")
    answer = await handoffs.spawn("t", dependencies_completed=["b", "a"])
    assert answer.handoff["contract"]["dependencies_completed"] == ["b", "a"]


@pytest.mark.requirement("HO-06")
async def test_dependencies_in_the_task_graph_count_even_if_the_caller_omits_them(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.add("a")
    await handoffs.add("t", after=["a"])
    with pytest.raises(DependenciesUnfinished):
        await handoffs.spawn("t")
    await handoffs.done_by_hand("a")
    answer = await handoffs.spawn("t")
    assert answer.handoff["contract"]["dependencies_completed"] == ["a"]


@pytest.mark.requirement("HO-06")
async def test_dependencies_are_checked_again_at_completion(handoffs: HandoffFixture) -> None:
    await handoffs.add("a")
    await handoffs.done_by_hand("a")
    await handoffs.spawn("t", dependencies_completed=["a"])

    handoffs.writes_rows = True

    def reopen(tx: Transaction) -> None:
        task = tx.task(handoffs.swarm_id, "a")
        assert task is not None
        tx.save_task(task._replace(status="open"))

    await handoffs.coordinator.store.write(reopen, handoffs.swarm_id)
    with pytest.raises(DependenciesUnfinished) as refused:
        await handoffs.complete("t")
    assert refused.value.facts == {"unfinished": ["a"]}
    assert (await handoffs.status("t"), await handoffs.take()) == ("open", None)


@pytest.mark.requirement("HO-02")
async def test_the_handoff_says_what_others_did_and_what_comes_next(
    handoffs: HandoffFixture,
) -> None:
    await handoffs.finished("schema", files=["schema.py"], subtask_title="Make the schema")
    await handoffs.add("epic")
    await handoffs.spawn("t", "t.py", dependencies_completed=["schema"], epic_id="epic")
    before = (await handoffs.show_handoff("t")).handoff["context"]
    assert before["what_others_did"].startswith("schema: Did schema (commit cccccccccccc")
    assert (before["epic_summary"], before["what_comes_next"]) == ("epic", "")
    await handoffs.add("u")
    await handoffs.add("routes", after=["u"])
    context = (await handoffs.spawn("u", "u.py")).handoff["context"]
    assert context["what_comes_next"] == "routes: routes"
    with pytest.raises(UnknownTask) as unknown:
        await handoffs.spawn("v", epic_id="never")
    assert unknown.value.field == "epic_id"
