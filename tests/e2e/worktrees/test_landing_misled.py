"""An agent changes refs, grafts or settings of its repository: landing is not misled."""

from __future__ import annotations

import sys

import pytest

from shiftboss.errors import TreeUnavailable
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.landing.target_branch import TargetBranch
from shiftboss.orchestrator.landing.work_landing import Landed, LandingRefused, WorkLanding
from tests.e2e.worktrees.worktree_fixtures import Project, run_in

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]


@pytest.mark.parametrize("moved", [False, True])
async def test_a_replaced_commit_lands_as_it_was_verified(
    project: Project, work_landing: WorkLanding, moved: bool
) -> None:
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    other = project.work("bd-2", {"src/auth/one.py": "evil\n", "src/auth/two.py": "evil\n"})
    if moved:
        project.repo.commit("moved", {"README.md": "# Moved\n"})
    project.repo.git("replace", commit, other)
    outcome = await work_landing.land(project.accepted_work("bd-1", commit))
    assert isinstance(outcome, Landed)
    project.repo.git("replace", "--delete", commit)
    assert project.text("main", "src/auth/one.py") == "x = 1"
    assert (project.repo.path / "src/auth/one.py").read_text() == "x = 1\n"
    assert not (project.repo.path / "src/auth/two.py").exists()
    assert project.repo.git("status", "--porcelain") == ""


async def test_a_grafted_history_does_not_drop_landed_work(
    project: Project, work_landing: WorkLanding
) -> None:
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/lib/two.py": "y = 1\n"})
    assert isinstance(await work_landing.land(project.accepted_work("bd-1", one)), Landed)
    grafts = project.repo.path / ".git" / "info" / "grafts"
    grafts.write_text(f"{two} {one}\n")
    outcome = await work_landing.land(project.accepted_work("bd-2", two))
    grafts.unlink()
    assert outcome == Landed(project.tip(), "merge")
    assert project.text("main", "src/auth/one.py") == "x = 1"
    assert project.text("main", "src/lib/two.py") == "y = 1"
    repo, files = await GitRepo.at(project.repo.path), project.repo.git("rev-parse", "main^{tree}")
    assert await repo.is_merge_of("main", files, [one, two])
    assert not await repo.is_merge_of("main", files, [two, one])
    assert not await repo.is_merge_of("main", await repo.tree_of(two), [one, two])


@pytest.mark.parametrize("branch", ["main", "release"])
async def test_a_branch_is_never_moved_to_a_commit_that_lacks_some_of_its_own(
    project: Project, branch: str
) -> None:
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    tip = project.repo.commit("moved", {"README.md": "# Moved\n"})
    project.repo.git("branch", "release")
    (project.repo.path / ".git" / "shiftboss").mkdir(exist_ok=True)
    with (project.folder / "lock").open("w") as lock:
        target = TargetBranch(await GitRepo.at(project.repo.path), branch, lock.fileno())
        with pytest.raises(TreeUnavailable, match="does not contain all"):
            await target.move(tip, one, "test")
    assert project.tip(branch) == tip


@pytest.mark.parametrize(
    "settings",
    [
        {"core.worktree": "{folder}/elsewhere"},
        {"core.worktree": "../../nowhere"},
        {"core.bare": "true"},
        {"core.bare": "true", "core.worktree": "{folder}/elsewhere"},
    ],
)
async def test_an_agents_git_settings_do_not_redirect_files(
    project: Project, work_landing: WorkLanding, settings: dict[str, str]
) -> None:
    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir()
    one = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    two = project.work("bd-2", {"src/lib/two.py": "y = 1\n"})
    worktree = await project.create(project.assignment("bd-3"))
    for name, value in settings.items():
        done = run_in(worktree.path, "git", "config", name, value.format(folder=project.folder))
        assert done.returncode == 0
    for name, commit in (("bd-1", one), ("bd-2", two)):
        outcome = await work_landing.land(
            project.accepted_work(name, commit, "Command passes: test -d src")
        )
        assert isinstance(outcome, Landed)
        assert outcome.warning == ""
    again = await project.create(project.assignment("bd-4"))
    assert (again.path / "README.md").is_file()
    for name in settings:
        config = str(project.repo.path / ".git" / "config")
        done = run_in(project.folder, "git", "config", "--file", config, "--unset", name)
        assert done.returncode == 0
    assert list(elsewhere.iterdir()) == []
    assert (project.repo.path / "src/auth/one.py").read_text() == "x = 1\n"
    assert (project.repo.path / "src/lib/two.py").read_text() == "y = 1\n"
    assert project.repo.git("status", "--porcelain") == ""
    await project.worktrees.close()


