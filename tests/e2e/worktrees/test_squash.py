"""Squash landings: one commit per task on the target, found again by its message."""

from __future__ import annotations

from typing import Any

import pytest

from shiftboss.evidence.mirror.repository import Repository
from shiftboss.orchestrator.landing.work_landing import (
    AcceptedWork,
    Landed,
    LandedWork,
    LandingConflict,
    LandingRefused,
    WorkLanding,
)
from tests.e2e.worktrees.worktree_fixtures import Project

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]


def squash(
    project: Project, bead_id: str, commit: str, *criteria: str, **members: Any
) -> AcceptedWork:
    members = {"landing": "squash", "swarm_id": "s", "branch": f"shiftboss/{bead_id}", **members}
    return project.accepted_work(bead_id, commit, *criteria, **members)


def subjects(project: Project) -> list[str]:
    return project.repo.git("log", "--format=%s", f"{project.repo.base}..main").splitlines()


async def test_a_task_becomes_one_commit_that_names_its_work(
    project: Project, work_landing: WorkLanding
) -> None:
    """A refused commit below the verified one does not reach the target."""
    refused = project.work("refused", {"src/auth/one.py": "x = 'refused'\n"})
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"}, base=refused)
    work = squash(project, "bd-1", commit)
    landed = await work_landing.land(work)
    assert landed == Landed(project.tip(), "squash")
    assert subjects(project) == ["the work of bd-1"]
    assert project.repo.git("rev-parse", "main^{tree}") == project.repo.git(
        "rev-parse", f"{commit}^{{tree}}"
    )
    message = project.repo.git("log", "-1", "--format=%B", "main").splitlines()
    assert message[-4:] == [
        "Shiftboss-Task: bd-1",
        "Shiftboss-Swarm: s",
        "Shiftboss-Receipt: receipt-bd-1",
        f"Shiftboss-Commit: {commit}",
    ]
    assert project.repo.git("branch", "--list", "shiftboss/bd-1") == ""
    assert project.refs("refs/shiftboss/squashed") == {"refs/shiftboss/squashed/s/bd-1": commit}
    project.repo.commit("more", {"README.md": "# More\n"})
    assert await work_landing.land(work) == Landed(landed.commit, "already")


async def test_work_on_top_of_squashed_work_lands_without_a_conflict(
    project: Project, work_landing: WorkLanding
) -> None:
    """It was built before the other work landed, and changes the same lines."""
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/auth/one.py": "x = 2\n"}, base=one)
    for bead_id, commit in (("bd-1", one), ("bd-2", two)):
        assert isinstance(await work_landing.land(squash(project, bead_id, commit)), Landed)
    assert subjects(project) == ["the work of bd-2", "the work of bd-1"]
    assert project.text("main", "src/auth/one.py") == "x = 2"


async def test_the_squash_of_a_merge_task_contains_the_work_that_conflicted(
    project: Project, work_landing: WorkLanding
) -> None:
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/auth/one.py": "x = 2\n"})
    await work_landing.land(squash(project, "bd-1", one))
    assert isinstance(await work_landing.land(squash(project, "bd-2", two)), LandingConflict)
    tree = project.repo.git("rev-parse", f"{two}^{{tree}}")
    merge = project.repo.git(
        "commit-tree", tree, "-p", project.tip(), "-p", two, "-m", "Merge both"
    )
    landed = await work_landing.land(squash(project, "bd-2-merge-1", merge, branch=None))
    assert isinstance(landed, Landed)
    work = squash(project, "bd-2", two, landed=[LandedWork(merge, "bd-2-merge-1", None)])
    assert await work_landing.land(work) == Landed(landed.commit, "already")
    assert subjects(project) == ["the work of bd-2-merge-1", "the work of bd-1"]
    place = (project.repo.path, "main", two)
    assert await work_landing.has_landed(*place, "squash", [merge])
    assert not await work_landing.has_landed(*place, "squash"), "the merge was not accepted"


async def test_a_squash_that_was_removed_from_the_target_lands_again(
    project: Project, work_landing: WorkLanding
) -> None:
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    work = squash(project, "bd-1", commit)
    await work_landing.land(work)
    place = (project.repo.path, "main", commit)
    assert await work_landing.has_landed(*place, "squash")
    assert not await work_landing.has_landed(*place, "merge"), "messages count only for squashes"
    project.repo.git("reset", "--quiet", "--hard", project.repo.base)
    assert not await work_landing.has_landed(*place, "squash")
    assert isinstance(await work_landing.land(work), Landed)
    assert subjects(project) == ["the work of bd-1"]


