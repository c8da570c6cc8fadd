"""A replacement gets the checkpoint and continues according to the CI of the pushed commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from shiftboss.protocol.contract.contract_requests import InstructionsRequest
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.tasks.leases import LEASE_SECONDS
from tests.conformance.contract.contract_fixtures import (
    ContractFixture,
    all_waiting,
    open_contract,
    runs,
)
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-11")]

TASK = "adnet"


async def replaced(contract: ContractFixture) -> None:
    """The worker is gone, the operator resets it, and another worker gets the task."""
    await contract.register("other")
    await contract.reset("w")
    assert (await contract.given("other")).epoch == 2


async def test_a_worker_that_dies_before_a_push_is_replaced_at_working(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK, "w")
    await contract.says(TASK, "WORKING: Implementing BaseFee")
    await contract.register("other")
    await contract.pass_seconds(LEASE_SECONDS)
    task = await contract.given("other")
    assert task.checkpoint is not None
    assert task.checkpoint["context_summary"] == "Implementing BaseFee"
    assert task.checkpoint["current_milestone"] == "WORKING"
    await contract.ack("other", TASK)
    assert await contract.milestone(TASK) == "WORKING"


async def test_if_ci_passed_it_is_marked_done(contract: ContractFixture) -> None:
    """It passed while nobody held the task: the next worker has nothing left to do."""
    await contract.works_on(TASK, "w")
    sha = await contract.pushes(TASK)
    await replaced(contract)
    await contract.ci_says(runs(sha))
    (passed,) = await contract.events("ci_passed")
    assert (passed["worker"], passed["sha"]) == (None, sha)
    await contract.ack("other", TASK)
    job = await contract.accept()
    assert job.commit == sha
    assert await contract.status(TASK) == "done"
    assert await contract.locked() == {}


async def test_if_ci_failed_it_resumes_at_fixing_ci(contract: ContractFixture) -> None:
    await contract.works_on(TASK, "w")
    sha = await contract.pushes(TASK)
    await replaced(contract)
    await contract.ci_says(runs(sha, test="failure"))
    await contract.ack("other", TASK)
    assert await contract.milestone(TASK) == "FIXING_CI"
    assert (await contract.attempt(TASK)).lease_expires_at_ms is not None
    assert (await contract.kept(TASK)).fix_attempts == 1
    checkpoint = (await contract.events("task_assigned"))[-1]["checkpoint"]
    assert checkpoint["commits"] == [sha]


async def test_if_ci_is_running_it_resumes_at_pushed_to_ci(contract: ContractFixture) -> None:
    await contract.works_on(TASK, "w")
    sha = await contract.pushes(TASK)
    await contract.ci_says(all_waiting(sha))
    await replaced(contract)
    await contract.ack("other", TASK)
    assert await contract.milestone(TASK) == "PUSHED_TO_CI"
    held = await contract.attempt(TASK)
    assert (held.state, held.lease_expires_at_ms) == (WorkerState.VERIFYING, None)
    await contract.ci_says(runs(sha))
    await contract.accept()


async def test_attempts_to_fix_ci_are_counted_across_workers(contract: ContractFixture) -> None:
    await contract.works_on(TASK, "w")
    for number in range(3):
        sha = await contract.pushes(TASK, number)
        await contract.ci_says(runs(sha, test="failure"))
    await replaced(contract)
    await contract.ack("other", TASK)
    assert (await contract.kept(TASK)).fix_attempts == 3
    assert await contract.milestone(TASK) == "FIXING_CI"


async def test_the_second_replacement_is_told_of_both_predecessors(
    contract: ContractFixture,
) -> None:
    await contract.works_on(TASK, "w")
    await contract.says(TASK, "WORKING: Fees")
    first = await contract.pushes(TASK)
    await contract.ci_says(runs(first, test="failure"))
    await replaced(contract)
    await contract.ack("other", TASK)
    second = await contract.pushes(TASK, 1)
    await contract.ci_says(runs(second, test="failure"))
    await contract.register("third")
    await contract.reset("other")
    await contract.reset("w")
    given = (await contract.events("task_assigned"))[-1]
    assert given["checkpoint"]["commits"] == [first, second]
    assert given["checkpoint"]["context_summary"] == "Fees"
    prompt = await contract.contract_service.get_worker_prompt(
        InstructionsRequest(swarm_id=contract.swarm_id, bead_id=TASK)
    )
    assert f"CONTINUE from FIXING_CI {first[:12]} {second[:12]}\nKNOWN: Fees\n" in prompt.text


async def test_a_server_restart_resumes_at_the_state_ci_implies(
    store_address: str, tmp_path: Path, pushed: tuple[Repo, list[str]]
) -> None:
    """on_orchestrator_restart: all four cases together."""
    async with open_contract(store_address, tmp_path / "a", *pushed) as contract:
        tasks = ("sdk", "adl", "ac-dc", "alphaos")
        for number, repo in enumerate(tasks):
            await contract.works_on(repo)
            if repo != "alphaos":
                await contract.pushes(repo, number)
        commits, clock = contract.commits, contract.clock
    clock.now_ms += 60_000
    async with open_contract(store_address, tmp_path / "b", *pushed, clock=clock) as contract:
        contract.evidence.told = {
            commits[0]: runs(commits[0]),
            commits[1]: runs(commits[1], build="failure"),
            commits[2]: runs(commits[2], build="running"),
        }
        await contract.duties()
        await contract.accept()
        assert await contract.status("sdk") == "done"
        assert [await contract.milestone(task) for task in tasks[1:]] == [
            "FIXING_CI",
            "PUSHED_TO_CI",
            "WORKING",
        ]
