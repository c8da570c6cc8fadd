"""Who takes over gets the checkpoint, and goes on where the CI of the pushed commit says."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.leases import LEASE_SECONDS
from tests.conformance.contract.contract_fixtures import (
    ContractRoom,
    all_waiting,
    contract_room,
    runs,
)
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-11")]

TASK = "adnet"


async def replaced(site: ContractRoom) -> None:
    """The worker is gone, the operator takes the task from it, and another gets it."""
    await site.register("other")
    await site.reset("w")
    assert (await site.given("other")).epoch == 2


async def test_a_worker_that_dies_before_a_push_is_replaced_at_working(site: ContractRoom) -> None:
    await site.works_on(TASK, "w")
    await site.says(TASK, "WORKING: Implementing BaseFee")
    await site.register("other")
    await site.pass_seconds(LEASE_SECONDS)
    task = await site.given("other")
    assert task.checkpoint is not None
    assert task.checkpoint["context_summary"] == "Implementing BaseFee"
    assert task.checkpoint["current_milestone"] == "WORKING"
    await site.ack("other", TASK)
    assert await site.milestone(TASK) == "WORKING"


async def test_if_ci_passed_it_is_marked_done(site: ContractRoom) -> None:
    """While nobody had the task: the next worker has nothing left to do."""
    await site.works_on(TASK, "w")
    sha = await site.pushes(TASK)
    await replaced(site)
    await site.ci_says(runs(sha))
    (passed,) = await site.events("ci_passed")
    assert (passed["worker"], passed["sha"]) == (None, sha)
    await site.ack("other", TASK)
    job = await site.accept()
    assert job.commit == sha
    assert await site.status(TASK) == "done"
    assert await site.locked() == {}


async def test_if_ci_failed_it_resumes_at_fixing_ci(site: ContractRoom) -> None:
    await site.works_on(TASK, "w")
    sha = await site.pushes(TASK)
    await replaced(site)
    await site.ci_says(runs(sha, test="failure"))
    await site.ack("other", TASK)
    assert await site.milestone(TASK) == "FIXING_CI"
    assert (await site.attempt(TASK)).lease_expires_at_ms is not None
    assert (await site.kept(TASK)).fix_attempts == 1
    checkpoint = (await site.events("task_assigned"))[-1]["checkpoint"]
    assert checkpoint["commits"] == [sha]


async def test_if_ci_is_running_it_resumes_at_pushed_to_ci(site: ContractRoom) -> None:
    await site.works_on(TASK, "w")
    sha = await site.pushes(TASK)
    await site.ci_says(all_waiting(sha))
    await replaced(site)
    await site.ack("other", TASK)
    assert await site.milestone(TASK) == "PUSHED_TO_CI"
    held = await site.attempt(TASK)
    assert (held.state, held.lease_expires_at_ms) == (WorkerState.VERIFYING, None)
    await site.ci_says(runs(sha))
    await site.accept()


async def test_attempts_to_mend_the_ci_are_counted_over_workers(site: ContractRoom) -> None:
    await site.works_on(TASK, "w")
    for number in range(3):
        sha = await site.pushes(TASK, number)
        await site.ci_says(runs(sha, test="failure"))
    await replaced(site)
    await site.ack("other", TASK)
    assert (await site.kept(TASK)).fix_attempts == 3
    assert await site.milestone(TASK) == "FIXING_CI"


async def test_the_second_replacement_knows_of_both_before(site: ContractRoom) -> None:
    await site.works_on(TASK, "w")
    await site.says(TASK, "WORKING: Fees")
    first = await site.pushes(TASK)
    await site.ci_says(runs(first, test="failure"))
    await replaced(site)
    await site.ack("other", TASK)
    second = await site.pushes(TASK, 1)
    await site.ci_says(runs(second, test="failure"))
    await site.register("third")
    await site.reset("other")
    await site.reset("w")
    given = (await site.events("task_assigned"))[-1]
    assert given["checkpoint"]["commits"] == [first, second]
    assert given["checkpoint"]["context_summary"] == "Fees"


async def test_a_restart_of_the_server_resumes_at_the_state_that_ci_calls_for(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    """on_orchestrator_restart, all four cases at once."""
    async with contract_room(store_address, tmp_path / "a", *pushed) as site:
        tasks = ("sdk", "adl", "ac-dc", "alphaos")
        for number, repo in enumerate(tasks):
            await site.works_on(repo)
            if repo != "alphaos":
                await site.pushes(repo, number)
        commits, clock = site.commits, site.clock
    clock.now_ms += 60_000
    async with contract_room(store_address, tmp_path / "b", *pushed, clock=clock) as site:
        site.evidence.told = {
            commits[0]: runs(commits[0]),
            commits[1]: runs(commits[1], build="failure"),
            commits[2]: runs(commits[2], build="running"),
        }
        await site.duties()
        await site.accept()
        assert await site.status("sdk") == "done"
        assert [await site.milestone(one) for one in tasks[1:]] == [
            "FIXING_CI",
            "PUSHED_TO_CI",
            "WORKING",
        ]
