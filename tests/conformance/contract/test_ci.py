"""CI is tracked per commit: the effect of every check, and what happens without an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shiftboss.coordinator.contract import ci
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.errors import CiUnavailable, ContractViolations
from shiftboss.protocol.ci import CiReport
from shiftboss.protocol.states import WorkerState
from tests.conformance.contract.contract_fixtures import (
    JOBS,
    ContractFixture,
    all_waiting,
    down,
    open_contract,
    runs,
)
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-01", "CC-03")]

TASK = "adnet"


@pytest.mark.requirement("CC-02")
async def test_the_session_of_the_document(contract: ContractFixture) -> None:
    """Its lines are unchanged except for the commits."""
    await contract.works_on(TASK)
    first, second = contract.commits[:2]
    await contract.says(
        TASK, "WORKING: Setting up fee calculation module in adnet/crates/adnet-runtime/src/fees/"
    )
    await contract.says(TASK, "WORKING: Implementing BaseFee and DynamicFee structs")
    await contract.says(TASK, f"PUSHED_TO_CI: adnet commit {first[:7]} - CI run #89")
    await contract.ci_says(runs(first, "89", test="running"), runs(first, "89", test="failure"))
    await contract.says(TASK, "FIXING_CI: test job - assertion failed in fee_calculation_test")
    await contract.says(TASK, f"PUSHED_TO_CI: adnet commit {second[:7]} - CI run #90")
    await contract.ci_says(runs(second, "90", radicle_push="running"), runs(second, "90"))
    await contract.accept()
    answer = await contract.says(TASK, "DONE: adnet CI run #90 all green, Radicle synced")
    assert (answer.status, answer.milestone) == ("accepted", "DONE")
    kinds = await contract.kinds(TASK)
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
    (failed,) = await contract.events("ci_failed")
    assert (failed["sha"], failed["run_id"]) == (first, "89")
    assert [one["job"] for one in failed["jobs"]] == ["test"]
    assert failed["log_tails"] == {"test": "assertion failed"}


@pytest.mark.requirement("CC-10")
async def test_a_new_push_replaces_the_commit_and_a_late_result_changes_nothing(
    contract: ContractFixture,
) -> None:
    """caching_old_run_ids"""
    await contract.works_on(TASK)
    first = await contract.pushes(TASK)
    late = await contract.tracking(TASK)
    second = await contract.pushes(TASK, 1)
    for report in (runs(first), runs(first, test="failure")):
        await contract.coordinator.store.write(
            lambda tx, said=report: _looked(contract, tx, late, said),  # type: ignore[misc]
            contract.swarm_id,
        )
    assert (await contract.tracking(TASK)).sha == second
    assert (await contract.attempt(TASK)).state is WorkerState.VERIFYING
    assert await contract.events("ci_passed") == await contract.events("ci_failed") == []
    contract.evidence.asked.clear()
    await contract.ci_says(all_waiting(second))
    assert contract.evidence.asked == [second]


def _looked(contract: ContractFixture, tx: object, seen: object, report: CiReport) -> str:
    active_policy = ActivePolicy(contract.policy)
    return ci.record_report(tx, active_policy, seen, report, contract.clock.now_ms)  # type: ignore[arg-type]


async def test_a_repeated_push_report_is_not_a_new_push(contract: ContractFixture) -> None:
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    await contract.ci_says(runs(sha, test="running"))
    before = await contract.tracking(TASK)
    line = f"PUSHED_TO_CI: adnet commit {sha[:7]} - CI run #89 [substate: ci_running]"
    answer = await contract.says(TASK, line)
    assert await contract.tracking(TASK) == before
    assert answer.ci is not None
    assert answer.ci["state"] == "running"
    pushes = await contract.coordinator.store.read(lambda tx: tx.newest_pushes("adnet"))
    assert [push.sha for push in pushes] == [sha]


async def test_anything_but_success_is_red_and_names_a_remedy(contract: ContractFixture) -> None:
    await contract.works_on(TASK)
    for number, (job, state, hint) in enumerate(
        (
            ("radicle_push", "skipped", "git commit --allow-empty -m 'ci: trigger radicle sync'"),
            ("radicle_push", "cancelled", "run again"),
            ("test", "skipped", "must run"),
            ("test", "missing", "renamed"),
        )
    ):
        sha = await contract.pushes(TASK, number)
        await contract.ci_says(runs(sha, **{job: state}))
        (named,) = (await contract.events("ci_failed"))[number]["jobs"]
        assert hint in named["hint"]
        assert await contract.milestone(TASK) == "FIXING_CI"
        held = await contract.attempt(TASK)
        assert held.state is WorkerState.EXECUTING
        assert held.lease_expires_at_ms is not None


async def test_the_watcher_keeps_waiting_if_there_is_no_run_of_the_commit(
    contract: ContractFixture,
) -> None:
    """Cases: a wrong SHA, an older green run, a run that never appears."""
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK, 1)
    older = runs(contract.commits[0]).runs
    for ci_runs in ([], older, [older[0].model_copy(update={"sha": ""})]):
        await contract.ci_says(CiReport(sha=sha, runs=ci_runs, complete=False))
        assert (await contract.tracking(TASK)).state == "waiting"
    with pytest.raises(ContractViolations, match="there is no CI run for commit"):
        await contract.says(TASK, "DONE: adnet CI run #89 all green, radicle-push: success")
    assert await contract.milestone(TASK) == "PUSHED_TO_CI"


async def test_a_rerun_that_turns_red_after_green_is_not_done(contract: ContractFixture) -> None:
    """The verifier checks again. The run it finds is tracked until it ends, and decides."""
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    await contract.ci_says(runs(sha))
    await contract.refuse("ci")
    held = await contract.attempt(TASK)
    assert (held.state, held.lease_expires_at_ms) == (WorkerState.VERIFYING, None)
    await contract.ci_says(runs(sha, test="running"), runs(sha, test="failure"))
    assert await contract.milestone(TASK) == "FIXING_CI"
    assert await contract.status(TASK) == "active"
    # Once green again, it is claimed again.
    await contract.pushes(TASK)
    await contract.ci_says(runs(sha))
    await contract.accept()


async def test_a_commit_removed_by_a_force_push_is_refused(contract: ContractFixture) -> None:
    """After a force push the verifier does not find the commit on its branch. There is nothing
    left to track, and the work continues."""
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    await contract.ci_says(runs(sha))
    await contract.refuse("branch")
    assert (await contract.attempt(TASK)).state is WorkerState.EXECUTING
    assert await contract.coordinator.store.read(lambda tx: tx.next_ci_check_at_ms()) is None
    await contract.proven(TASK, 1)


async def test_verification_waits_for_a_forge_that_is_down(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    await contract.ci_says(runs(sha))
    for _ in range(3):
        job = await contract.taken()
        state = await contract.not_seen(job)
        contract.clock.now_ms += 60_000
    assert state == "refused"
    assert (await contract.attempt(TASK)).state is WorkerState.VERIFYING
    await contract.ci_says(runs(sha))
    await contract.accept()


# -- no answer


async def test_a_forge_that_is_down_is_polled_with_growing_delays(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    contract.evidence.told[sha] = down()
    pauses = []
    start_ms = contract.clock.now_ms
    while contract.clock.now_ms - start_ms < 10 * 60_000:
        await contract.ci_is_due()
        now = await contract.tracking(TASK)
        assert now.look_at_ms is not None
        pauses.append((now.look_at_ms - contract.clock.now_ms) // 1000)
        # Reported once, after more than three in a row.
        assert len(await contract.events("ci_unreachable")) == (len(pauses) > 3)
    assert pauses[:6] == [5, 10, 20, 40, 60, 60]
    assert set(pauses[6:]) == {60}
    assert (await contract.attempt(TASK)).state is WorkerState.VERIFYING
    with pytest.raises(CiUnavailable):
        await contract.says(TASK, "DONE: adnet CI run #89 all green, radicle-push: success")
    await contract.ci_says(runs(sha))
    assert (await contract.events("ci_passed"))[0]["sha"] == sha
    await contract.accept()


async def test_a_revoked_token_is_reported_and_never_counts_as_a_pass(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    message = "the forge refused the token: it was revoked"
    contract.evidence.told[sha] = CiUnavailable(message, reason="token", retry_after_seconds=60)
    for _ in range(4):
        await contract.ci_is_due()
    (told,) = await contract.events("ci_unreachable")
    assert (told["reason"], told["errors"]) == (message, 4)
    assert (await contract.tracking(TASK)).state == "waiting"


async def test_an_error_for_one_commit_does_not_affect_the_others(
    contract: ContractFixture,
) -> None:
    await contract.works_on("sdk")
    await contract.works_on("adl")
    broken, sound = await contract.pushes("sdk"), await contract.pushes("adl", 1)
    contract.evidence.told[broken] = ValueError("a mistake of ours")
    await contract.ci_says(runs(sound))
    assert (await contract.tracking("adl")).state == "passed"
    assert (await contract.tracking("sdk")).errors == 1


async def test_the_watcher_polls_less_often_while_nothing_changes(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    sha = await contract.pushes(TASK)
    pauses = []
    waiting, running = all_waiting(sha), runs(sha, test="running", build="running")
    for report in (*[waiting] * 5, running, running, runs(sha, test="running")):
        await contract.ci_says(report)
        now = await contract.tracking(TASK)
        pauses.append(((now.look_at_ms or 0) - contract.clock.now_ms) // 1000)
    assert pauses == [15, 30, 60, 60, 60, 15, 30, 15]
    slow = all_waiting(sha).model_copy(update={"not_before_seconds": 400.0})
    await contract.ci_says(slow)
    now = await contract.tracking(TASK)
    assert (now.look_at_ms or 0) - contract.clock.now_ms == 400_000


# -- who receives the result


async def test_after_too_many_attempts_to_fix_ci_the_contact_is_asked(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK)
    for number in range(6):
        assert await contract.questions() == []
        sha = await contract.pushes(TASK, number)
        await contract.ci_says(runs(sha, test="failure"))
        assert (await contract.kept(TASK)).fix_attempts == number + 1
    (question,) = await contract.questions()
    assert "has tried 5 times" in question.question
    assert (await contract.attempt(TASK)).state is WorkerState.BLOCKED
    await contract.answer(question.question_id, "take the old fixture")
    assert (await contract.kept(TASK)).fix_attempts == 0
    assert (await contract.attempt(TASK)).state is WorkerState.EXECUTING


async def test_a_result_for_a_finished_task_is_dropped(contract: ContractFixture) -> None:
    """Nothing is due any more, either: otherwise a useless check would repeat forever."""
    for end in (contract.cancel, contract.failed):
        await contract.works_on("sdk", "w", end.__name__)
        sha = await contract.pushes(end.__name__, repo="sdk")
        contract.evidence.told[sha] = runs(sha)
        await end(end.__name__)
        await contract.watcher.run_once()
        assert await contract.coordinator.store.read(lambda tx: tx.next_ci_check_at_ms()) is None
        await contract.free("sdk")


async def test_a_restart_resumes_following_every_commit(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    async with open_contract(store_address, tmp_path / "a", *pushed) as contract:
        for number, repo in enumerate(("sdk", "adl", "ac-dc")):
            await contract.works_on(repo)
            await contract.pushes(repo, number)
        clock = contract.clock
    clock.now_ms += 60_000
    async with open_contract(store_address, tmp_path / "b", *pushed, clock=clock) as contract:
        results = [runs(contract.commits[0]), runs(contract.commits[1], test="failure")]
        for report in results:
            contract.evidence.told[report.sha] = report
        await contract.watcher.run_once()
        assert sorted(contract.evidence.asked) == sorted(contract.commits[:3])
        assert [await contract.milestone(repo) for repo in ("adl", "ac-dc")] == [
            "FIXING_CI",
            "PUSHED_TO_CI",
        ]
        await contract.accept()
        assert await contract.status("sdk") == "done"


async def test_a_task_keeps_the_jobs_of_its_spawn_until_its_contract_is_replaced(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    async def versions(contract: ContractFixture) -> list[list[str]]:
        handoffs = [
            await contract.coordinator.store.read(
                lambda tx, number=version: tx.handoff(contract.swarm_id, "t", number)  # type: ignore[misc]
            )
            for version in (1, 2)
        ]
        return [json.loads(found.ci)["policy"]["required_jobs"] for found in handoffs if found]

    async with open_contract(store_address, tmp_path / "a", *pushed) as contract:
        await contract.spawn("t", repo="sdk")
    async with open_contract(store_address, tmp_path / "b", *pushed, jobs=["lint"]) as contract:
        assert (await contract.spawn("t", repo="sdk")).contract_version == 1
        assert await versions(contract) == [JOBS]
        for _ in range(2):
            assert (await contract.replace("t", repo="sdk")).contract_version == 2
        assert await versions(contract) == [JOBS, ["lint"]]
