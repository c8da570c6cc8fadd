"""Landing: accepted work lands once, whatever moves or dies meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from shiftboss.orchestrator.landing.work_landing import (
    Landed,
    LandedWork,
    LandingConflict,
    LandingRefused,
    WorkLanding,
)
from shiftboss.protocol.handoffs import VerificationPolicy
from tests.e2e.worktrees.worktree_fixtures import Project, run_in
from tests.repos import waiver

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]

_CHECK = """\
import pathlib
print("checked")
raise SystemExit(all(pathlib.Path(one).exists() for one in ("src/auth/one.py", "src/lib/two.py")))
"""
# Passes with either of two changes, fails with both.
_CRITERION = f"Command passes: python3 -c {shlex.quote(_CHECK)}"


def _leave_note(project: Project, commit: str) -> Path:
    """Left by a process that was killed while git wrote the files of the commit."""
    note = project.repo.path / ".git" / "shiftboss" / "landing.json"
    note.parent.mkdir(exist_ok=True)
    values = {"folder": str(project.repo.path), "old": project.repo.base, "new": commit}
    note.write_text(json.dumps(values))
    return note


async def test_work_on_the_tip_is_fast_forwarded_once(
    project: Project, work_landing: WorkLanding
) -> None:
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    work = project.accepted_work("bd-1", commit, "Command passes: false", branch="shiftboss/bd-1")
    assert await work_landing.land(work) == Landed(commit, "fast_forward")
    # The target is checked out: the user's files are updated.
    assert (project.repo.path / "src/auth/one.py").read_text() == "x = 1\n"
    assert project.repo.git("status", "--porcelain") == ""
    assert "shiftboss/bd-1" not in project.repo.git("branch")
    assert await work_landing.land(work) == Landed(commit, "already")
    project.repo.commit("more", {"README.md": "# More\n"})
    assert await work_landing.land(work) == Landed(project.tip(), "already")


async def test_the_merged_tree_is_tested_when_the_target_moved(
    project: Project, work_landing: WorkLanding
) -> None:
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    assert isinstance(
        await work_landing.land(project.accepted_work("bd-1", one, _CRITERION)), Landed
    )
    outcome = await work_landing.land(project.accepted_work("bd-2", two, _CRITERION))
    assert outcome == Landed(project.tip(), "merge")
    assert project.repo.git("rev-list", "--parents", "-1", "main").split()[1:] == [one, two]
    message = project.repo.git("log", "-1", "--format=%an%n%B", "main").splitlines()
    assert message[:2] == ["Ada", "Land bd-2: the work of bd-2"]
    assert message[-2:] == ["Shiftboss-Task: bd-2", "Shiftboss-Receipt: receipt-bd-2"]
    assert project.repo.git("status", "--porcelain") == ""
    assert project.refs("refs/shiftboss/landing") == {}


async def test_a_merge_that_breaks_a_test_does_not_land(
    project: Project, work_landing: WorkLanding
) -> None:
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/lib/two.py": "y = 1\n"})
    await work_landing.land(project.accepted_work("bd-1", one, _CRITERION))
    work = project.accepted_work("bd-2", two, "it works", _CRITERION)
    outcome = await work_landing.land(work)
    assert isinstance(outcome, LandingRefused)
    assert (outcome.check, outcome.ours) == (_CRITERION, one)
    assert "exit code 1" in outcome.reason
    assert "checked" in outcome.output_tail
    assert project.tip() == one
    assert project.refs("refs/shiftboss/landing") == {}
    # A waiver of the operator lets it land.
    allowed = replace(work, waivers=[waiver("criterion", _CRITERION)])
    assert isinstance(await work_landing.land(allowed), Landed)


async def test_the_policys_setup_runs_first(project: Project, work_landing: WorkLanding) -> None:
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    await work_landing.land(project.accepted_work("bd-1", one))
    work = project.accepted_work("bd-2", two, "Command passes: test -e made")
    outcome = await work_landing.land(replace(work, policy=VerificationPolicy(setup=["false"])))
    assert isinstance(outcome, LandingRefused)
    assert outcome.check == "false"
    policy = VerificationPolicy(setup=["touch made"], generated=["made"])
    assert isinstance(await work_landing.land(replace(work, policy=policy)), Landed)


async def test_a_conflict_names_both_sides(project: Project, work_landing: WorkLanding) -> None:
    one = project.work("bd-1", {"src/auth/login.py": "x = 1\n"})
    two = project.work("bd-2", {"src/auth/names.py": "y = 2\n"})
    three = project.work("bd-3", {"src/auth/login.py": "x = 3\n", "src/auth/names.py": "y = 3\n"})
    for name, commit in (("bd-1", one), ("bd-2", two)):
        assert isinstance(await work_landing.land(project.accepted_work(name, commit)), Landed)
    tip = project.tip()
    landed = [LandedWork(one, "bd-1", "receipt-bd-1")]
    outcome = await work_landing.land(project.accepted_work("bd-3", three, landed=landed))
    assert isinstance(outcome, LandingConflict)
    assert outcome.paths == ["src/auth/login.py", "src/auth/names.py"]
    assert (outcome.ours, outcome.theirs) == (tip, three)
    # One landed by a merge, the other by a fast-forward; both are named.
    assert [(other.commit, other.task, other.receipt) for other in outcome.others] == [
        (tip, "bd-2", "receipt-bd-2"),
        (one, "bd-1", "receipt-bd-1"),
    ]
    assert project.tip() == tip


async def test_the_users_changes_are_never_touched(
    project: Project, work_landing: WorkLanding
) -> None:
    commit = project.work("bd-1", {"src/auth/login.py": "x = 1\n", "new.py": "y = 1\n"})
    work = project.accepted_work("bd-1", commit)
    for name in ("src/auth/login.py", "new.py"):
        (project.repo.path / name).write_text("mine\n")
        outcome = await work_landing.land(work)
        assert isinstance(outcome, LandingRefused)
        assert outcome.check is None
        assert name in outcome.reason
        assert str(project.repo.path) in outcome.reason
        assert (project.repo.path / name).read_text() == "mine\n"
        assert project.tip() == project.repo.base
        run_in(project.repo.path, "git", "checkout", "--quiet", "--", "src")
        (project.repo.path / "new.py").unlink(missing_ok=True)
    # A change of another file does not block the landing.
    (project.repo.path / "README.md").write_text("mine\n")
    project.repo.git("config", "merge.autoStash", "true")
    assert await work_landing.land(work) == Landed(commit, "fast_forward")
    assert project.repo.git("status", "--porcelain") == "M README.md"


async def test_a_target_that_is_not_checked_out_can_be_landed_on(
    project: Project, work_landing: WorkLanding
) -> None:
    project.repo.git("checkout", "--quiet", "-b", "mine")
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    assert await work_landing.land(project.accepted_work("bd-1", one)) == Landed(
        one, "fast_forward"
    )
    assert project.tip() == one
    assert project.tip("mine") == project.repo.base
    bare = project.folder / "bare.git"
    project.repo.git("clone", "--quiet", "--bare", str(project.repo.path), str(bare))
    two = project.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    project.repo.git("push", "--quiet", str(bare), f"{two}:refs/heads/work")
    outcome = await work_landing.land(project.accepted_work("bd-2", two, _CRITERION, repo=bare))
    assert isinstance(outcome, Landed)
    assert run_in(bare, "git", "rev-parse", "main").stdout.strip() == outcome.commit


async def test_a_missing_branch_or_commit_is_refused(
    project: Project, work_landing: WorkLanding
) -> None:
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    outcome = await work_landing.land(project.accepted_work("bd-1", commit, target="release"))
    assert isinstance(outcome, LandingRefused)
    assert "no branch release" in outcome.reason
    outcome = await work_landing.land(project.accepted_work("bd-1", "0" * 40))
    assert isinstance(outcome, LandingRefused)
    assert "0" * 40 in outcome.reason


async def test_a_commit_the_user_makes_during_a_landing_is_merged(
    project: Project, work_landing: WorkLanding
) -> None:
    """The user commits while the merged tree is tested: the new merge is tested too."""
    project.repo.commit("moved", {"README.md": "# Moved\n"})
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    marks = project.folder / "marks"
    marks.mkdir()
    script = f"""\
