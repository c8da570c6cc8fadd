"""Landing: the server checks it itself, and keeps a repo of the policy locked until then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.coordinator.duties.landing_watcher import LandingWatcher
from shiftboss.errors import Conflict, InvalidRequest, RepoBlocked, UnknownReceipt, UnknownTask
from shiftboss.protocol.claims.verdicts import CheckResult
from tests.conformance.contract.contract_fixtures import (
    ContractFixture,
    all_waiting,
    open_contract,
    runs,
)
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture, accepted, open_handoffs
from tests.conformance.runs.run_fixtures import RunFixture
from tests.repos import Repo
from tests.verifying import LocalEvidence

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-01", "CC-05", "OWN-01")]


@pytest.fixture
def own_repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "own")


@pytest.fixture
async def own_handoffs(
    store_address: str, tmp_path: Path, own_repo: Repo
) -> AsyncIterator[HandoffFixture]:
    evidence = LocalEvidence(tmp_path / "evidence", str(own_repo.path))
    async with open_handoffs(store_address, evidence, own_repo) as it:
        yield it


async def proven(bus: HandoffFixture, task: str, commit: str, **members: Any) -> None:
    """Spawned, claimed and accepted at a commit."""
    await bus.spawn(task, branch="task", target="main", **members)
    await bus.claim(task, commit=commit)
    await bus.accept()


def merged(repo: Repo, *arguments: str, into: str = "main", branch: str = "task") -> str:
    """Land the work; returns the tip of the branch."""
    repo.git("checkout", "--quiet", into)
    repo.git("merge", "--quiet", *arguments, branch)
    landed = repo.head()
    repo.git("checkout", "--quiet", "task")
    return landed


async def test_the_server_checks_whether_the_work_has_landed(
    own_handoffs: HandoffFixture, own_repo: Repo
) -> None:
    plan, commit = RunFixture(own_handoffs), own_repo.commit("work")
    await proven(own_handoffs, "a", commit)
    with pytest.raises(Conflict) as refused:
        await plan.landed("a", commit)
    assert "is not on the branch main" in refused.value.detail
    assert (await own_handoffs.show("a")).landed_commit is None
    merge = merged(own_repo, "--no-ff", "--message", "Land a")
    with pytest.raises(Conflict) as refused:
        await plan.landed("a", commit, landed_commit="e" * 40)
    assert refused.value.field == "landed_commit"
    told = await plan.landed("a", commit, landed_commit=merge)
    assert (told.landed_commit, told.target, told.repo_locked) == (merge, "main", None)
    assert (await own_handoffs.show("a")).landed_commit == merge
    assert await plan.landed("a", commit, landed_commit=commit) == told
    (event,) = await own_handoffs.events("task_landed")
    assert (event["bead_id"], event["commit"], event["landed_commit"]) == ("a", commit, merge)
    assert event["receipt_id"] == (await own_handoffs.receipt("a"))["receipt_id"]


async def test_only_the_accepted_commit_of_a_task_can_land_on_its_target(
    own_handoffs: HandoffFixture, own_repo: Repo
) -> None:
    plan, commit = RunFixture(own_handoffs), own_repo.commit("work")
    await own_handoffs.spawn("b", "src/b.py", branch="task", target="main")
    with pytest.raises(UnknownReceipt):
        await plan.landed("b", commit)
    with pytest.raises(UnknownTask):
        await plan.landed("z", commit)
    await proven(own_handoffs, "a", commit)
    merged(own_repo, "--ff-only")
    with pytest.raises(Conflict) as refused:
        await plan.landed("a", own_repo.base)
    assert refused.value.facts["commit"] == commit
    with pytest.raises(Conflict) as refused:
        await plan.landed("a", commit, target="task")
    assert refused.value.field == "target"
    assert (await plan.landed("a", commit)).landed_commit == commit


async def test_landable_tasks_are_listed_in_order_of_acceptance(
    own_handoffs: HandoffFixture, own_repo: Repo
) -> None:
    plan, commit = RunFixture(own_handoffs), own_repo.commit("work")
    assert await plan.landable() == []
    for number, task in enumerate(("b", "a", "c")):
        before = ["b"] if task == "a" else []
        await proven(own_handoffs, task, commit, dependencies_completed=before)
        own_handoffs.clock.now_ms += number + 1
    found = await plan.landable()
    assert [one.bead_id for one in found] == ["b", "a", "c"]
    one = found[1]
    assert (one.title, one.repo, one.repo_name) == ("Title of a", str(own_repo.path), None)
    assert (one.base_commit, one.branch, one.target) == (commit, "task", "main")
    assert (one.commit, one.depends_on, one.success_criteria) == (commit, ["b"], ["It works"])
    assert one.receipt_id == (await own_handoffs.receipt("a"))["receipt_id"]
    assert one.policy["command_seconds"] == 600
    after = f"{found[0].accepted_at}:{found[0].receipt_id}"
    assert [task.bead_id for task in await plan.landable(after=after, limit=1)] == ["a"]
    with pytest.raises(InvalidRequest):
        await plan.landable(after="a")
    merged(own_repo, "--ff-only")
    await plan.landed("b", commit)
    assert [task.bead_id for task in await plan.landable()] == ["a", "c"]


# -- under the completion contract: `task` is the branch of its repos here


@pytest.fixture
async def own_contract(
    store_address: str, tmp_path: Path, own_repo: Repo
) -> AsyncIterator[ContractFixture]:
    own_repo.git("branch", "shiftboss/adnet")
    own_repo.git("checkout", "--quiet", "shiftboss/adnet")
    commits = [own_repo.commit(f"work {number}", {"a.py": str(number)}) for number in range(2)]
    own_repo.git("checkout", "--quiet", "task")
    async with open_contract(store_address, tmp_path / "state", own_repo, commits) as it:
        yield it


async def at_work(own_contract: ContractFixture) -> str:
    """adnet is worked on in a task branch, and its second commit is pushed."""
    await own_contract.given_out(
        "adnet", "w", repo="adnet", branch="shiftboss/adnet", target="task"
    )
    return await own_contract.pushes("adnet", 1)


async def accept_green(own_contract: ContractFixture) -> None:
    checks = [CheckResult(check=name, outcome="passed", message="") for name in ("branch", "ci")]
    job = await own_contract.taken()
    assert (job.branch, job.target) == ("shiftboss/adnet", "task")
    assert job.ci is not None
    assert job.ci.branch == "shiftboss/adnet"
    assert await own_contract.report(job, accepted(job, checks=checks)) == "accepted"


async def states(own_contract: ContractFixture) -> dict[str, str]:
    rows = await own_contract.coordinator.store.read(lambda tx: tx.repo_states())
    return {row.repo: f"{row.state} at {row.sha}" for row in rows}


async def test_a_branch_other_than_the_tasks_own_is_refused(own_contract: ContractFixture) -> None:
    for branch, target in (
        ("shiftboss/other", "task"),
        ("shiftboss/adnet", None),
        ("shiftboss/adnet", "main"),
        ("main", "task"),
        (None, "main"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await own_contract.spawn("adnet", repo="adnet", branch=branch, target=target)
        assert refused.value.field in ("branch", "target")
    assert await own_contract.locked() == {}
    spawned = await own_contract.spawn(
        "adnet", repo="adnet", branch="shiftboss/adnet", target="task"
    )
    # The default base is that of the policy's branch.
    assert (spawned.branch, spawned.base_commit) == ("shiftboss/adnet", own_contract.repo.base)


async def test_a_commit_outside_the_tasks_branch_does_not_count_as_pushed(
    own_contract: ContractFixture,
) -> None:
    await own_contract.given_out(
        "adnet", "w", repo="adnet", branch="shiftboss/adnet", target="task"
    )
    elsewhere = own_contract.repo.commit("elsewhere")
    with pytest.raises(InvalidRequest) as refused:
        await own_contract.says("adnet", f"PUSHED_TO_CI: adnet commit {elsewhere[:7]} - CI run #1")
    assert "is not on the branch shiftboss/adnet" in refused.value.detail


async def test_a_red_task_branch_does_not_make_the_repo_red(own_contract: ContractFixture) -> None:
    sha = await at_work(own_contract)
    await own_contract.ci_says(runs(sha, test="failure"))
    assert await own_contract.milestone("adnet") == "FIXING_CI"
    assert await states(own_contract) == {}
    pushes = await own_contract.coordinator.store.read(lambda tx: tx.newest_pushes("adnet"))
    assert pushes == []


async def test_the_repo_is_locked_until_the_work_has_landed(own_contract: ContractFixture) -> None:
    plan, sha = RunFixture(own_contract), await at_work(own_contract)
    await own_contract.ci_says(runs(sha))
    await accept_green(own_contract)
    assert await own_contract.status("adnet") == "done"
    assert await own_contract.locked() == {"adnet": "adnet"}
    assert await states(own_contract) == {}
    assert (await own_contract.can_spawn("ac-dc")).can_spawn is False
    with pytest.raises(Conflict):
        await plan.landed("adnet", sha, target="task")
    assert await own_contract.locked() == {"adnet": "adnet"}
    merged(own_contract.repo, "--ff-only", into="task", branch="shiftboss/adnet")
    assert (await plan.landed("adnet", sha, target="task")).repo_locked is None
    assert await own_contract.locked() == {}
    assert await states(own_contract) == {"adnet": f"green at {sha}"}
    assert (await own_contract.can_spawn("ac-dc")).can_spawn is True
    (push,) = await own_contract.coordinator.store.read(lambda tx: tx.newest_pushes("adnet"))
    assert (push.sha, push.task_id) == (sha, "adnet")
    # A repeated old report does not change the current state of the repo.
    await own_contract.works_on("adnet", worker="w", task="next")
    await plan.landed("adnet", sha, target="task")
    assert await own_contract.locked() == {"adnet": "next"}


async def test_a_merge_commit_must_pass_ci_too(
    own_contract: ContractFixture,
) -> None:
    plan, sha = RunFixture(own_contract), await at_work(own_contract)
    await own_contract.ci_says(runs(sha))
    await accept_green(own_contract)
    own_contract.repo.commit("of a person", {"README.md": "# Others\n"})
    merge = merged(
        own_contract.repo, "--no-ff", "--message", "Land", into="task", branch="shiftboss/adnet"
    )
    own_contract.evidence.told[merge] = all_waiting(merge)
    told = await plan.landed("adnet", sha, "task", merge)
    assert (told.landed_commit, told.repo_locked) == (
        merge,
        f"the CI of {merge[:12]} has not passed yet",
    )
    assert (await own_contract.show("adnet")).landed_commit == merge
    assert (await own_contract.locked(), await states(own_contract)) == ({"adnet": "adnet"}, {})
    own_contract.evidence.told[merge] = runs(merge, test="failure")
    assert "failed" in str((await plan.landed("adnet", sha, "task", merge)).repo_locked)
    assert await states(own_contract) == {"adnet": f"red at {merge}"}
    # No new report is needed: the server checks periodically.
    watcher = LandingWatcher(
        own_contract.coordinator.store,
        own_contract.clock,
        own_contract.coordinator.hub,
        own_contract.evidence,
    )
    assert 0 < await watcher.run_once() <= 15
    assert await states(own_contract) == {"adnet": f"red at {merge}"}
    own_contract.evidence.told[merge] = runs(merge)
    assert await watcher.run_once() == 60
    assert (await plan.landed("adnet", sha, "task", merge)).repo_locked is None
    assert (await own_contract.locked(), await states(own_contract)) == (
        {},
        {"adnet": f"green at {merge}"},
    )
    assert len(await own_contract.events("task_landed")) == 1


async def test_the_operator_can_release_a_repo_whose_work_does_not_land(
    own_contract: ContractFixture,
) -> None:
    plan, sha = RunFixture(own_contract), await at_work(own_contract)
    await own_contract.ci_says(runs(sha))
    await accept_green(own_contract)
    assert (await own_contract.free("adnet")).changed is True
    merged(own_contract.repo, "--ff-only", into="task", branch="shiftboss/adnet")
    assert (await plan.landed("adnet", sha, target="task")).repo_locked is None
    assert await own_contract.locked() == {}


# -- accepted work that no longer merges: the lock passes to its merge task

MERGE = "adnet-merge-1"


async def accepted_unlanded(own_contract: ContractFixture) -> str:
    sha = await at_work(own_contract)
    await own_contract.ci_says(runs(sha))
    await accept_green(own_contract)
    return sha


async def spawn_merge(own_contract: ContractFixture, task: str = MERGE, **members: Any) -> None:
    said = {"repo": "adnet", "branch": f"shiftboss/{task}", "target": "task", "merges": "adnet"}
    await own_contract.spawn(task, "a.py", **(said | members))


async def test_the_lock_of_accepted_work_passes_to_its_merge_task(
    own_contract: ContractFixture,
) -> None:
    plan, sha = RunFixture(own_contract), await accepted_unlanded(own_contract)
    with pytest.raises(RepoBlocked):
        await spawn_merge(own_contract, merges=None)
    await spawn_merge(own_contract)
    assert await own_contract.locked() == {"adnet": MERGE}
    event = (await own_contract.events("repo_locked"))[-1]
    assert (event["repo"], event["bead_id"], event["passed_from"]) == ("adnet", MERGE, "adnet")
    assert await own_contract.events("repo_released") == []
    # Repeating it changes nothing, and nobody else gets the lock.
    await spawn_merge(own_contract)
    with pytest.raises(RepoBlocked):
        await spawn_merge(own_contract, "adnet-merge-2")
    assert await own_contract.locked() == {"adnet": MERGE}
    assert (await own_contract.can_spawn("ac-dc")).can_spawn is False

    merge = await merged_by_worker(own_contract)
    assert await own_contract.locked() == {"adnet": MERGE}
    merged(own_contract.repo, "--ff-only", into="task", branch=f"shiftboss/{MERGE}")
    assert (await plan.landed(MERGE, merge, target="task")).repo_locked is None
    assert (await own_contract.locked(), await states(own_contract)) == (
        {},
        {"adnet": f"green at {merge}"},
    )
    # The merged work has landed with it, although it has no lock any more.
    assert [task.bead_id for task in await plan.landable()] == ["adnet"]
    assert (await plan.landed("adnet", sha, "task", merge)).repo_locked is None
    assert await plan.landable() == []
    assert (await own_contract.locked(), await states(own_contract)) == (
        {},
        {"adnet": f"green at {merge}"},
    )


async def merged_by_worker(own_contract: ContractFixture) -> str:
    """Run the merge task from start to receipt; returns its commit."""
    own_contract.repo.commit("of a person", {"README.md": "# Others\n"})
    own_contract.repo.git("checkout", "--quiet", "-b", f"shiftboss/{MERGE}")
    own_contract.repo.git(
        "merge", "--quiet", "--no-ff", "--message", "Bring it in", "shiftboss/adnet"
    )
    merge = own_contract.repo.head()
    own_contract.repo.git("checkout", "--quiet", "task")
    await own_contract.submit(MERGE)
    await own_contract.start("w", MERGE)
    await own_contract.says(MERGE, f"PUSHED_TO_CI: adnet commit {merge[:7]} - CI run #1")
    await own_contract.ci_says(runs(merge))
    await own_contract.accept()
    return merge


async def test_only_accepted_work_that_has_not_landed_passes_its_lock_on(
    own_contract: ContractFixture,
) -> None:
    plan, sha = RunFixture(own_contract), await at_work(own_contract)
    with pytest.raises(UnknownTask):
        await spawn_merge(own_contract, merges="nobody")
    with pytest.raises(Conflict, match="was not accepted") as refused:
        await spawn_merge(own_contract)
    assert refused.value.field == "merges"
    await own_contract.ci_says(runs(sha))
    await accept_green(own_contract)
    with pytest.raises(RepoBlocked, match="works on adnet, not on sdk") as blocked:
        await spawn_merge(own_contract, repo="sdk")
    assert blocked.value.field == "merges"
    merged(own_contract.repo, "--ff-only", into="task", branch="shiftboss/adnet")
    await plan.landed("adnet", sha, target="task")
    with pytest.raises(Conflict, match="has already landed as"):
        await spawn_merge(own_contract)
    assert await own_contract.locked() == {}


async def test_without_a_policy_there_is_no_lock_to_pass(
    own_handoffs: HandoffFixture, own_repo: Repo
) -> None:
    await proven(own_handoffs, "a", own_repo.commit("work"))
    with pytest.raises(InvalidRequest) as refused:
        await own_handoffs.spawn("a-merge-1", branch="task", target="main", merges="a")
    assert refused.value.field == "merges"


async def test_a_merge_task_that_was_never_started_gives_the_lock_back(
    own_contract: ContractFixture,
) -> None:
    await accepted_unlanded(own_contract)
    await spawn_merge(own_contract)
    await own_contract.cancel(MERGE)
    assert await own_contract.locked() == {"adnet": "adnet"}
    assert (await own_contract.events("repo_locked"))[-1]["passed_from"] == MERGE
    await spawn_merge(own_contract, "adnet-merge-2")
    assert await own_contract.locked() == {"adnet": "adnet-merge-2"}


async def test_an_abandoned_merge_task_passes_the_lock_on(own_contract: ContractFixture) -> None:
    """To the next merge task, or back if the work lands by itself after all."""
    plan, sha = RunFixture(own_contract), await accepted_unlanded(own_contract)
    for task, following in ((MERGE, "adnet-merge-2"), ("adnet-merge-2", None)):
        if task == MERGE:
            await spawn_merge(own_contract, submit=True)
        else:
            await own_contract.submit(task)
        await own_contract.start("w", task)
        await own_contract.cancel(task)
        assert await own_contract.locked() == {"adnet": task}
        if following is not None:
            await spawn_merge(own_contract, following)
            assert await own_contract.locked() == {"adnet": following}
    merged(own_contract.repo, "--ff-only", into="task", branch="shiftboss/adnet")
    assert (await plan.landed("adnet", sha, target="task")).repo_locked is None
    assert (await own_contract.locked(), await states(own_contract)) == (
        {},
        {"adnet": f"green at {sha}"},
    )


async def test_a_repo_released_by_the_operator_can_be_locked_as_usual(
    own_contract: ContractFixture,
) -> None:
    await accepted_unlanded(own_contract)
    await own_contract.free("adnet")
    await spawn_merge(own_contract)
    assert await own_contract.locked() == {"adnet": MERGE}
