"""Failure classes and their consequences; permissions; halts; red upstream repos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shiftboss.errors import ContractViolations, NotHeld, RepoBlocked, UnknownHalt
from shiftboss.protocol.claims.verdicts import CheckResult
from shiftboss.protocol.messages import MessageType
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.contract.failures import EXAMPLES
from tests.conformance.contract.contract_fixtures import ContractFixture, open_contract, runs
from tests.conformance.handoffs.handoff_fixtures import refused
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-15")]

DENIED = "Permission to use Bash has been auto-denied"


async def test_every_example_of_the_document_has_its_class(contract: ContractFixture) -> None:
    first = {
        "transient": "retry",
        "recoverable": "fix",
        "blocking": "pause",
        "permission_denied": "report",
        "fatal": "halt",
    }
    for failure_class, examples in EXAMPLES.items():
        await contract.works_on("sdk", "w", failure_class)
        answer = await contract.fails(failure_class, "as it says", error_type=examples[0])
        assert (answer.failure_class, answer.action) == (failure_class, first[failure_class])
        await contract.gives_up(failure_class, "sdk")
        for halt in await contract.coordinator.store.read(lambda tx: tx.halts_in_force()):
            await contract.lift(halt.halt_id)


async def test_a_transient_failure_is_retried_with_backoff_then_the_contact_is_asked(
    contract: ContractFixture,
) -> None:
    await contract.works_on("sdk")
    answers = [await contract.fails("sdk", "502 Bad Gateway") for _ in range(4)]
    assert [answer.retry_in_seconds for answer in answers] == [5, 10, 20, None]
    assert [answer.action for answer in answers] == ["retry", "retry", "retry", "escalate"]
    assert (await contract.attempt("sdk")).state is WorkerState.BLOCKED
    (question,) = await contract.questions()
    assert question.question_id == answers[3].question_id


async def test_a_recoverable_failure_is_left_to_the_worker(contract: ContractFixture) -> None:
    """Reported after three, ended after five; a report does not stop the worker."""
    await contract.works_on("sdk")
    answers = []
    for count in range(1, 6):
        answers.append(await contract.fails("sdk", f"tests failed ({count})"))
        if count < 5:
            assert (await contract.attempt("sdk")).state is WorkerState.EXECUTING
    assert [answer.action for answer in answers] == [
        "fix",
        "fix",
        "escalate",
        "escalate",
        "terminate",
    ]
    assert await contract.status("sdk") == "failed"
    # The question asked while it worked needs no answer; how to continue does.
    (question,) = await contract.questions()
    assert question.question_id == answers[-1].question_id
    assert await contract.locked() == {"sdk": "sdk"}


async def test_only_consecutive_failures_count_and_a_push_resets_them(
    contract: ContractFixture,
) -> None:
    await contract.works_on("sdk")
    for message, attempts in (
        ("tests failed", 1),
        ("tests failed", 2),
        ("502 Bad Gateway", 1),
        ("tests failed", 1),
        ("tests failed", 2),
    ):
        assert (await contract.fails("sdk", message)).attempts == attempts
    await contract.pushes("sdk")
    assert (await contract.fails("sdk", "tests failed")).attempts == 1


async def test_a_repeated_failure_report_is_counted_once(contract: ContractFixture) -> None:
    await contract.works_on("sdk")
    first = await contract.fails("sdk", DENIED, key="k", tool="Bash")
    assert await contract.fails("sdk", DENIED, key="k", tool="Bash") == first
    assert first.action == "report"
    assert (await contract.attempt("sdk")).state is WorkerState.EXECUTING


async def test_a_blocking_failure_pauses_until_it_is_answered(contract: ContractFixture) -> None:
    await contract.works_on("sdk")
    answer = await contract.fails("sdk", "CONFLICT (content): Merge conflict in a.py")
    assert (answer.failure_class, answer.action) == ("blocking", "pause")
    assert (await contract.attempt("sdk")).state is WorkerState.BLOCKED
    assert answer.question_id is not None
    await contract.answer(answer.question_id)
    assert (await contract.attempt("sdk")).state is WorkerState.EXECUTING


# -- permissions


@pytest.mark.requirement("CC-07", "CC-10")
async def test_the_second_consecutive_denial_of_a_tool_terminates_the_worker(
    contract: ContractFixture,
) -> None:
    """infinite_permission_retry_loop: only two of 107 attempts are made."""
    await contract.works_on("sdk", "w")
    denial = {"tool": "Bash", "operation": "mkdir crates", "name": "w"}
    assert (await contract.fails("sdk", DENIED, **denial)).action == "report"
    answer = await contract.fails("sdk", DENIED, **denial)
    assert answer.action == "terminate"
    with pytest.raises(NotHeld):
        await contract.fails("sdk", DENIED, **denial)
    assert (await contract.show("sdk")).last_error == f"BLOCKED_PERMISSION: Bash - {DENIED}"
    (question,) = await contract.questions()
    assert question.question_id == answer.question_id
    for words in (
        "TERMINATED: Permission failure on Bash.",
        "Attempted: mkdir crates",
        "Why did the tool get denied?",
        "- fix_permissions:",
        "- respawn_with_alternatives: Use Write/Edit instead of Bash mkdir",
        "- manual_intervention:",
        "- respawn_worker:",
    ):
        assert words in question.question
    assert await contract.locked() == {"sdk": "sdk"}


@pytest.mark.requirement("CC-07")
async def test_a_respawn_carries_the_changed_instructions(contract: ContractFixture) -> None:
    await contract.works_on("sdk", "w")
    answer = await contract.says("sdk", f"BLOCKED_PERMISSION: Bash - {DENIED}")
    assert (answer.state, answer.milestone) == ("failed", "BLOCKED")
    assert await contract.status("sdk") == "failed"
    assert answer.question_id is not None
    await contract.answer(answer.question_id, "Use Write instead of Bash mkdir")
    await contract.retry("sdk")
    task = await contract.given("w")
    assert task.checkpoint is not None
    assert task.checkpoint["instructions"] == "Use Write instead of Bash mkdir"
    assert task.checkpoint["repo_name"] == "sdk"


@pytest.mark.requirement("CC-07")
async def test_denials_are_counted_per_tool_and_reset_by_a_success(
    contract: ContractFixture,
) -> None:
    await contract.works_on("sdk")
    assert (await contract.fails("sdk", DENIED, tool="Bash")).action == "report"
    assert (await contract.fails("sdk", "Permission denied", tool="Write")).action == "report"
    # Bash did run: it failed in another way.
    assert (await contract.fails("sdk", "tests failed", tool="Bash")).action == "fix"
    assert (await contract.fails("sdk", DENIED, tool="Bash")).action == "report"
    assert (await contract.fails("sdk", "Permission denied", tool="Write")).action == "terminate"


@pytest.mark.requirement("CC-07")
async def test_repeating_a_denied_operation_after_other_calls_terminates_the_worker(
    contract: ContractFixture,
) -> None:
    """The loop of the incident: listing files between the attempts does not keep it going."""
    await contract.works_on("sdk")
    members = {"tool": "Bash", "operation": "mkdir crates"}
    assert (await contract.fails("sdk", DENIED, **members)).action == "report"
    await contract.fails("sdk", "tests failed", tool="Bash", operation="ls")
    assert (await contract.fails("sdk", DENIED, **members)).action == "terminate"


# -- halts


async def halted(contract: ContractFixture) -> int:
    """Halted by the worker of alphavm."""
    answer = await contract.fails("alphavm", "in abc", error_type="api_key_exposed_in_commit")
    assert (answer.failure_class, answer.action) == ("fatal", "halt")
    assert answer.halt_id is not None
    return answer.halt_id


async def test_a_fatal_failure_halts_the_chain_until_the_operator_resumes(
    contract: ContractFixture,
) -> None:
    await contract.works_on("sdk")
    await contract.works_on("ac-dc")
    await contract.works_on("alphavm")
    halt_id = await halted(contract)
    (event,) = await contract.events("chain_halted")
    assert event["repos"] == ["ac-dc", "acdc-core", "adnet", "alphaos", "alphavm"]
    # Nothing is spawned in the chain, and its workers are notified.
    await contract.cascade.run_once()
    for repo in ("adnet", "acdc-core", "alphaos"):
        answer = await contract.can_spawn(repo)
        assert "halted" in {blocker["rule"] for blocker in answer.blockers}
    (paused,) = [
        event for event in await contract.events("work_paused") if event["bead_id"] == "ac-dc"
    ]
    assert "until the operator resumes" in paused["reason"]
    said = await contract.says("ac-dc", "WORKING: the installer")
    assert said.paused == (await contract.beat("w-ac-dc")).paused == paused["reason"]
    with pytest.raises(RepoBlocked):
        await contract.pushes("ac-dc")
    # Other repos are not affected.
    assert (await contract.can_spawn("deltavm")).can_spawn
    assert (await contract.says("sdk", "WORKING: types")).paused is None
    assert (await contract.beat("w-sdk")).paused is None
    assert (await contract.lift(halt_id)).changed
    assert not (await contract.lift(halt_id)).changed
    with pytest.raises(UnknownHalt):
        await contract.lift(99)
    await contract.cascade.run_once()
    assert {event["bead_id"] for event in await contract.events("work_resumed")} == {
        "ac-dc",
        "alphavm",
    }
    await contract.pushes("ac-dc")


async def test_queued_tasks_of_a_halted_chain_are_not_dispatched(contract: ContractFixture) -> None:
    """Neither from the queue, nor by submit, nor by an assign message."""
    await contract.works_on("alphavm")
    await contract.spawn("queued", "q.py", repo="ac-dc", submit=True)
    assert await contract.status("queued") == "queued"
    halt_id = await halted(contract)
    await contract.register("idle")
    assert (await contract.submit("queued")).dispatched is False
    assert (await contract.look("idle")).task is None
    assert await contract.status("queued") == "queued"
    with pytest.raises(RepoBlocked, match="is halted"):
        await contract.say(
            MessageType.ASSIGN,
            "idle",
            task_id="queued",
            spec_path="s",
            worktree_path="/w",
            timeout_seconds=60,
        )
    # A task of a repo that is not halted overtakes it.
    await contract.add("plain")
    await contract.submit("plain")
    assert (await contract.given("idle")).bead_id == "plain"
    await contract.register("another")
    await contract.lift(halt_id)
    assert (await contract.given("another")).bead_id == "queued"


async def test_lifting_a_halt_dispatches_tasks_in_other_swarms_too(
    contract: ContractFixture,
) -> None:
    there = await contract.in_swarm("elsewhere")
    await contract.works_on("alphavm")
    await there.spawn("queued", "q.py", repo="ac-dc", submit=True)
    halt_id = await halted(contract)
    await there.register("idle")
    assert await there.status("queued") == "queued"
    await contract.lift(halt_id)
    await contract.cascade.run_once()
    assert (await there.given("idle")).bead_id == "queued"


async def test_a_fatal_failure_ends_a_verification(contract: ContractFixture) -> None:
    await contract.works_on("sdk")
    sha = await contract.pushes("sdk")
    await contract.ci_says(runs(sha))
    answer = await contract.fails("sdk", "in block 7", error_type="data_corruption_detected")
    assert answer.action == "halt"
    assert await contract.take() is None
    assert await contract.status("sdk") == "active"


async def test_a_message_that_sounds_fatal_stops_only_its_own_worker(
    contract: ContractFixture,
) -> None:
    """It may be quoted from a test. The contact decides; only a type halts the chain."""
    await contract.works_on("ac-dc")
    await contract.works_on("alphavm")
    words = "assertion failed: expected the log to say 'api key exposed in commit'"
    answer = await contract.fails("alphavm", words)
    assert (answer.failure_class, answer.action) == ("blocking", "pause")
    assert answer.halt_id is None
    assert (await contract.attempt("alphavm")).state is WorkerState.BLOCKED
    assert await contract.events("chain_halted") == []
    (question,) = await contract.questions()
    assert question.question_id == answer.question_id
    assert words in question.question
    assert "shiftboss failure alphavm" in question.question
    await contract.pushes("ac-dc")
    # The contact or the worker itself names the failure.
    assert (await contract.fails("alphavm", words, error_type="api_key_exposed_in_commit")).halt_id


async def test_a_message_that_sounds_fatal_counts_during_a_verification(
    contract: ContractFixture,
) -> None:
    await contract.works_on("sdk")
    await contract.ci_says(runs(await contract.pushes("sdk")))
    assert (await contract.fails("sdk", "data corruption")).action == "pause"
    assert await contract.take() is None
    assert await contract.status("sdk") == "active"


# -- red upstream


@pytest.mark.requirement("CC-16")
async def test_a_red_upstream_pauses_downstream_work_until_it_is_green(
    contract: ContractFixture,
) -> None:
    """Works across swarms. ac-dc depends on alphavm through adnet."""
    there = await contract.in_swarm("elsewhere")
    await there.works_on("ac-dc", "w")
    await contract.pass_minutes(10)
    await contract.works_on("alphavm")
    sha = await contract.pushes("alphavm")
    await contract.ci_says(runs(sha, test="failure"))
    await contract.cascade.run_once()
    (paused,) = await there.events("work_paused")
    assert paused["reason"] == "Dependency alphavm failed, pausing until resolved"
    assert await contract.events("work_paused") == []
    with pytest.raises(ContractViolations) as stopped:
        await there.pushes("ac-dc", 1)
    assert stopped.value.facts["forbidden"] == "triggering_dependent_ci_before_dependency_green"
    # Nobody may build on it except a worker that fixes it.
    assert not (await contract.can_spawn("adnet")).can_spawn
    # The pause does not count as the worker's time.
    await there.pass_minutes(12)
    assert await there.steps() == []
    sha = await contract.pushes("alphavm", 2)
    await contract.ci_says(runs(sha))
    # The watcher's check is not enough: a verifier must see the commit on its branch.
    await contract.cascade.run_once()
    assert await there.events("work_resumed") == []
    await contract.accept()
    await contract.cascade.run_once()
    (resumed,) = await there.events("work_resumed")
    assert resumed["was"] == paused["reason"]
    resumed_ms = contract.clock.now_ms
    await there.duties()
    contract.clock.now_ms = resumed_ms + 15 * 60_000
    await there.ladder.run_once()
    assert "warn" in await there.steps()
    await there.pushes("ac-dc", 1)


@pytest.mark.requirement("CC-16")
@pytest.mark.parametrize(
    ("ci", "branch", "colour"),
    [("passed", "passed", "green"), ("failed", "passed", "red"), ("passed", "failed", "red")],
)
async def test_a_repo_is_green_once_verified_even_if_the_claim_is_refused(
    contract: ContractFixture, ci: Any, branch: Any, colour: str
) -> None:
    """A rerun of CI or a commit removed by a force push makes nothing green; work that is refused
    for its scope can have a green CI."""
    await contract.works_on("ac-dc")
    await contract.works_on("alphavm")
    await contract.ci_says(runs(await contract.pushes("alphavm"), test="failure"))
    await contract.cascade.run_once()
    sha = await contract.pushes("alphavm", 1)
    await contract.ci_says(runs(sha))
    job = await contract.taken()
    checks = [
        CheckResult(check="branch", outcome=branch, message="the branch"),
        CheckResult(check="ci", outcome=ci, message="test", subject="test"),
    ]
    verdict = refused(job, "scope")
    checks += verdict.checks
    assert await contract.report(job, verdict.model_copy(update={"checks": checks, "commit": sha}))
    (state,) = await contract.coordinator.store.read(lambda tx: tx.repo_states())
    assert (state.repo, state.state) == ("alphavm", colour)
    assert (state.sha == sha) is (colour == "green")
    await contract.cascade.run_once()
    resumed = [event["bead_id"] for event in await contract.events("work_resumed")]
    assert resumed == (["ac-dc"] if colour == "green" else [])
    # A direct dependent waits for the accepted claim in any case.
    assert not (await contract.can_spawn("alphaos")).can_spawn


@pytest.mark.requirement("CC-16")
async def test_work_that_starts_downstream_of_a_red_repo_is_paused_immediately(
    contract: ContractFixture,
) -> None:
    await contract.works_on("alphavm")
    await contract.spawn("ac-dc", repo="ac-dc", submit=True)
    sha = await contract.pushes("alphavm")
    await contract.ci_says(runs(sha, test="failure"))
    await contract.cascade.run_once()
    await contract.register("late")
    await contract.start("late", "ac-dc")
    await contract.cascade.run_once()
    assert [event["bead_id"] for event in await contract.events("work_paused")] == ["ac-dc"]


@pytest.mark.requirement("CC-16")
async def test_a_pause_missed_because_of_a_crash_is_made_up_later(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    async with open_contract(store_address, tmp_path / "a", *pushed) as contract:
        await contract.works_on("ac-dc")
        await contract.works_on("alphavm")
        sha = await contract.pushes("alphavm")
        await contract.ci_says(runs(sha, test="failure"))
        clock = contract.clock
    async with open_contract(store_address, tmp_path / "b", *pushed, clock=clock) as contract:
        await contract.cascade.run_once()
        assert [event["bead_id"] for event in await contract.events("work_paused")] == ["ac-dc"]
        await contract.cascade.run_once()
        assert len(await contract.events("work_paused")) == 1


@pytest.mark.requirement("CC-16")
async def test_a_dependency_left_red_blocks_its_dependents(
    contract: ContractFixture,
) -> None:
    await contract.works_on("alphavm")
    sha = await contract.pushes("alphavm")
    await contract.ci_says(runs(sha, test="failure"))
    await contract.cancel("alphavm")
    answer = await contract.can_spawn("adnet")
    assert "dependency_is_red" in {blocker["rule"] for blocker in answer.blockers}
    # Releasing the repo is the operator's responsibility.
    await contract.free("alphavm")
    assert (await contract.can_spawn("adnet")).can_spawn