async def test_a_repository_turned_bare_gets_no_files(
    project: Project, work_landing: WorkLanding
) -> None:
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    project.repo.git("config", "core.bare", "true")
    run_in(project.repo.path, "rm", "-r", "src", "tests", "README.md")
    assert await work_landing.land(project.accepted_work("bd-1", commit)) == Landed(
        commit, "fast_forward"
    )
    assert project.tip() == commit
    assert [entry.name for entry in project.repo.path.iterdir()] == [".git"]


@pytest.mark.parametrize("kind", ["separate", "submodule"])
async def test_a_checkout_with_its_git_folder_elsewhere_is_updated(
    project: Project, work_landing: WorkLanding, kind: str
) -> None:
    store = project.folder / "store" / "repo"
    store.parent.mkdir()
    project.repo.git("init", "--quiet", "--separate-git-dir", str(store))
    if kind == "submodule":
        project.repo.git("config", "core.worktree", "../../repo")
        assert list(await GitRepo(store).checkouts_by_branch()) == ["main"]
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    assert await work_landing.land(project.accepted_work("bd-1", commit)) == Landed(
        commit, "fast_forward"
    )
    assert (project.repo.path / "src/auth/one.py").read_text() == "x = 1\n"
    assert project.repo.git("status", "--porcelain") == ""


async def test_a_branch_that_is_a_symbolic_ref_to_the_target_is_refused(
    project: Project, work_landing: WorkLanding
) -> None:
    base = project.repo.base
    tip = project.repo.commit("moved", {"README.md": "# Moved\n"})
    project.repo.git("symbolic-ref", "refs/heads/shiftboss/bd-1", "refs/heads/main")
    work = project.accepted_work("bd-1", tip, branch="shiftboss/bd-1")
    outcome = await work_landing.land(work)
    assert isinstance(outcome, LandingRefused)
    assert "symbolic ref to refs/heads/main" in outcome.reason
    assert "symbolic-ref --delete" in outcome.hint
    project.repo.git("checkout", "--quiet", "--detach")
    with pytest.raises(TreeUnavailable, match="symbolic ref") as refused:
        await project.create(project.assignment("bd-1", base=base))
    assert refused.value.field == "branch"
    assert project.tip() == tip
    assert project.registered() == []


async def test_a_symbolic_private_ref_moves_no_branch(
    project: Project, work_landing: WorkLanding
) -> None:
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    tip = project.repo.commit("moved", {"README.md": "# Moved\n"})
    project.repo.git("symbolic-ref", "refs/shiftboss/landing/bd-1", "refs/heads/main")
    outcome = await work_landing.land(
        project.accepted_work("bd-1", commit, "Command passes: false")
    )
    assert isinstance(outcome, LandingRefused)
    assert outcome.check == "Command passes: false"
    assert project.tip() == tip
    assert project.refs("refs/shiftboss/landing") == {}


async def test_files_that_differ_from_the_target_cause_a_warning(
    project: Project, work_landing: WorkLanding
) -> None:
    (project.repo.path / ".git" / "info").mkdir(exist_ok=True)
    (project.repo.path / ".git" / "info" / "attributes").write_text("*.py filter=odd\n")
    script = project.folder / "odd.py"
    script.write_text(
        "import pathlib, sys\n"
        f"pathlib.Path({str(project.repo.path / 'README.md')!r}).write_text('changed')\n"
        "sys.stdout.buffer.write(sys.stdin.buffer.read())\n"
    )
    project.repo.git("config", "filter.odd.smudge", f"{sys.executable} {script}")
    (project.repo.path / "src/lib/jwt.py").write_text("mine\n")
    commit = project.work("bd-1", {"src/auth/one.py": "x = 1\n"})
    project.repo.git("checkout", "--quiet", "README.md")
    outcome = await work_landing.land(project.accepted_work("bd-1", commit))
    assert isinstance(outcome, Landed)
    assert "README.md" in outcome.warning
    assert str(project.repo.path) in outcome.warning
    assert "jwt.py" not in outcome.warning
