"""An agent writes to what its repository keeps beside the objects: landing is not misled."""

from __future__ import annotations

import sys

import pytest

from shiftboss.errors import TreeUnavailable
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.landing.landing import Landed, Landing, LandingRefused
from shiftboss.orchestrator.landing.target_branch import TargetBranch
from tests.e2e.worktrees.worktree_fixtures import Ground, run_in

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]


@pytest.mark.parametrize("moved", [False, True])
async def test_a_commit_that_was_replaced_lands_as_it_was_verified(
    ground: Ground, landing: Landing, moved: bool
) -> None:
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    other = ground.work("bd-2", {"src/auth/one.py": "evil\n", "src/auth/two.py": "evil\n"})
    if moved:
        ground.repo.commit("moved", {"README.md": "# Moved\n"})
    ground.repo.git("replace", commit, other)
    outcome = await landing.land(ground.landable("bd-1", commit))
    assert isinstance(outcome, Landed)
    ground.repo.git("replace", "--delete", commit)
    assert ground.text("main", "src/auth/one.py") == "x = 1"
    assert (ground.repo.path / "src/auth/one.py").read_text() == "x = 1\n"
    assert not (ground.repo.path / "src/auth/two.py").exists()
    assert ground.repo.git("status", "--porcelain") == ""


async def test_a_history_that_is_not_true_drops_no_landed_work(
    ground: Ground, landing: Landing
) -> None:
    one = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = ground.work("bd-2", {"src/lib/two.py": "y = 1\n"})
    assert isinstance(await landing.land(ground.landable("bd-1", one)), Landed)
    grafts = ground.repo.path / ".git" / "info" / "grafts"
    grafts.write_text(f"{two} {one}\n")
    outcome = await landing.land(ground.landable("bd-2", two))
    grafts.unlink()
    assert outcome == Landed(ground.tip(), "merge")
    assert ground.text("main", "src/auth/one.py") == "x = 1"
    assert ground.text("main", "src/lib/two.py") == "y = 1"
    repo, files = await GitRepo.at(ground.repo.path), ground.repo.git("rev-parse", "main^{tree}")
    assert await repo.is_merge_of("main", files, [one, two])
    assert not await repo.is_merge_of("main", files, [two, one])
    assert not await repo.is_merge_of("main", await repo.tree_of(two), [one, two])


@pytest.mark.parametrize("branch", ["main", "release"])
async def test_a_branch_is_never_moved_to_where_commits_are_missing(
    ground: Ground, branch: str
) -> None:
    one = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    tip = ground.repo.commit("moved", {"README.md": "# Moved\n"})
    ground.repo.git("branch", "release")
    (ground.repo.path / ".git" / "shiftboss").mkdir(exist_ok=True)
    with (ground.folder / "held").open("w") as held:
        target = TargetBranch(await GitRepo.at(ground.repo.path), branch, held.fileno())
        with pytest.raises(TreeUnavailable, match="does not have all"):
            await target.move(tip, one, "test")
    assert ground.tip(branch) == tip


@pytest.mark.parametrize(
    "settings",
    [
        {"core.worktree": "{folder}/elsewhere"},
        {"core.worktree": "../../nowhere"},
        {"core.bare": "true"},
        {"core.bare": "true", "core.worktree": "{folder}/elsewhere"},
    ],
)
async def test_settings_of_an_agent_lead_no_files_elsewhere(
    ground: Ground, landing: Landing, settings: dict[str, str]
) -> None:
    elsewhere = ground.folder / "elsewhere"
    elsewhere.mkdir()
    one = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = ground.work("bd-2", {"src/lib/two.py": "y = 1\n"})
    tree = await ground.make(ground.assignment("bd-3"))
    for name, value in settings.items():
        done = run_in(tree.path, "git", "config", name, value.format(folder=ground.folder))
        assert done.returncode == 0
    for name, commit in (("bd-1", one), ("bd-2", two)):
        outcome = await landing.land(ground.landable(name, commit, "Command passes: test -d src"))
        assert isinstance(outcome, Landed)
        assert outcome.warning == ""
    again = await ground.make(ground.assignment("bd-4"))
    assert (again.path / "README.md").is_file()
    for name in settings:
        config = str(ground.repo.path / ".git" / "config")
        done = run_in(ground.folder, "git", "config", "--file", config, "--unset", name)
        assert done.returncode == 0
    assert list(elsewhere.iterdir()) == []
    assert (ground.repo.path / "src/auth/one.py").read_text() == "x = 1\n"
    assert (ground.repo.path / "src/lib/two.py").read_text() == "y = 1\n"
    assert ground.repo.git("status", "--porcelain") == ""
    await ground.trees.close()


