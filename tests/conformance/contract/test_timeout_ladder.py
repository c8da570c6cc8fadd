"""The timeout ladder, the signs of a deadlock and the periodic checkpoint, each at its limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.protocol.states import WorkerState
from tests.conformance.contract.contract_fixtures import (
    ContractFixture,
    all_waiting,
    down,
    open_contract,
    runs,
)
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-12")]

TASK = "adnet"
MS = 1 / 60_000  # in minutes


async def passes(contract: ContractFixture, until: float, since_ms: int) -> None:
    """Advance to so many minutes after `since_ms`, running the duties on the way."""
    goal_ms = since_ms + round(until * 60_000)
    while True:
        due = await contract.coordinator.store.read(lambda tx: tx.next_attempt_check_at_ms())
        at_ms = goal_ms if due is None else min(max(due, contract.clock.now_ms), goal_ms)
        contract.clock.now_ms = at_ms
        await contract.ladder.run_once()
        await contract.watcher.run_once()
        if at_ms == goal_ms:
            return


async def at_edges(
    contract: ContractFixture, since_ms: int, *rungs: tuple[float, list[str]]
) -> None:
    """Check that nothing is due a millisecond before each time, and everything is due then."""
    expected: list[str] = []
    for minutes, steps in rungs:
        await passes(contract, minutes - MS, since_ms)
        assert await contract.steps() == expected
        await passes(contract, minutes, since_ms)
        expected += steps
        assert await contract.steps() == expected


async def test_a_silent_worker_is_warned_probed_parked_salvaged_and_replaced(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK, "w")
    since_ms = contract.clock.now_ms
    await contract.register("other")
    await at_edges(
        contract,
        since_ms,
        (15, ["warn"]),
        (20, ["probe", "park"]),
        (25, ["salvage", "reassign"]),
    )
    task = await contract.given("other")
    assert (task.bead_id, task.epoch) == (TASK, 2)
    assert task.checkpoint is not None
    assert task.checkpoint["worker_id"] == "w"
    assert [entry["reason"] for entry in task.salvage] == ["timed_out"]
    # The lock belongs to the task, whoever works on it.
    assert await contract.locked() == {TASK: TASK}


async def test_a_worker_that_shows_progress_gets_more_time(contract: ContractFixture) -> None:
    """Active in the last five minutes, to the millisecond; after the whole time it is escalated."""
    await contract.works_on(TASK, "w")
    since_ms = contract.clock.now_ms
    await passes(contract, 15, since_ms)
    await contract.beat("w")
    await passes(contract, 20, since_ms)
    assert await contract.steps() == ["warn", "probe", "extend"]
    await passes(contract, 25 - MS, since_ms)
    await contract.beat("w")
    await passes(contract, 25, since_ms)
    await passes(contract, 30 - MS, since_ms)
    await contract.beat("w")
    await passes(contract, 30, since_ms)
    assert (await contract.steps())[3:] == ["probe", "extend", "probe", "escalate", "extend"]
    (told,) = await contract.events("timeout_escalated")
    assert "working for more than 30 m, and still active" in told["message"]
    assert (await contract.attempt(TASK)).state is WorkerState.EXECUTING
    (question,) = await contract.questions()
    assert told["message"] in question.question


async def test_a_commit_counts_as_activity(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    repo = Repo(tmp_path / "own")
    async with open_contract(store_address, tmp_path / "state", repo, pushed[1]) as contract:
        await contract.works_on(TASK, "w")
        since_ms = contract.clock.now_ms
        await passes(contract, 15, since_ms)
        repo.commit("work", {"a.py": "1\n"})
        await passes(contract, 20, since_ms)
        assert await contract.steps() == ["warn", "probe", "extend"]


async def test_a_parked_worker_that_returns_continues(contract: ContractFixture) -> None:
    await contract.works_on(TASK, "w")
    since_ms = contract.clock.now_ms
    await passes(contract, 21, since_ms)
    assert (await contract.steps())[-1] == "park"
    await contract.beat("w")
    await passes(contract, 25, since_ms)
    assert (await contract.steps())[-1] == "extend"
    assert (await contract.attempt(TASK)).epoch == 1


async def test_only_work_on_repos_in_the_policy_is_timed(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    elsewhere = Repo(tmp_path / "elsewhere")
    async with open_contract(store_address, tmp_path / "state", *pushed) as contract:
        await contract.given_out("plain", "w", repo=str(elsewhere.path))
        await contract.says("plain", "WORKING: something")
        await passes(contract, 25, contract.clock.now_ms)
        assert await contract.steps() == []
        assert (await contract.attempt("plain")).epoch == 1


async def test_a_new_milestone_starts_its_own_clock(contract: ContractFixture) -> None:
    await contract.works_on(TASK)
    since_ms = contract.clock.now_ms
    await passes(contract, 14, since_ms)
    sha = await contract.pushes(TASK)
    await contract.ci_says(runs(sha, test="failure"))
    fixing_ms = contract.clock.now_ms
    await at_edges(contract, fixing_ms, (10, ["warn"]), (15, ["probe", "park"]))


async def test_time_spent_in_ci_is_not_held_against_the_worker(contract: ContractFixture) -> None:
    """CI is checked first. While it makes progress, nobody is parked."""
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    contract.evidence.told[sha] = runs(sha, test="running")
    since_ms = contract.clock.now_ms
    await at_edges(contract, since_ms, (10, ["warn"]), (15, ["check_ci"]))
    await passes(contract, 16, since_ms)
    assert await contract.steps() == ["warn", "check_ci", "extend"]
    for minutes, job in ((29, "build"), (44, "check"), (59, "audit"), (62, "format")):
        contract.evidence.told[sha] = runs(sha, **{"test": "running", job: "running"})
        await passes(contract, minutes, since_ms)
    assert set(await contract.steps()) == {"warn", "check_ci", "extend"}
    assert contract.evidence.restarted == []
    held = await contract.attempt(TASK)
    assert (held.state, held.epoch) == (WorkerState.VERIFYING, 1)


async def test_stuck_ci_is_restarted_once_and_then_reported(contract: ContractFixture) -> None:
    """The document: if_ci_stuck, restart_ci_and_wait."""
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    contract.evidence.told[sha] = all_waiting(sha)
    since_ms = contract.clock.now_ms
    await passes(contract, 15, since_ms)
    assert contract.evidence.restarted == []
    await passes(contract, 16, since_ms)
    assert contract.evidence.restarted == [sha]
    assert await contract.steps() == ["warn", "check_ci", "restart_ci", "extend"]
    (event,) = await contract.events("ci_restarted")
    assert (event["repo"], event["sha"], event["restarted"]) == (TASK, sha, True)
    assert await contract.questions() == []
    await passes(contract, 30, since_ms)
    assert await contract.questions() == []
    # Still queued: now a person is asked, once, which blocks nobody.
    await passes(contract, 120, since_ms)
    assert contract.evidence.restarted == [sha]
    (question,) = await contract.questions()
    assert "CI is stuck, even after a restart (run #89" in question.question
    assert (await contract.attempt(TASK)).state is WorkerState.VERIFYING


async def test_ci_that_passes_after_a_restart_finishes_the_task(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    contract.evidence.told[sha] = all_waiting(sha)
    await passes(contract, 16, contract.clock.now_ms)
    assert contract.evidence.restarted == [sha]
    await contract.ci_says(runs(sha, "90"))
    await contract.accept()
    assert await contract.status(TASK) == "done"
    assert await contract.questions(only_open=False) == []


async def test_a_hanging_run_is_restarted(contract: ContractFixture) -> None:
    """There was no progress since its extension, a full milestone period ago."""
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    contract.evidence.told[sha] = runs(sha, test="running")
    since_ms = contract.clock.now_ms
    await passes(contract, 30, since_ms)
    assert contract.evidence.restarted == []
    await passes(contract, 31, since_ms)
    assert contract.evidence.restarted == [sha]
    # Each milestone has its own restart.
    await contract.ci_says(runs(sha, test="failure"))
    next_sha = await contract.pushes(TASK, 1)
    contract.evidence.told[next_sha] = runs(next_sha, test="running")
    await passes(contract, 31, contract.clock.now_ms)
    assert contract.evidence.restarted == [sha, next_sha]


async def test_a_hanging_run_is_noticed_even_if_the_forge_did_not_answer(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    await contract.ci_says(runs(sha, test="running"))
    contract.evidence.told[sha] = down()
    await passes(contract, 60, contract.clock.now_ms)
    assert contract.evidence.restarted == []


async def test_a_run_cancelled_for_a_restart_is_not_a_failure(contract: ContractFixture) -> None:
    """A webhook or a check in progress may come in between."""
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    contract.evidence.told[sha] = all_waiting(sha)
    since_ms = contract.clock.now_ms
    await passes(contract, 16, since_ms)
    assert contract.evidence.restarted == [sha]
    called_off = runs(sha, test="cancelled")
    await contract.ci_says(called_off)
    assert (await contract.tracking(TASK)).state == "waiting"
    assert await contract.events("ci_failed") == []
    # If nobody restarts it, it is a failure.
    await passes(contract, 18, since_ms)
    assert await contract.milestone(TASK) == "FIXING_CI"


@pytest.mark.parametrize("how", ["cannot", "raises"])
async def test_ci_that_cannot_be_restarted_is_reported_immediately(
    contract: ContractFixture, how: str
) -> None:
    contract.evidence.can_restart = False if how == "cannot" else down()
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    contract.evidence.told[sha] = all_waiting(sha)
    await passes(contract, 16, contract.clock.now_ms)
    assert await contract.steps() == ["warn", "check_ci", "restart_ci", "escalate"]
    (event,) = await contract.events("ci_restarted")
    assert event["restarted"] is False
    assert ("502" in event["outcome"]) is (how == "raises")
    (question,) = await contract.questions()
    assert "restart it by hand" in question.question
    await passes(contract, 120, contract.clock.now_ms)
    assert contract.evidence.restarted == [sha]
    assert len(await contract.questions(only_open=False)) == 1


async def test_ci_that_never_started_is_reported(contract: ContractFixture) -> None:
    await contract.works_on("adl", "w", "b")
    await contract.pushes("b", repo="adl")
    text = "there is no CI run for the pushed commit"
    await passes(contract, 16, contract.clock.now_ms)
    escalated = await contract.events("timeout_escalated")
    assert (escalated[-1]["bead_id"], text in escalated[-1]["message"]) == ("b", True)
    # The contact of the handoff is asked, only once, which blocks nobody.
    await passes(contract, 120, contract.clock.now_ms)
    (question,) = await contract.questions()
    assert (question.bead_id, question.contact) == ("b", "coordinator")
    assert text in question.question
    assert (await contract.attempt("b")).state is WorkerState.VERIFYING
    assert contract.evidence.restarted == []


async def test_time_spent_in_verification_is_not_held_against_the_worker(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    await contract.ci_says(runs(sha))
    await passes(contract, 600, contract.clock.now_ms)
    assert await contract.steps() == []


async def test_after_five_attempts_to_fix_ci_the_contact_is_asked(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    for number in range(5):
        sha = await contract.pushes(TASK, number)
        await contract.ci_says(runs(sha, test="failure"))
    await passes(contract, 15, contract.clock.now_ms)
    assert await contract.steps() == ["warn", "probe", "escalate"]
    (question,) = await contract.questions()
    assert "5 attempts to fix CI have failed" in question.question
    assert (await contract.attempt(TASK)).state is WorkerState.BLOCKED
    # While blocked it has its own clock, which restarts after the answer.
    blocked_ms = contract.clock.now_ms
    await passes(contract, 30, blocked_ms)
    assert "without an answer" in (await contract.events("timeout_escalated"))[-1]["message"]
    await contract.answer(question.question_id, "go on")
    await passes(contract, 1, contract.clock.now_ms)
    assert await contract.questions() == []
    assert await contract.milestone(TASK) == "FIXING_CI"


# -- deadlock


@pytest.mark.requirement("CC-13")
async def test_an_idle_worker_without_commits_is_suspected(contract: ContractFixture) -> None:
    """Checked every five minutes; each sign is reported once."""
    await contract.works_on(TASK)
    since_ms = contract.clock.now_ms
    await passes(contract, 15 - MS, since_ms)
    assert await contract.events("deadlock_suspected") == []
    await passes(contract, 15, since_ms)
    (told,) = await contract.events("deadlock_suspected")
    assert [sign["sign"] for sign in told["signs"]] == ["worker_idle"]
    await passes(contract, 20, since_ms)
    _, told = await contract.events("deadlock_suspected")
    assert [sign["sign"] for sign in told["signs"]] == ["no_commits"]
    assert told["milestone"] == "WORKING"


@pytest.mark.requirement("CC-13")
async def test_pending_ci_and_repeated_api_errors_are_suspected(contract: ContractFixture) -> None:
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    contract.evidence.told[sha] = all_waiting(sha)
    await passes(contract, 20, contract.clock.now_ms)
    (told,) = await contract.events("deadlock_suspected")
    assert [sign["sign"] for sign in told["signs"]] == ["ci_stuck_in_pending"]
    contract.evidence.told[sha] = down()
    for errors in range(1, 5):
        await contract.ci_is_due()
        contract.clock.now_ms += 5 * 60_000
        await contract.ladder.run_once()
        found = await contract.events("deadlock_suspected")
        assert len(found) == (2 if errors > 3 else 1)
    assert found[1]["signs"][0]["sign"] == "api_errors"


# -- checkpoints


@pytest.mark.requirement("CC-11")
async def test_a_checkpoint_is_written_at_every_trigger(contract: ContractFixture) -> None:
    await contract.works_on(TASK, "w")
    assert (await contract.checkpoint(TASK))["trigger"] == "milestone_transition"
    await contract.says(TASK, "WORKING: Fees [substate: writing_tests]")
    since_ms = contract.clock.now_ms
    await passes(contract, 5 - MS, since_ms)
    assert (await contract.checkpoint(TASK))["trigger"] == "milestone_transition"
    await passes(contract, 5, since_ms)
    assert (await contract.checkpoint(TASK))["trigger"] == "periodic_interval"
    sha = await contract.pushes(TASK)
    pushed = await contract.checkpoint(TASK)
    assert (pushed["trigger"], pushed["commits"]) == ("commit_pushed", [sha])
    await contract.ci_says(runs(sha, test="failure"))
    found = await contract.checkpoint(TASK)
    assert found == {
        "trigger": "ci_result_received",
        "worker_id": "w",
        "repo_name": TASK,
        "component_id": TASK,
        "current_milestone": "FIXING_CI",
        "timestamp": contract.clock.now_ms,
        "commits": [sha],
        "ci_runs": [
            {
                "id": "89",
                "status": "failure",
                "result": "failed",
                "jobs_passed": [*("check", "format", "audit", "build", "coverage"), "radicle-push"],
                "sha": sha,
            }
        ],
        "files_modified": [],
        "context_summary": "Fees",
        "blockers": [],
        "decisions_made": [],
    }


@pytest.mark.requirement("CC-11")
async def test_commits_that_nobody_reported_are_in_the_next_checkpoint(
    store_address: str, tmp_path: Path
) -> None:
    repo = Repo(tmp_path / "repo")
    async with open_contract(store_address, tmp_path, repo, []) as contract:
        await contract.works_on(TASK, "w")
        await contract.says(TASK, "WORKING: Fees", decisions=["u128 amounts"])
        sha = repo.commit("work", {"src/auth/fees.py": "1\n"})
        await passes(contract, 5, contract.clock.now_ms)
        found = await contract.checkpoint(TASK)
    assert (found["commits"], found["files_modified"]) == ([sha], ["src/auth/fees.py"])
    assert found["decisions_made"] == ["u128 amounts"]
