"""Landing: accepted work on its target, once, whatever moved or died meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from shiftboss.orchestrator.landing.landing import (
    Landed,
    LandedWork,
    Landing,
    LandingConflict,
    LandingRefused,
)
from shiftboss.protocol.handoffs import VerificationPolicy
from tests.e2e.worktrees.worktree_fixtures import Ground, run_in
from tests.repos import waiver

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]

_LOOK = """\
import pathlib
print("looked")
raise SystemExit(all(pathlib.Path(one).exists() for one in ("src/auth/one.py", "src/lib/two.py")))
"""
# Green for each of two changes, red for both.
_CRITERION = f"Command passes: python3 -c {shlex.quote(_LOOK)}"


def _leave_note(ground: Ground, commit: str) -> Path:
    """As of a process that was killed while git wrote the files of the commit."""
    note = ground.repo.path / ".git" / "shiftboss" / "landing.json"
    note.parent.mkdir(exist_ok=True)
    words = {"folder": str(ground.repo.path), "old": ground.repo.base, "new": commit}
    note.write_text(json.dumps(words))
    return note


async def test_work_on_the_tip_is_fast_forwarded_once(ground: Ground, landing: Landing) -> None:
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    wanted = ground.landable("bd-1", commit, "Command passes: false", branch="shiftboss/bd-1")
    assert await landing.land(wanted) == Landed(commit, "fast_forward")
    # It is checked out there: the files of the user go along.
    assert (ground.repo.path / "src/auth/one.py").read_text() == "x = 1\n"
    assert ground.repo.git("status", "--porcelain") == ""
    assert "shiftboss/bd-1" not in ground.repo.git("branch")
    assert await landing.land(wanted) == Landed(commit, "already")
    ground.repo.commit("more", {"README.md": "# More\n"})
    assert await landing.land(wanted) == Landed(ground.tip(), "already")


async def test_the_merged_tree_is_tested_when_the_target_moved(
    ground: Ground, landing: Landing
) -> None:
    one = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = ground.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    assert isinstance(await landing.land(ground.landable("bd-1", one, _CRITERION)), Landed)
    outcome = await landing.land(ground.landable("bd-2", two, _CRITERION))
    assert outcome == Landed(ground.tip(), "merge")
    assert ground.repo.git("rev-list", "--parents", "-1", "main").split()[1:] == [one, two]
    message = ground.repo.git("log", "-1", "--format=%an%n%B", "main").splitlines()
    assert message[:2] == ["Ada", "Land bd-2: the work of bd-2"]
    assert message[-2:] == ["Shiftboss-Task: bd-2", "Shiftboss-Receipt: receipt-bd-2"]
    assert ground.repo.git("status", "--porcelain") == ""
    assert ground.refs("refs/shiftboss/landing") == {}


async def test_a_merge_that_breaks_a_test_does_not_land(ground: Ground, landing: Landing) -> None:
    one = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = ground.work("bd-2", {"src/lib/two.py": "y = 1\n"})
    await landing.land(ground.landable("bd-1", one, _CRITERION))
    wanted = ground.landable("bd-2", two, "it works", _CRITERION)
    outcome = await landing.land(wanted)
    assert isinstance(outcome, LandingRefused)
    assert (outcome.check, outcome.ours) == (_CRITERION, one)
    assert "exit code 1" in outcome.reason
    assert "looked" in outcome.output_tail
    assert ground.tip() == one
    assert ground.refs("refs/shiftboss/landing") == {}
    # What the operator has waived does not keep it off.
    allowed = replace(wanted, waivers=[waiver("criterion", _CRITERION)])
    assert isinstance(await landing.land(allowed), Landed)


async def test_the_set_up_of_the_policy_comes_first(ground: Ground, landing: Landing) -> None:
    one = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = ground.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    await landing.land(ground.landable("bd-1", one))
    wanted = ground.landable("bd-2", two, "Command passes: test -e made")
    outcome = await landing.land(replace(wanted, policy=VerificationPolicy(setup=["false"])))
    assert isinstance(outcome, LandingRefused)
    assert outcome.check == "false"
    policy = VerificationPolicy(setup=["touch made"])
    assert isinstance(await landing.land(replace(wanted, policy=policy)), Landed)


async def test_a_conflict_names_both_sides(ground: Ground, landing: Landing) -> None:
    one = ground.work("bd-1", {"src/auth/login.py": "x = 1\n"})
    two = ground.work("bd-2", {"src/auth/names.py": "y = 2\n"})
    three = ground.work("bd-3", {"src/auth/login.py": "x = 3\n", "src/auth/names.py": "y = 3\n"})
    for name, commit in (("bd-1", one), ("bd-2", two)):
        assert isinstance(await landing.land(ground.landable(name, commit)), Landed)
    tip = ground.tip()
    landed = [LandedWork(one, "bd-1", "receipt-bd-1")]
    outcome = await landing.land(ground.landable("bd-3", three, landed=landed))
    assert isinstance(outcome, LandingConflict)
    assert outcome.paths == ["src/auth/login.py", "src/auth/names.py"]
    assert (outcome.ours, outcome.theirs) == (tip, three)
    # One was merged, the other was not; both are known.
    assert [(side.commit, side.task, side.receipt) for side in outcome.others] == [
        (tip, "bd-2", "receipt-bd-2"),
        (one, "bd-1", "receipt-bd-1"),
    ]
    assert ground.tip() == tip


async def test_changes_of_the_user_are_never_touched(ground: Ground, landing: Landing) -> None:
    commit = ground.work("bd-1", {"src/auth/login.py": "x = 1\n", "new.py": "y = 1\n"})
    wanted = ground.landable("bd-1", commit)
    for name in ("src/auth/login.py", "new.py"):
        (ground.repo.path / name).write_text("mine\n")
        outcome = await landing.land(wanted)
        assert isinstance(outcome, LandingRefused)
        assert outcome.check is None
        assert name in outcome.reason
        assert str(ground.repo.path) in outcome.reason
        assert (ground.repo.path / name).read_text() == "mine\n"
        assert ground.tip() == ground.repo.base
        run_in(ground.repo.path, "git", "checkout", "--quiet", "--", "src")
        (ground.repo.path / "new.py").unlink(missing_ok=True)
    # A change elsewhere is in nobody's way.
    (ground.repo.path / "README.md").write_text("mine\n")
    ground.repo.git("config", "merge.autoStash", "true")
    assert await landing.land(wanted) == Landed(commit, "fast_forward")
    assert ground.repo.git("status", "--porcelain") == "M README.md"


async def test_a_target_that_nobody_has_checked_out_is_moved(
    ground: Ground, landing: Landing
) -> None:
    ground.repo.git("checkout", "--quiet", "-b", "mine")
    one = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    assert await landing.land(ground.landable("bd-1", one)) == Landed(one, "fast_forward")
    assert ground.tip() == one
    assert ground.tip("mine") == ground.repo.base
    bare = ground.folder / "bare.git"
    ground.repo.git("clone", "--quiet", "--bare", str(ground.repo.path), str(bare))
    two = ground.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    ground.repo.git("push", "--quiet", str(bare), f"{two}:refs/heads/work")
    outcome = await landing.land(ground.landable("bd-2", two, _CRITERION, repo=bare))
    assert isinstance(outcome, Landed)
    assert run_in(bare, "git", "rev-parse", "main").stdout.strip() == outcome.commit


async def test_what_is_not_there_is_refused(ground: Ground, landing: Landing) -> None:
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    outcome = await landing.land(ground.landable("bd-1", commit, target="release"))
    assert isinstance(outcome, LandingRefused)
    assert "no branch release" in outcome.reason
    outcome = await landing.land(ground.landable("bd-1", "0" * 40))
    assert isinstance(outcome, LandingRefused)
    assert "0" * 40 in outcome.reason


async def test_somebody_who_was_faster_is_merged_with(ground: Ground, landing: Landing) -> None:
    """The user commits while the merged tree is tested: what lands was tested with that, too."""
    ground.repo.commit("moved", {"README.md": "# Moved\n"})
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    marks = ground.folder / "marks"
    marks.mkdir()
    script = f"""\