async def test_a_squash_that_breaks_a_test_does_not_land(
    project: Project, work_landing: WorkLanding
) -> None:
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/lib/two.py": "y = 1\n"})
    await work_landing.land(squash(project, "bd-1", one))
    criterion = "Command passes: test ! -e src/auth/one.py"
    outcome = await work_landing.land(squash(project, "bd-2", two, criterion))
    assert isinstance(outcome, LandingRefused)
    assert subjects(project) == ["the work of bd-1"]


async def test_the_verified_commit_is_kept_even_if_the_first_run_was_killed_after_it_landed(
    project: Project, work_landing: WorkLanding
) -> None:
    """Its receipt names it, and git would collect it."""
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    work = squash(project, "bd-1", commit, branch=None)
    landed = await work_landing.land(work)
    project.repo.git("update-ref", "-d", "refs/shiftboss/squashed/s/bd-1")
    assert await work_landing.land(work) == Landed(landed.commit, "already")  # type: ignore[union-attr]
    assert project.refs("refs/shiftboss/squashed") == {"refs/shiftboss/squashed/s/bd-1": commit}


async def test_the_verified_commit_is_kept_before_the_target_moves(
    project: Project, work_landing: WorkLanding
) -> None:
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    (project.repo.path / "src/auth").mkdir(parents=True, exist_ok=True)
    (project.repo.path / "src/auth/one.py").write_text("in the way\n")
    assert isinstance(await work_landing.land(squash(project, "bd-1", commit)), LandingRefused)
    assert project.refs("refs/shiftboss/squashed") == {"refs/shiftboss/squashed/s/bd-1": commit}


@pytest.mark.parametrize("named", ["first", "second"])
async def test_a_message_that_lies_about_squashed_work_drops_nothing(
    project: Project, work_landing: WorkLanding, named: str
) -> None:
    """A task that lands by a merge writes the messages of its commits itself."""
    commits = {"first": project.work("bd-1", {"src/auth/one.py": "x = 1\n"})}
    commits["second"] = project.work("bd-2", {"src/auth/two.py": "y = 1\n"}, base=commits["first"])
    liar = project.work("bd-3", {"src/lib/three.py": "z = 1\n"})
    lie = project.repo.git(
        *("commit-tree", f"{liar}^{{tree}}", "-p", project.repo.base),
        *("-m", f"Three\n\nShiftboss-Commit: {commits[named]}"),
    )
    assert isinstance(await work_landing.land(project.accepted_work("bd-3", lie)), Landed)
    outcome = await work_landing.land(squash(project, "bd-2", commits["second"]))
    assert outcome == Landed(project.tip(), "squash")
    assert project.text("main", "src/auth/one.py") == "x = 1"
    assert project.text("main", "src/auth/two.py") == "y = 1"


async def test_a_squash_on_a_side_branch_of_the_target_does_not_count(
    project: Project, work_landing: WorkLanding
) -> None:
    """The merge of that branch may have dropped its content."""
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    side = project.repo.git(
        *("commit-tree", f"{commit}^{{tree}}", "-p", project.repo.base),
        *("-m", f"One\n\nShiftboss-Commit: {commit}"),
    )
    project.repo.git("merge", "--quiet", "-s", "ours", "--no-ff", "-m", "Merge", side)
    assert isinstance(await work_landing.land(squash(project, "bd-1", commit)), Landed)
    assert project.text("main", "src/auth/one.py") == "x = 1"


async def test_stacked_squashes_are_found_again_when_the_target_has_moved_on(
    project: Project, work_landing: WorkLanding
) -> None:
    """The content of each depends on the squashes below it and on the commits of other people."""
    works = []
    base = project.repo.base
    for number in (1, 2, 3):
        base = project.work(f"bd-{number}", {"src/auth/one.py": f"x = {number}\n"}, base=base)
        works.append(squash(project, f"bd-{number}", base))
    landed = []
    for number, work in enumerate(works):
        project.repo.commit("of a person", {f"notes-{number}.md": "# Notes\n"})
        landed.append(await work_landing.land(work))
    project.repo.commit("more", {"README.md": "# More\n"})
    for work, first in zip(works, landed, strict=True):
        assert isinstance(first, Landed)
        assert await work_landing.land(work) == Landed(first.commit, "already")
        assert await Repository().is_squash_of(
            str(project.repo.path), first.commit, work.commit, [work.commit], "main"
        ), "the server agrees"