async def test_a_bare_repository_that_had_files_gets_none(ground: Ground, landing: Landing) -> None:
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    ground.repo.git("config", "core.bare", "true")
    run_in(ground.repo.path, "rm", "-r", "src", "tests", "README.md")
    assert await landing.land(ground.landable("bd-1", commit)) == Landed(commit, "fast_forward")
    assert ground.tip() == commit
    assert [one.name for one in ground.repo.path.iterdir()] == [".git"]


@pytest.mark.parametrize("kind", ["separate", "submodule"])
async def test_a_checkout_with_its_git_folder_elsewhere_goes_along(
    ground: Ground, landing: Landing, kind: str
) -> None:
    store = ground.folder / "store" / "repo"
    store.parent.mkdir()
    ground.repo.git("init", "--quiet", "--separate-git-dir", str(store))
    if kind == "submodule":
        ground.repo.git("config", "core.worktree", "../../repo")
        assert list(await GitRepo(store).checked_out()) == ["main"]
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    assert await landing.land(ground.landable("bd-1", commit)) == Landed(commit, "fast_forward")
    assert (ground.repo.path / "src/auth/one.py").read_text() == "x = 1\n"
    assert ground.repo.git("status", "--porcelain") == ""


async def test_a_branch_that_is_another_name_of_the_target_is_refused(
    ground: Ground, landing: Landing
) -> None:
    base = ground.repo.base
    tip = ground.repo.commit("moved", {"README.md": "# Moved\n"})
    ground.repo.git("symbolic-ref", "refs/heads/shiftboss/bd-1", "refs/heads/main")
    wanted = ground.landable("bd-1", tip, branch="shiftboss/bd-1")
    outcome = await landing.land(wanted)
    assert isinstance(outcome, LandingRefused)
    assert "another name of refs/heads/main" in outcome.reason
    assert "symbolic-ref --delete" in outcome.hint
    ground.repo.git("checkout", "--quiet", "--detach")
    with pytest.raises(TreeUnavailable, match="another name") as refused:
        await ground.make(ground.assignment("bd-1", base=base))
    assert refused.value.field == "branch"
    assert ground.tip() == tip
    assert ground.registered() == []


async def test_a_ref_of_ours_that_is_another_name_moves_nothing(
    ground: Ground, landing: Landing
) -> None:
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    tip = ground.repo.commit("moved", {"README.md": "# Moved\n"})
    ground.repo.git("symbolic-ref", "refs/shiftboss/landing/bd-1", "refs/heads/main")
    outcome = await landing.land(ground.landable("bd-1", commit, "Command passes: false"))
    assert isinstance(outcome, LandingRefused)
    assert outcome.check == "Command passes: false"
    assert ground.tip() == tip
    assert ground.refs("refs/shiftboss/landing") == {}


async def test_files_that_are_not_as_the_target_has_them_are_told(
    ground: Ground, landing: Landing
) -> None:
    (ground.repo.path / ".git" / "info").mkdir(exist_ok=True)
    (ground.repo.path / ".git" / "info" / "attributes").write_text("*.py filter=odd\n")
    script = ground.folder / "odd.py"
    script.write_text(
        "import pathlib, sys\n"
        f"pathlib.Path({str(ground.repo.path / 'README.md')!r}).write_text('changed')\n"
        "sys.stdout.buffer.write(sys.stdin.buffer.read())\n"
    )
    ground.repo.git("config", "filter.odd.smudge", f"{sys.executable} {script}")
    (ground.repo.path / "src/lib/jwt.py").write_text("mine\n")
    commit = ground.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    ground.repo.git("checkout", "--quiet", "README.md")
    outcome = await landing.land(ground.landable("bd-1", commit))
    assert isinstance(outcome, Landed)
    assert "README.md" in outcome.warning
    assert str(ground.repo.path) in outcome.warning
    assert "jwt.py" not in outcome.warning
