"""The timeout ladder, the signs of a deadlock and the periodic checkpoint, each at its edge."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.protocol.states import WorkerState
from tests.conformance.contract.contract_fixtures import (
    ContractRoom,
    all_waiting,
    contract_room,
    down,
    runs,
)
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-12")]

TASK = "adnet"
MS = 1 / 60_000  # in minutes


async def passes(site: ContractRoom, until: float, since_ms: int) -> None:
    """Until so many minutes after `since_ms`, with looks on the way as the duties have them."""
    goal_ms = since_ms + round(until * 60_000)
    while True:
        due = await site.coordinator.store.read(lambda tx: tx.next_attempt_look_at_ms())
        at_ms = goal_ms if due is None else min(max(due, site.clock.now_ms), goal_ms)
        site.clock.now_ms = at_ms
        await site.ladder.run_once()
        await site.watcher.run_once()
        if at_ms == goal_ms:
            return


async def at_edges(site: ContractRoom, since_ms: int, *rungs: tuple[float, list[str]]) -> None:
    """Nothing more a millisecond before each time, and all of it then."""
    expected: list[str] = []
    for minutes, steps in rungs:
        await passes(site, minutes - MS, since_ms)
        assert await site.steps() == expected
        await passes(site, minutes, since_ms)
        expected += steps
        assert await site.steps() == expected


async def test_a_silent_worker_is_warned_probed_parked_salvaged_and_replaced(
    site: ContractRoom,
) -> None:
    await site.works_on(TASK, "w")
    since_ms = site.clock.now_ms
    await site.register("other")
    await at_edges(
        site,
        since_ms,
        (15, ["warn"]),
        (20, ["probe", "park"]),
        (25, ["salvage", "reassign"]),
    )
    task = await site.given("other")
    assert (task.bead_id, task.epoch) == (TASK, 2)
    assert task.checkpoint is not None
    assert task.checkpoint["worker_id"] == "w"
    assert [one["reason"] for one in task.salvage] == ["timed_out"]
    # The lock is the task's, whoever works on it.
    assert await site.locked() == {TASK: TASK}


async def test_who_shows_progress_is_given_more_time(site: ContractRoom) -> None:
    """Active in the last five minutes, to the millisecond; over the whole time somebody is told."""
    await site.works_on(TASK, "w")
    since_ms = site.clock.now_ms
    await passes(site, 15, since_ms)
    await site.beat("w")
    await passes(site, 20, since_ms)
    assert await site.steps() == ["warn", "probe", "extend"]
    await passes(site, 25 - MS, since_ms)
    await site.beat("w")
    await passes(site, 25, since_ms)
    await passes(site, 30 - MS, since_ms)
    await site.beat("w")
    await passes(site, 30, since_ms)
    assert (await site.steps())[3:] == ["probe", "extend", "probe", "escalate", "extend"]
    (told,) = await site.events("timeout_escalated")
    assert "working for more than 30 m, and still active" in told["message"]
    assert (await site.attempt(TASK)).state is WorkerState.EXECUTING
    (question,) = await site.questions()
    assert told["message"] in question.question


async def test_a_commit_is_a_sign_of_work(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    repo = Repo(tmp_path / "own")
    async with contract_room(store_address, tmp_path / "state", repo, pushed[1]) as site:
        await site.works_on(TASK, "w")
        since_ms = site.clock.now_ms
        await passes(site, 15, since_ms)
        repo.commit("work", {"a.py": "1\n"})
        await passes(site, 20, since_ms)
        assert await site.steps() == ["warn", "probe", "extend"]


async def test_who_comes_back_from_the_park_goes_on(site: ContractRoom) -> None:
    await site.works_on(TASK, "w")
    since_ms = site.clock.now_ms
    await passes(site, 21, since_ms)
    assert (await site.steps())[-1] == "park"
    await site.beat("w")
    await passes(site, 25, since_ms)
    assert (await site.steps())[-1] == "extend"
    assert (await site.attempt(TASK)).epoch == 1


async def test_only_work_on_repos_of_the_policy_is_timed(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    elsewhere = Repo(tmp_path / "elsewhere")
    async with contract_room(store_address, tmp_path / "state", *pushed) as site:
        await site.given_out("plain", "w", repo=str(elsewhere.path))
        await site.says("plain", "WORKING: something")
        await passes(site, 25, site.clock.now_ms)
        assert await site.steps() == []
        assert (await site.attempt("plain")).epoch == 1


async def test_a_new_milestone_starts_its_own_clock(site: ContractRoom) -> None:
    await site.works_on(TASK)
    since_ms = site.clock.now_ms
    await passes(site, 14, since_ms)
    sha = await site.pushes(TASK)
    await site.ci_says(runs(sha, test="failure"))
    fixing_ms = site.clock.now_ms
    await at_edges(site, fixing_ms, (10, ["warn"]), (15, ["probe", "park"]))


async def test_ci_time_is_the_servers(site: ContractRoom) -> None:
    """CI is asked first. While it moves, nobody is parked for it."""
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    site.evidence.told[sha] = runs(sha, test="running")
    since_ms = site.clock.now_ms
    await at_edges(site, since_ms, (10, ["warn"]), (15, ["check_ci"]))
    await passes(site, 16, since_ms)
    assert await site.steps() == ["warn", "check_ci", "extend"]
    for minutes, job in ((29, "build"), (44, "check"), (59, "audit"), (62, "format")):
        site.evidence.told[sha] = runs(sha, **{"test": "running", job: "running"})
        await passes(site, minutes, since_ms)
    assert set(await site.steps()) == {"warn", "check_ci", "extend"}
    assert site.evidence.restarted == []
    held = await site.attempt(TASK)
    assert (held.state, held.epoch) == (WorkerState.VERIFYING, 1)


async def test_ci_that_is_stuck_is_restarted_once_and_then_told(site: ContractRoom) -> None:
    """The document: if_ci_stuck, restart_ci_and_wait."""
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    site.evidence.told[sha] = all_waiting(sha)
    since_ms = site.clock.now_ms
    await passes(site, 15, since_ms)
    assert site.evidence.restarted == []
    await passes(site, 16, since_ms)
    assert site.evidence.restarted == [sha]
    assert await site.steps() == ["warn", "check_ci", "restart_ci", "extend"]
    (event,) = await site.events("ci_restarted")
    assert (event["repo"], event["sha"], event["restarted"]) == (TASK, sha, True)
    assert await site.questions() == []
    await passes(site, 30, since_ms)
    assert await site.questions() == []
    # Its queue is as long as before: now a person is asked, once, and nobody is blocked by it.
    await passes(site, 120, since_ms)
    assert site.evidence.restarted == [sha]
    (question,) = await site.questions()
    assert "CI is stuck, even after a restart (run #89" in question.question
    assert (await site.attempt(TASK)).state is WorkerState.VERIFYING


async def test_ci_that_was_restarted_and_passes_finishes_the_task(site: ContractRoom) -> None:
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    site.evidence.told[sha] = all_waiting(sha)
    await passes(site, 16, site.clock.now_ms)
    assert site.evidence.restarted == [sha]
    await site.ci_says(runs(sha, "90"))
    await site.accept()
    assert await site.status(TASK) == "done"
    assert await site.questions(only_open=False) == []


async def test_a_run_that_hangs_is_restarted(site: ContractRoom) -> None:
    """Nothing has moved since it was given more time, a whole time of the milestone ago."""
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    site.evidence.told[sha] = runs(sha, test="running")
    since_ms = site.clock.now_ms
    await passes(site, 30, since_ms)
    assert site.evidence.restarted == []
    await passes(site, 31, since_ms)
    assert site.evidence.restarted == [sha]
    # Each milestone has a restart of its own.
    await site.ci_says(runs(sha, test="failure"))
    next_sha = await site.pushes(TASK, 1)
    site.evidence.told[next_sha] = runs(next_sha, test="running")
    await passes(site, 31, site.clock.now_ms)
    assert site.evidence.restarted == [sha, next_sha]


async def test_a_forge_that_does_not_answer_hides_no_run_that_hangs(site: ContractRoom) -> None:
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    await site.ci_says(runs(sha, test="running"))
    site.evidence.told[sha] = down()
    await passes(site, 60, site.clock.now_ms)
    assert site.evidence.restarted == []


async def test_what_is_called_off_for_a_restart_is_no_failure(site: ContractRoom) -> None:
    """A webhook, or a look that was under way, may come in between."""
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    site.evidence.told[sha] = all_waiting(sha)
    since_ms = site.clock.now_ms
    await passes(site, 16, since_ms)
    assert site.evidence.restarted == [sha]
    called_off = runs(sha, test="cancelled")
    await site.ci_says(called_off)
    assert (await site.tracking(TASK)).state == "waiting"
    assert await site.events("ci_failed") == []
    # When nobody makes it anew, it is one.
    await passes(site, 18, since_ms)
    assert await site.milestone(TASK) == "FIXING_CI"


@pytest.mark.parametrize("how", ["cannot", "raises"])
async def test_ci_that_cannot_be_restarted_is_told_at_once(site: ContractRoom, how: str) -> None:
    site.evidence.can_restart = False if how == "cannot" else down()
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    site.evidence.told[sha] = all_waiting(sha)
    await passes(site, 16, site.clock.now_ms)
    assert await site.steps() == ["warn", "check_ci", "restart_ci", "escalate"]
    (event,) = await site.events("ci_restarted")
    assert event["restarted"] is False
    assert ("502" in event["outcome"]) is (how == "raises")
    (question,) = await site.questions()
    assert "restart it by hand" in question.question
    await passes(site, 120, site.clock.now_ms)
    assert site.evidence.restarted == [sha]
    assert len(await site.questions(only_open=False)) == 1


async def test_ci_that_never_began_is_told(site: ContractRoom) -> None:
    await site.works_on("adl", "w", "b")
    await site.pushes("b", repo="adl")
    words = "there is no CI run for the pushed commit"
    await passes(site, 16, site.clock.now_ms)
    told = await site.events("timeout_escalated")
    assert (told[-1]["bead_id"], words in told[-1]["message"]) == ("b", True)
    # The contact of the handoff is asked, once however long it lasts; nobody is blocked by it.
    await passes(site, 120, site.clock.now_ms)
    (question,) = await site.questions()
    assert (question.bead_id, question.contact) == ("b", "coordinator")
    assert words in question.question
    assert (await site.attempt("b")).state is WorkerState.VERIFYING
    assert site.evidence.restarted == []


async def test_verification_time_is_the_servers(site: ContractRoom) -> None:
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    await site.ci_says(runs(sha))
    await passes(site, 600, site.clock.now_ms)
    assert await site.steps() == []


async def test_after_five_attempts_to_mend_the_ci_the_contact_is_asked(
    site: ContractRoom,
) -> None:
    await site.works_on(TASK)
    for number in range(5):
        sha = await site.pushes(TASK, number)
        await site.ci_says(runs(sha, test="failure"))
    await passes(site, 15, site.clock.now_ms)
    assert await site.steps() == ["warn", "probe", "escalate"]
    (question,) = await site.questions()
    assert "5 attempts to fix CI have failed" in question.question
    assert (await site.attempt(TASK)).state is WorkerState.BLOCKED
    # Blocked, it has a clock of its own; answered, it begins anew.
    blocked_ms = site.clock.now_ms
    await passes(site, 30, blocked_ms)
    assert "without an answer" in (await site.events("timeout_escalated"))[-1]["message"]
    await site.answer(question.question_id, "go on")
    await passes(site, 1, site.clock.now_ms)
    assert await site.questions() == []
    assert await site.milestone(TASK) == "FIXING_CI"


# -- deadlock


@pytest.mark.requirement("CC-13")
async def test_an_idle_worker_without_commits_is_suspected(site: ContractRoom) -> None:
    """Looked at every five minutes; each sign is told once."""
    await site.works_on(TASK)
    since_ms = site.clock.now_ms
    await passes(site, 15 - MS, since_ms)
    assert await site.events("deadlock_suspected") == []
    await passes(site, 15, since_ms)
    (told,) = await site.events("deadlock_suspected")
    assert [one["sign"] for one in told["signs"]] == ["worker_idle"]
    await passes(site, 20, since_ms)
    _, told = await site.events("deadlock_suspected")
    assert [one["sign"] for one in told["signs"]] == ["no_commits"]
    assert told["milestone"] == "WORKING"


@pytest.mark.requirement("CC-13")
async def test_ci_stuck_in_pending_and_api_errors_are_suspected(site: ContractRoom) -> None:
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    site.evidence.told[sha] = all_waiting(sha)
    await passes(site, 20, site.clock.now_ms)
    (told,) = await site.events("deadlock_suspected")
    assert [one["sign"] for one in told["signs"]] == ["ci_stuck_in_pending"]
    site.evidence.told[sha] = down()
    for errors in range(1, 5):
        await site.ci_is_due()
        site.clock.now_ms += 5 * 60_000
        await site.ladder.run_once()
        found = await site.events("deadlock_suspected")
        assert len(found) == (2 if errors > 3 else 1)
    assert found[1]["signs"][0]["sign"] == "api_errors"


# -- checkpoints


@pytest.mark.requirement("CC-11")
async def test_a_checkpoint_is_written_at_every_trigger(site: ContractRoom) -> None:
    await site.works_on(TASK, "w")
    assert (await site.checkpoint(TASK))["trigger"] == "milestone_transition"
    await site.says(TASK, "WORKING: Fees [substate: writing_tests]")
    since_ms = site.clock.now_ms
    await passes(site, 5 - MS, since_ms)
    assert (await site.checkpoint(TASK))["trigger"] == "milestone_transition"
    await passes(site, 5, since_ms)
    assert (await site.checkpoint(TASK))["trigger"] == "periodic_interval"
    sha = await site.pushes(TASK)
    pushed = await site.checkpoint(TASK)
    assert (pushed["trigger"], pushed["commits"]) == ("commit_pushed", [sha])
    await site.ci_says(runs(sha, test="failure"))
    found = await site.checkpoint(TASK)
    assert found == {
        "trigger": "ci_result_received",
        "worker_id": "w",
        "repo_name": TASK,
        "component_id": TASK,
        "current_milestone": "FIXING_CI",
        "timestamp": site.clock.now_ms,
        "commits": [sha],
        "ci_runs": [
            {
                "id": "89",
                "status": "failed",
                "jobs_passed": [*("check", "format", "audit", "build", "coverage"), "radicle-push"],
                "sha": sha,
            }
        ],
        "files_modified": [],
        "context_summary": "Fees",
        "blockers": [],
        "decisions_made": [],
    }