import pathlib, subprocess
marks = pathlib.Path({str(marks)!r})
number = len(list(marks.iterdir()))
(marks / str(number)).touch()
if number == 0:
    subprocess.run(["git", "commit", "--quiet", "--allow-empty", "-m", "faster"],
                   cwd={str(ground.repo.path)!r}, env={dict(os.environ)!r}, check=True)
"""
    (ground.folder / "look.py").write_text(script)
    criterion = f"Command passes: python3 {ground.folder / 'look.py'}"
    assert isinstance(await landing.land(ground.landable("bd-1", commit, criterion)), Landed)
    assert len(list(marks.iterdir())) == 2
    subjects = ground.repo.git("log", "--first-parent", "--format=%s", "main").splitlines()
    assert subjects == ["Land bd-1: the work of bd-1", "faster", "moved", "base"]


async def test_many_land_at_once_and_each_of_them_once(ground: Ground, landing: Landing) -> None:
    commits = {f"bd-{n}": ground.work(f"bd-{n}", {f"src/auth/{n}.py": "x\n"}) for n in range(6)}
    other = Landing(ground.folder / "landing")  # another orchestrator, with the same folder
    wanted = [ground.landable(*one, "Command passes: test -d src") for one in commits.items()]
    outcomes = await asyncio.gather(
        *(room.land(one) for one in wanted for room in (landing, other))
    )
    await other.close()
    assert all(isinstance(one, Landed) for one in outcomes)
    assert sum(isinstance(one, Landed) and one.how != "already" for one in outcomes) == 6
    subjects = ground.repo.git("log", "--format=%s", "main").splitlines()
    assert all(subjects.count(f"work of {name}") == 1 for name in commits)
    assert ground.repo.git("status", "--porcelain") == ""


async def test_a_merge_that_was_killed_before_the_branch_moved_lands_anew(
    ground: Ground, landing: Landing
) -> None:
    one = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = ground.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    await landing.land(ground.landable("bd-1", one))
    ground.repo.git("update-ref", "refs/shiftboss/landing/bd-2", two)
    assert isinstance(await landing.land(ground.landable("bd-2", two)), Landed)
    assert ground.refs("refs/shiftboss/landing") == {}
    assert ground.repo.git("log", "--format=%s", "main").splitlines().count("work of bd-2") == 1


@pytest.mark.parametrize("index", ["old", "new"])
async def test_a_checkout_that_a_killed_git_left_half_written_is_put_back(
    ground: Ground, landing: Landing, index: str
) -> None:
    ground.repo.base = ground.repo.commit("before", {"gone.py": "old\n", "sub/kept.py": "old\n"})
    (ground.repo.path / "gone.py").unlink()
    ground.repo.git("checkout", "--quiet", "-b", "aside")
    files = {"src/auth/login.py": "x = 1\n", "sub/new.py": "y = 1\n", "README.md": "# New\n"}
    commit = ground.repo.commit("work of bd-1", files)
    ground.repo.git("checkout", "--quiet", "main")
    # As git leaves it when it is killed: some files written, the branch not moved, a lock.
    note, common = _leave_note(ground, commit), ground.repo.path / ".git"
    if index == "new":  # it is written last, when all files are
        ground.repo.git("read-tree", commit)
        ground.repo.write(files)
    (ground.repo.path / "gone.py").unlink()
    ground.repo.write({"src/auth/login.py": "x = 1\n", "sub/new.py": "y = 1\n", "own.py": "mine\n"})
    (common / "index.lock").touch()
    assert await landing.land(ground.landable("bd-1", commit)) == Landed(commit, "fast_forward")
    assert ground.repo.git("status", "--porcelain") == "?? own.py"
    assert (ground.repo.path / "own.py").read_text() == "mine\n"
    assert not note.exists()


async def test_without_a_name_of_the_user_there_is_one(
    ground: Ground, landing: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    one = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = ground.work("bd-2", {"src/lib/other.py": "y = 1\n"})
    await landing.land(ground.landable("bd-1", one))
    await landing.land(ground.landable("bd-2", two))
    author = ground.repo.git("log", "-1", "--format=%an <%ae> %cn", "main")
    assert author == "Shiftboss <shiftboss@localhost> Shiftboss"


async def test_a_lock_that_somebody_else_holds_is_not_broken(
    ground: Ground, landing: Landing
) -> None:
    """A git of the user's own was there before one of ours was killed: it may still be at work."""
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    lock = ground.repo.path / ".git" / "index.lock"
    lock.touch()
    os.utime(lock, (1, 1))
    _leave_note(ground, commit)
    outcome = await landing.land(ground.landable("bd-1", commit))
    assert isinstance(outcome, LandingRefused)
    assert "index.lock" in outcome.reason
    assert lock.exists()