import pathlib, subprocess
marks = pathlib.Path({str(marks)!r})
number = len(list(marks.iterdir()))
(marks / str(number)).touch()
if number == 0:
    subprocess.run(["git", "commit", "--quiet", "--allow-empty", "-m", "faster"],
                   cwd={str(project.repo.path)!r}, env={dict(os.environ)!r}, check=True)
"""
    (project.folder / "check.py").write_text(script)
    criterion = f"Command passes: python3 {project.folder / 'check.py'}"
    work = project.accepted_work("bd-1", commit, criterion)
    policy = VerificationPolicy(sandbox="off")
    assert isinstance(await work_landing.land(replace(work, policy=policy)), Landed)
    assert len(list(marks.iterdir())) == 2
    subjects = project.repo.git("log", "--first-parent", "--format=%s", "main").splitlines()
    assert subjects == ["Land bd-1: the work of bd-1", "faster", "moved", "base"]


async def test_concurrent_landings_land_each_commit_once(
    project: Project, work_landing: WorkLanding
) -> None:
    commits = {f"bd-{n}": project.work(f"bd-{n}", {f"src/auth/{n}.py": "x\n"}) for n in range(6)}
    # Another orchestrator, with the same folder.
    other = WorkLanding(project.folder / "landing", project.folder / "state")
    accepted = [
        project.accepted_work(bead_id, commit, "Command passes: test -d src")
        for bead_id, commit in commits.items()
    ]
    outcomes = await asyncio.gather(
        *(each.land(work) for work in accepted for each in (work_landing, other))
    )
    await other.close()
    assert all(isinstance(outcome, Landed) for outcome in outcomes)
    assert (
        sum(isinstance(outcome, Landed) and outcome.how != "already" for outcome in outcomes) == 6
    )
    subjects = project.repo.git("log", "--format=%s", "main").splitlines()
    assert all(subjects.count(f"work of {name}") == 1 for name in commits)
    assert project.repo.git("status", "--porcelain") == ""


async def test_a_merge_killed_before_the_branch_moved_can_land_again(
    project: Project, work_landing: WorkLanding
) -> None:
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    await work_landing.land(project.accepted_work("bd-1", one))
    project.repo.git("update-ref", "refs/shiftboss/landing/bd-2", two)
    assert isinstance(await work_landing.land(project.accepted_work("bd-2", two)), Landed)
    assert project.refs("refs/shiftboss/landing") == {}
    assert project.repo.git("log", "--format=%s", "main").splitlines().count("work of bd-2") == 1


@pytest.mark.parametrize("index", ["old", "new"])
async def test_a_checkout_left_half_written_by_a_killed_git_is_restored(
    project: Project, work_landing: WorkLanding, index: str
) -> None:
    project.repo.base = project.repo.commit("before", {"gone.py": "old\n", "sub/kept.py": "old\n"})
    (project.repo.path / "gone.py").unlink()
    project.repo.git("checkout", "--quiet", "-b", "aside")
    files = {"src/auth/login.py": "x = 1\n", "sub/new.py": "y = 1\n", "README.md": "# New\n"}
    commit = project.repo.commit("work of bd-1", files)
    project.repo.git("checkout", "--quiet", "main")
    # The state after git was killed: some files written, the branch not moved, a lock.
    note, common = _leave_note(project, commit), project.repo.path / ".git"
    if index == "new":  # git writes the index last, after all files
        project.repo.git("read-tree", commit)
        project.repo.write(files)
    (project.repo.path / "gone.py").unlink()
    project.repo.write(
        {"src/auth/login.py": "x = 1\n", "sub/new.py": "y = 1\n", "own.py": "mine\n"}
    )
    (common / "index.lock").touch()
    assert await work_landing.land(project.accepted_work("bd-1", commit)) == Landed(
        commit, "fast_forward"
    )
    assert project.repo.git("status", "--porcelain") == "?? own.py"
    assert (project.repo.path / "own.py").read_text() == "mine\n"
    assert not note.exists()


async def test_a_default_identity_is_used_if_the_user_has_none(
    project: Project, work_landing: WorkLanding, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    await work_landing.land(project.accepted_work("bd-1", one))
    await work_landing.land(project.accepted_work("bd-2", two))
    author = project.repo.git("log", "-1", "--format=%an <%ae> %cn", "main")
    assert author == "Shiftboss <shiftboss@localhost> Shiftboss"


async def test_another_processs_lock_is_not_broken(
    project: Project, work_landing: WorkLanding
) -> None:
    """A git command of the user took the lock before ours was killed: it may still be running."""
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    lock = project.repo.path / ".git" / "index.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    _leave_note(project, commit)
    outcome = await work_landing.land(project.accepted_work("bd-1", commit))
    assert isinstance(outcome, LandingRefused)
    assert "index.lock" in outcome.reason
    assert lock.exists()
