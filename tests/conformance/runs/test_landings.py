"""Landing: the server sees for itself, and the repo of a policy is held until then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shiftboss.coordinator.duties.landing_watcher import LandingWatcher
from shiftboss.errors import Conflict, InvalidRequest, RepoBlocked, UnknownReceipt, UnknownTask
from shiftboss.evidence.local import LocalEvidence
from shiftboss.protocol.verdicts import CheckResult
from tests.conformance.contract.contract_fixtures import (
    ContractRoom,
    all_waiting,
    contract_room,
    runs,
)
from tests.conformance.handoffs.handoff_fixtures import HandoffRoom, accepted, handoff_room
from tests.conformance.runs.run_fixtures import Running
from tests.repos import Repo

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("CC-01", "CC-05", "OWN-01")]


@pytest.fixture
def own_repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "own")


@pytest.fixture
async def hall(store_address: str, tmp_path: Path, own_repo: Repo) -> AsyncIterator[HandoffRoom]:
    evidence = LocalEvidence(tmp_path / "evidence", str(own_repo.path))
    async with handoff_room(store_address, evidence, own_repo) as it:
        yield it


async def proven(room: HandoffRoom, task: str, commit: str, **members: Any) -> None:
    """Spawned, claimed and accepted at a commit."""
    await room.spawn(task, branch="task", target="main", **members)
    await room.claim(task, commit=commit)
    await room.accept()


def merged(repo: Repo, *arguments: str, into: str = "main", branch: str = "task") -> str:
    """The work lands; where its branch is then."""
    repo.git("checkout", "--quiet", into)
    repo.git("merge", "--quiet", *arguments, branch)
    landed = repo.head()
    repo.git("checkout", "--quiet", "task")
    return landed


async def test_the_server_looks_whether_it_has_landed(hall: HandoffRoom, own_repo: Repo) -> None:
    plan, commit = Running(hall), own_repo.commit("work")
    await proven(hall, "a", commit)
    with pytest.raises(Conflict) as refused:
        await plan.landed("a", commit)
    assert "is not on the branch main" in refused.value.detail
    assert (await hall.show("a")).landed_commit is None
    merge = merged(own_repo, "--no-ff", "--message", "Land a")
    with pytest.raises(Conflict) as refused:
        await plan.landed("a", commit, landed_commit="e" * 40)
    assert refused.value.field == "landed_commit"
    told = await plan.landed("a", commit, landed_commit=merge)
    assert (told.landed_commit, told.target, told.repo_locked) == (merge, "main", None)
    assert (await hall.show("a")).landed_commit == merge
    assert await plan.landed("a", commit, landed_commit=commit) == told
    (event,) = await hall.events("task_landed")
    assert (event["bead_id"], event["commit"], event["landed_commit"]) == ("a", commit, merge)
    assert event["receipt_id"] == (await hall.receipt("a"))["receipt_id"]


async def test_only_the_accepted_commit_of_an_accepted_task_lands_on_its_target(
    hall: HandoffRoom, own_repo: Repo
) -> None:
    plan, commit = Running(hall), own_repo.commit("work")
    await hall.spawn("b", "src/b.py", branch="task", target="main")
    with pytest.raises(UnknownReceipt):
        await plan.landed("b", commit)
    with pytest.raises(UnknownTask):
        await plan.landed("z", commit)
    await proven(hall, "a", commit)
    merged(own_repo, "--ff-only")
    with pytest.raises(Conflict) as refused:
        await plan.landed("a", own_repo.base)
    assert refused.value.facts["commit"] == commit
    with pytest.raises(Conflict) as refused:
        await plan.landed("a", commit, target="task")
    assert refused.value.field == "target"
    assert (await plan.landed("a", commit)).landed_commit == commit


async def test_what_can_land_is_listed_in_the_order_of_its_acceptance(
    hall: HandoffRoom, own_repo: Repo
) -> None:
    plan, commit = Running(hall), own_repo.commit("work")
    assert await plan.landable() == []
    for number, task in enumerate(("b", "a", "c")):
        before = ["b"] if task == "a" else []
        await proven(hall, task, commit, dependencies_completed=before)
        hall.clock.now_ms += number + 1
    found = await plan.landable()
    assert [one.bead_id for one in found] == ["b", "a", "c"]
    one = found[1]
    assert (one.title, one.repo, one.repo_name) == ("Title of a", str(own_repo.path), None)
    assert (one.base_commit, one.branch, one.target) == (commit, "task", "main")
    assert (one.commit, one.depends_on, one.success_criteria) == (commit, ["b"], ["It works"])
    assert one.receipt_id == (await hall.receipt("a"))["receipt_id"]
    assert one.policy["command_seconds"] == 600
    after = f"{found[0].accepted_at}:{found[0].receipt_id}"
    assert [one.bead_id for one in await plan.landable(after=after, limit=1)] == ["a"]
    with pytest.raises(InvalidRequest):
        await plan.landable(after="a")
    merged(own_repo, "--ff-only")
    await plan.landed("b", commit)
    assert [one.bead_id for one in await plan.landable()] == ["a", "c"]


# -- under the completion contract: `task` is the branch of its repos here


@pytest.fixture
async def yard(store_address: str, tmp_path: Path, own_repo: Repo) -> AsyncIterator[ContractRoom]:
    own_repo.git("branch", "shiftboss/adnet")
    own_repo.git("checkout", "--quiet", "shiftboss/adnet")
    commits = [own_repo.commit(f"work {number}", {"a.py": str(number)}) for number in range(2)]
    own_repo.git("checkout", "--quiet", "task")
    async with contract_room(store_address, tmp_path / "state", own_repo, commits) as it:
        yield it


async def at_work(yard: ContractRoom) -> str:
    """adnet is worked on upon a branch of its own, and its second commit is pushed."""
    await yard.given_out("adnet", "w", repo="adnet", branch="shiftboss/adnet", target="task")
    return await yard.pushes("adnet", 1)


async def accept_green(yard: ContractRoom) -> None:
    checks = [CheckResult(check=name, outcome="passed", message="") for name in ("branch", "ci")]
    job = await yard.taken()
    assert (job.branch, job.target) == ("shiftboss/adnet", "task")
    assert job.ci is not None
    assert job.ci.branch == "shiftboss/adnet"
    assert await yard.report(job, accepted(job, checks=checks)) == "accepted"


async def states(yard: ContractRoom) -> dict[str, str]:
    found = await yard.coordinator.store.read(lambda tx: tx.repo_states())
    return {one.repo: f"{one.state} at {one.sha}" for one in found}


async def test_another_branch_than_the_tasks_own_is_refused(yard: ContractRoom) -> None:
    for branch, target in (
        ("shiftboss/other", "task"),
        ("shiftboss/adnet", None),
        ("shiftboss/adnet", "main"),
        ("main", "task"),
        (None, "main"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            await yard.spawn("adnet", repo="adnet", branch=branch, target=target)
        assert refused.value.field in ("branch", "target")
    assert await yard.locked() == {}
    spawned = await yard.spawn("adnet", repo="adnet", branch="shiftboss/adnet", target="task")
    # Without a base it is that of the policy's branch.
    assert (spawned.branch, spawned.base_commit) == ("shiftboss/adnet", yard.repo.base)


async def test_a_commit_beside_the_tasks_branch_is_not_pushed(yard: ContractRoom) -> None:
    await yard.given_out("adnet", "w", repo="adnet", branch="shiftboss/adnet", target="task")
    elsewhere = yard.repo.commit("elsewhere")
    with pytest.raises(InvalidRequest) as refused:
        await yard.says("adnet", f"PUSHED_TO_CI: adnet commit {elsewhere[:7]} - CI run #1")
    assert "is not on the branch shiftboss/adnet" in refused.value.detail


async def test_red_on_a_branch_of_its_own_is_not_the_repos(yard: ContractRoom) -> None:
    sha = await at_work(yard)
    await yard.ci_says(runs(sha, test="failure"))
    assert await yard.milestone("adnet") == "FIXING_CI"
    assert await states(yard) == {}
    pushes = await yard.coordinator.store.read(lambda tx: tx.newest_pushes("adnet"))
    assert pushes == []


async def test_the_repo_is_locked_until_the_work_has_landed(yard: ContractRoom) -> None:
    plan, sha = Running(yard), await at_work(yard)
    await yard.ci_says(runs(sha))
    await accept_green(yard)
    assert await yard.status("adnet") == "done"
    assert await yard.locked() == {"adnet": "adnet"}
    assert await states(yard) == {}
    assert (await yard.can_spawn("ac-dc")).can_spawn is False
    with pytest.raises(Conflict):
        await plan.landed("adnet", sha, target="task")
    assert await yard.locked() == {"adnet": "adnet"}
    merged(yard.repo, "--ff-only", into="task", branch="shiftboss/adnet")
    assert (await plan.landed("adnet", sha, target="task")).repo_locked is None
    assert await yard.locked() == {}
    assert await states(yard) == {"adnet": f"green at {sha}"}
    assert (await yard.can_spawn("ac-dc")).can_spawn is True
    (push,) = await yard.coordinator.store.read(lambda tx: tx.newest_pushes("adnet"))
    assert (push.sha, push.task_id) == (sha, "adnet")
    # An old report that comes again says nothing about the repo as it is now.
    await yard.works_on("adnet", worker="w", task="next")
    await plan.landed("adnet", sha, target="task")
    assert await yard.locked() == {"adnet": "next"}


async def test_a_merge_is_another_commit_which_ci_has_to_pass(yard: ContractRoom) -> None:
    plan, sha = Running(yard), await at_work(yard)
    await yard.ci_says(runs(sha))
    await accept_green(yard)
    yard.repo.commit("of a person", {"README.md": "# Others\n"})
    merge = merged(yard.repo, "--no-ff", "--message", "Land", into="task", branch="shiftboss/adnet")
    yard.evidence.told[merge] = all_waiting(merge)
    told = await plan.landed("adnet", sha, "task", merge)
    assert (told.landed_commit, told.repo_locked) == (
        merge,
        f"the CI of {merge[:12]} has not passed yet",
    )
    assert (await yard.show("adnet")).landed_commit == merge
    assert (await yard.locked(), await states(yard)) == ({"adnet": "adnet"}, {})
    yard.evidence.told[merge] = runs(merge, test="failure")
    assert "failed" in str((await plan.landed("adnet", sha, "task", merge)).repo_locked)
    assert await states(yard) == {"adnet": f"red at {merge}"}
    # Nobody has to say it again: the server looks from time to time.
    watcher = LandingWatcher(
        yard.coordinator.store, yard.clock, yard.coordinator.hub, yard.evidence
    )
    assert 0 < await watcher.run_once() <= 15
    assert await states(yard) == {"adnet": f"red at {merge}"}
    yard.evidence.told[merge] = runs(merge)
    assert await watcher.run_once() == 60
    assert (await plan.landed("adnet", sha, "task", merge)).repo_locked is None
    assert (await yard.locked(), await states(yard)) == ({}, {"adnet": f"green at {merge}"})
    assert len(await yard.events("task_landed")) == 1


async def test_the_operator_can_release_what_does_not_land(yard: ContractRoom) -> None:
    plan, sha = Running(yard), await at_work(yard)
    await yard.ci_says(runs(sha))
    await accept_green(yard)
    assert (await yard.free("adnet")).changed is True
    merged(yard.repo, "--ff-only", into="task", branch="shiftboss/adnet")
    assert (await plan.landed("adnet", sha, target="task")).repo_locked is None
    assert await yard.locked() == {}


# -- accepted work that does not fit any more: the lock passes over to the task that brings it in

MERGE = "adnet-merge-1"


async def accepted_unlanded(yard: ContractRoom) -> str:
    sha = await at_work(yard)
    await yard.ci_says(runs(sha))
    await accept_green(yard)
    return sha


async def spawn_merge(yard: ContractRoom, task: str = MERGE, **members: Any) -> None:
    said = {"repo": "adnet", "branch": f"shiftboss/{task}", "target": "task", "merges": "adnet"}
    await yard.spawn(task, "a.py", **(said | members))


async def test_the_lock_of_accepted_work_passes_over_to_the_task_that_brings_it_in(
    yard: ContractRoom,
) -> None:
    plan, sha = Running(yard), await accepted_unlanded(yard)
    with pytest.raises(RepoBlocked):
        await spawn_merge(yard, merges=None)
    await spawn_merge(yard)
    assert await yard.locked() == {"adnet": MERGE}
    event = (await yard.events("repo_locked"))[-1]
    assert (event["repo"], event["bead_id"], event["passed_from"]) == ("adnet", MERGE, "adnet")
    assert await yard.events("repo_released") == []
    # The same words again change nothing, and nobody else gets it.
    await spawn_merge(yard)
    with pytest.raises(RepoBlocked):
        await spawn_merge(yard, "adnet-merge-2")
    assert await yard.locked() == {"adnet": MERGE}
    assert (await yard.can_spawn("ac-dc")).can_spawn is False

    merge = await merged_by_worker(yard)
    assert await yard.locked() == {"adnet": MERGE}
    merged(yard.repo, "--ff-only", into="task", branch=f"shiftboss/{MERGE}")
    assert (await plan.landed(MERGE, merge, target="task")).repo_locked is None
    assert (await yard.locked(), await states(yard)) == ({}, {"adnet": f"green at {merge}"})
    # The work that it has brought in has landed with it, though it has no lock any more.
    assert [one.bead_id for one in await plan.landable()] == ["adnet"]
    assert (await plan.landed("adnet", sha, "task", merge)).repo_locked is None
    assert await plan.landable() == []
    assert (await yard.locked(), await states(yard)) == ({}, {"adnet": f"green at {merge}"})


async def merged_by_worker(yard: ContractRoom) -> str:
    """The merge task, from its worker to its receipt; its commit."""
    yard.repo.commit("of a person", {"README.md": "# Others\n"})
    yard.repo.git("checkout", "--quiet", "-b", f"shiftboss/{MERGE}")
    yard.repo.git("merge", "--quiet", "--no-ff", "--message", "Bring it in", "shiftboss/adnet")
    merge = yard.repo.head()
    yard.repo.git("checkout", "--quiet", "task")
    await yard.submit(MERGE)
    await yard.start("w", MERGE)
    await yard.says(MERGE, f"PUSHED_TO_CI: adnet commit {merge[:7]} - CI run #1")
    await yard.ci_says(runs(merge))
    await yard.accept()
    return merge


async def test_only_accepted_work_that_has_not_landed_gives_its_lock_away(
    yard: ContractRoom,
) -> None:
    plan, sha = Running(yard), await at_work(yard)
    with pytest.raises(UnknownTask):
        await spawn_merge(yard, merges="nobody")
    with pytest.raises(Conflict, match="was not accepted") as refused:
        await spawn_merge(yard)
    assert refused.value.field == "merges"
    await yard.ci_says(runs(sha))
    await accept_green(yard)
    with pytest.raises(RepoBlocked, match="works on adnet, not on sdk") as blocked:
        await spawn_merge(yard, repo="sdk")
    assert blocked.value.field == "merges"
    merged(yard.repo, "--ff-only", into="task", branch="shiftboss/adnet")
    await plan.landed("adnet", sha, target="task")
    with pytest.raises(Conflict, match="has already landed as"):
        await spawn_merge(yard)
    assert await yard.locked() == {}


async def test_without_a_policy_there_is_no_lock_to_pass(hall: HandoffRoom, own_repo: Repo) -> None:
    await proven(hall, "a", own_repo.commit("work"))
    with pytest.raises(InvalidRequest) as refused:
        await hall.spawn("a-merge-1", branch="task", target="main", merges="a")
    assert refused.value.field == "merges"


async def test_a_merge_that_nobody_has_begun_gives_the_lock_back(yard: ContractRoom) -> None:
    await accepted_unlanded(yard)
    await spawn_merge(yard)
    await yard.cancel(MERGE)
    assert await yard.locked() == {"adnet": "adnet"}
    assert (await yard.events("repo_locked"))[-1]["passed_from"] == MERGE
    await spawn_merge(yard, "adnet-merge-2")
    assert await yard.locked() == {"adnet": "adnet-merge-2"}


async def test_a_merge_that_was_given_up_passes_the_lock_on(yard: ContractRoom) -> None:
    """To the next one, or back when the work lands by itself after all."""
    plan, sha = Running(yard), await accepted_unlanded(yard)
    for task, following in ((MERGE, "adnet-merge-2"), ("adnet-merge-2", None)):
        if task == MERGE:
            await spawn_merge(yard, submit=True)
        else:
            await yard.submit(task)
        await yard.start("w", task)
        await yard.cancel(task)
        assert await yard.locked() == {"adnet": task}
        if following is not None:
            await spawn_merge(yard, following)
            assert await yard.locked() == {"adnet": following}
    merged(yard.repo, "--ff-only", into="task", branch="shiftboss/adnet")
    assert (await plan.landed("adnet", sha, target="task")).repo_locked is None
    assert (await yard.locked(), await states(yard)) == ({}, {"adnet": f"green at {sha}"})


async def test_a_repo_that_the_operator_has_released_is_locked_in_the_usual_way(
    yard: ContractRoom,
) -> None:
    await accepted_unlanded(yard)
    await yard.free("adnet")
    await spawn_merge(yard)
    assert await yard.locked() == {"adnet": MERGE}
