"""CI is followed by the commit: what every look leads to, and what happens when nobody answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.coordinator.contract import ci
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import CiUnavailable, ContractViolations
from shiftboss.protocol.ci import CiReport
from shiftboss.protocol.states import WorkerState
from tests.conformance.contract.contract_fixtures import (
    ContractRoom,
    all_waiting,
    contract_room,
    down,
    runs,
)
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-01", "CC-03")]

TASK = "adnet"


@pytest.mark.requirement("CC-02")
async def test_the_documents_session(site: ContractRoom) -> None:
    """Its lines as they stand there, but for the commits."""
    await site.works_on(TASK)
    first, second = site.commits[:2]
    await site.says(
        TASK, "WORKING: Setting up fee calculation module in adnet/crates/adnet-runtime/src/fees/"
    )
    await site.says(TASK, "WORKING: Implementing BaseFee and DynamicFee structs")
    await site.says(TASK, f"PUSHED_TO_CI: adnet commit {first[:7]} - CI run #89")
    await site.ci_says(runs(first, "89", test="running"), runs(first, "89", test="failure"))
    await site.says(TASK, "FIXING_CI: test job - assertion failed in fee_calculation_test")
    await site.says(TASK, f"PUSHED_TO_CI: adnet commit {second[:7]} - CI run #90")
    await site.ci_says(runs(second, "90", radicle_push="running"), runs(second, "90"))
    await site.accept()
    answer = await site.says(TASK, "DONE: adnet CI run #90 all green, Radicle synced")
    assert (answer.status, answer.milestone) == ("accepted", "DONE")
    kinds = await site.kinds(TASK)
    assert kinds[kinds.index("task_started") :] == [
        "task_started",
        "milestone_reported",
        "milestone_reported",
        "milestone_reported",
        "ci_run_found",
        "ci_failed",
        "milestone_reported",
        "milestone_reported",
        "ci_run_found",
        "ci_passed",
        "claim_made",
        "claim_accepted",
        "task_done",
        "repo_released",
    ]
    (failed,) = await site.events("ci_failed")
    assert (failed["sha"], failed["run_id"]) == (first, "89")
    assert [one["job"] for one in failed["jobs"]] == ["test"]
    assert failed["log_tails"] == {"test": "assertion failed"}


@pytest.mark.requirement("CC-10")
async def test_a_new_push_replaces_the_commit_and_the_late_result_changes_nothing(
    site: ContractRoom,
) -> None:
    """caching_old_run_ids"""
    await site.works_on(TASK)
    first = await site.pushes(TASK)
    late = await site.tracking(TASK)
    second = await site.pushes(TASK, 1)
    for report in (runs(first), runs(first, test="failure")):
        await site.coordinator.store.write(
            lambda tx, said=report: _looked(site, tx, late, said),  # type: ignore[misc]
            site.swarm_id,
        )
    assert (await site.tracking(TASK)).sha == second
    assert (await site.attempt(TASK)).state is WorkerState.VERIFYING
    assert await site.events("ci_passed") == await site.events("ci_failed") == []
    site.evidence.asked.clear()
    await site.ci_says(all_waiting(second))
    assert site.evidence.asked == [second]


def _looked(site: ContractRoom, tx: object, seen: object, report: CiReport) -> str:
    active_policy = ActivePolicy(site.policy)
    return ci.record_report(tx, active_policy, seen, report, site.clock.now_ms)  # type: ignore[arg-type]


async def test_the_same_push_told_again_is_no_new_one(site: ContractRoom) -> None:
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    await site.ci_says(runs(sha, test="running"))
    before = await site.tracking(TASK)
    line = f"PUSHED_TO_CI: adnet commit {sha[:7]} - CI run #89 [substate: ci_running]"
    answer = await site.says(TASK, line)
    assert await site.tracking(TASK) == before
    assert answer.ci is not None
    assert answer.ci["state"] == "running"
    pushes = await site.coordinator.store.read(lambda tx: tx.newest_pushes("adnet"))
    assert [one.sha for one in pushes] == [sha]


async def test_what_is_no_success_is_red_and_says_what_to_do(site: ContractRoom) -> None:
    await site.works_on(TASK)
    for number, (job, state, hint) in enumerate(
        (
            ("radicle_push", "skipped", "git commit --allow-empty -m 'ci: trigger radicle sync'"),
            ("radicle_push", "cancelled", "run again"),
            ("test", "skipped", "must run"),
            ("test", "missing", "renamed"),
        )
    ):
        sha = await site.pushes(TASK, number)
        await site.ci_says(runs(sha, **{job: state}))
        (named,) = (await site.events("ci_failed"))[number]["jobs"]
        assert hint in named["hint"]
        assert await site.milestone(TASK) == "FIXING_CI"
        held = await site.attempt(TASK)
        assert held.state is WorkerState.EXECUTING
        assert held.lease_expires_at_ms is not None


async def test_runs_of_other_commits_and_no_run_at_all_are_waited_for(site: ContractRoom) -> None:
    """wrong SHA, an older run that is green, a run that does not come"""
    await site.works_on(TASK)
    sha = await site.pushes(TASK, 1)
    older = runs(site.commits[0]).runs
    for found in ([], older, [older[0].model_copy(update={"sha": ""})]):
        await site.ci_says(CiReport(sha=sha, runs=found, complete=False))
        assert (await site.tracking(TASK)).state == "waiting"
    with pytest.raises(ContractViolations, match="there is no CI run for commit"):
        await site.says(TASK, "DONE: adnet CI run #89 all green, radicle-push: success")
    assert await site.milestone(TASK) == "PUSHED_TO_CI"


async def test_a_rerun_that_turns_red_after_green_is_not_done(site: ContractRoom) -> None:
    """The verifier asks again. What it finds is followed to its end, and decides."""
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    await site.ci_says(runs(sha))
    await site.refuse("ci")
    held = await site.attempt(TASK)
    assert (held.state, held.lease_expires_at_ms) == (WorkerState.VERIFYING, None)
    await site.ci_says(runs(sha, test="running"), runs(sha, test="failure"))
    assert await site.milestone(TASK) == "FIXING_CI"
    assert await site.status(TASK) == "active"
    # Green again, it is claimed again.
    await site.pushes(TASK)
    await site.ci_says(runs(sha))
    await site.accept()


async def test_a_commit_that_was_pushed_away_is_refused(site: ContractRoom) -> None:
    """A force push: the verifier does not find it on its branch. Then there is nothing to follow,
    and the work goes on."""
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    await site.ci_says(runs(sha))
    await site.refuse("branch")
    assert (await site.attempt(TASK)).state is WorkerState.EXECUTING
    assert await site.coordinator.store.read(lambda tx: tx.next_look_at_ms()) is None
    await site.proven(TASK, 1)


async def test_a_forge_that_is_down_while_the_claim_is_verified_is_waited_for(
    site: ContractRoom,
) -> None:
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    await site.ci_says(runs(sha))
    for _ in range(3):
        job = await site.taken()
        state = await site.not_seen(job)
        site.clock.now_ms += 60_000
    assert state == "refused"
    assert (await site.attempt(TASK)).state is WorkerState.VERIFYING
    await site.ci_says(runs(sha))
    await site.accept()


# -- no answer


async def test_a_forge_that_is_down_for_ten_minutes_is_asked_later_and_later(
    site: ContractRoom,
) -> None:
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    site.evidence.told[sha] = down()
    pauses = []
    start_ms = site.clock.now_ms
    while site.clock.now_ms - start_ms < 10 * 60_000:
        await site.ci_is_due()
        now = await site.tracking(TASK)
        assert now.look_at_ms is not None
        pauses.append((now.look_at_ms - site.clock.now_ms) // 1000)
        # Told once, after more than three in a row.
        assert len(await site.events("ci_unreachable")) == (len(pauses) > 3)
    assert pauses[:6] == [5, 10, 20, 40, 60, 60]
    assert set(pauses[6:]) == {60}
    assert (await site.attempt(TASK)).state is WorkerState.VERIFYING
    with pytest.raises(CiUnavailable):
        await site.says(TASK, "DONE: adnet CI run #89 all green, radicle-push: success")
    await site.ci_says(runs(sha))
    assert (await site.events("ci_passed"))[0]["sha"] == sha
    await site.accept()


async def test_a_token_that_was_revoked_is_told_and_never_a_pass(site: ContractRoom) -> None:
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    words = "the forge refused the token: it was revoked"
    site.evidence.told[sha] = CiUnavailable(words, reason="token", retry_after_seconds=60)
    for _ in range(4):
        await site.ci_is_due()
    (told,) = await site.events("ci_unreachable")
    assert (told["reason"], told["errors"]) == (words, 4)
    assert (await site.tracking(TASK)).state == "waiting"


async def test_a_mistake_about_one_commit_does_not_stop_the_others(site: ContractRoom) -> None:
    await site.works_on("sdk")
    await site.works_on("adl")
    broken, sound = await site.pushes("sdk"), await site.pushes("adl", 1)
    site.evidence.told[broken] = ValueError("a mistake of ours")
    await site.ci_says(runs(sound))
    assert (await site.tracking("adl")).state == "passed"
    assert (await site.tracking("sdk")).errors == 1


async def test_the_watcher_comes_less_often_while_nothing_changes(site: ContractRoom) -> None:
    await site.works_on(TASK)
    sha = await site.pushes(TASK)
    pauses = []
    waiting, running = all_waiting(sha), runs(sha, test="running", build="running")
    for report in (*[waiting] * 5, running, running, runs(sha, test="running")):
        await site.ci_says(report)
        now = await site.tracking(TASK)
        pauses.append(((now.look_at_ms or 0) - site.clock.now_ms) // 1000)
    assert pauses == [15, 30, 60, 60, 60, 15, 30, 15]
    slow = all_waiting(sha).model_copy(update={"not_before_seconds": 400.0})
    await site.ci_says(slow)
    now = await site.tracking(TASK)
    assert (now.look_at_ms or 0) - site.clock.now_ms == 400_000


# -- who is there to hear it


async def test_attempts_to_mend_the_ci_are_counted_and_then_the_contact_is_asked(
    site: ContractRoom,
) -> None:
    await site.works_on(TASK)
    for number in range(6):
        assert await site.questions() == []
        sha = await site.pushes(TASK, number)
        await site.ci_says(runs(sha, test="failure"))
        assert (await site.kept(TASK)).fix_attempts == number + 1
    (question,) = await site.questions()
    assert "has tried 5 times" in question.question
    assert (await site.attempt(TASK)).state is WorkerState.BLOCKED
    await site.answer(question.question_id, "take the old fixture")
    assert (await site.kept(TASK)).fix_attempts == 0
    assert (await site.attempt(TASK)).state is WorkerState.EXECUTING


async def test_a_result_for_a_task_that_is_over_is_nobodys(site: ContractRoom) -> None:
    """And nothing is due any more: a look that leads nowhere would be made for ever."""
    for end in (site.cancel, site.failed):
        await site.works_on("sdk", "w", end.__name__)
        sha = await site.pushes(end.__name__, repo="sdk")
        site.evidence.told[sha] = runs(sha)
        await end(end.__name__)
        await site.watcher.run_once()
        assert await site.coordinator.store.read(lambda tx: tx.next_look_at_ms()) is None
        await site.free("sdk")


async def test_a_restart_resumes_every_commit(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    async with contract_room(store_address, tmp_path / "a", *pushed) as site:
        for number, repo in enumerate(("sdk", "adl", "ac-dc")):
            await site.works_on(repo)
            await site.pushes(repo, number)
        clock = site.clock
    clock.now_ms += 60_000
    async with contract_room(store_address, tmp_path / "b", *pushed, clock=clock) as site:
        results = [runs(site.commits[0]), runs(site.commits[1], test="failure")]
        for report in results:
            site.evidence.told[report.sha] = report
        await site.watcher.run_once()
        assert sorted(site.evidence.asked) == sorted(site.commits[:3])
        assert [await site.milestone(repo) for repo in ("adl", "ac-dc")] == [
            "FIXING_CI",
            "PUSHED_TO_CI",
        ]
        await site.accept()
        assert await site.status("sdk") == "done"
