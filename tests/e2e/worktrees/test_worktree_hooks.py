"""The git hooks of a work tree: the contract first, then the repository's own hook."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftboss.hooks.contract import write_contract
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.protocol.handoffs import Context, Contract, Escalation, WorkerHandoff, handoff_hash
from tests.e2e.worktrees.worktree_fixtures import Project, run_in, user_settings

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-10")]

# Writes down its arguments and input; refuses the commit if there is a file `refuse`.
_HOOK = """\
#!/bin/sh
echo "$(basename "$0") $* $(cat)" >> "$PWD/../hooked"
[ ! -e refuse ] || exit 7
"""


@pytest.fixture
async def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Project]:
    for name, value in user_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    project = Project(tmp_path)
    yield project
    await project.worktrees.close()


async def _create(project: Project, bead_id: str = "bd-1") -> Worktree:
    """Create a work tree with a contract for `src/auth/`."""
    assignment = project.assignment(bead_id)
    worktree = await project.create(assignment)
    handoff = WorkerHandoff(
        contract=Contract(
            task_id=bead_id,
            files_owned=["src/auth/"],
            files_readonly=[],
            dependencies_completed=[],
            success_criteria=["it works"],
        ),
        context=Context(epic_summary="", your_role="", what_others_did="", what_comes_next=""),
        escalation=Escalation(),
    )
    write_contract(
        project.contract_file(assignment),
        {
            "swarm_id": "s",
            "bead_id": bead_id,
            "worker": "s-1",
            "epoch": 1,
            "contract_version": 1,
            "contract_hash": handoff_hash(handoff),
            "handoff": json.loads(handoff.model_dump_json()),
            "generated": [],
            "tree": str(worktree.path),
            "base": project.repo.base,
            "branch": assignment.branch,
            "server_url": None,
        },
    )
    return worktree


def _commit(folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    (folder / path).write_text("x = 1\n")
    run_in(folder, "git", "add", path)
    return run_in(folder, "git", "commit", "--quiet", "--message", "work")


def _hooked(project: Project) -> list[str]:
    """The lines that the repository's own hooks have written, from any work tree."""
    files = [*project.folder.glob("hooked"), *project.folder.glob("trees/*/hooked")]
    return [line.rstrip() for file in files for line in file.read_text().splitlines()]


def _write_hook(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(_HOOK)
        (folder / name).chmod(0o755)


async def test_a_commit_outside_the_contract_is_refused(project: Project) -> None:
    worktree = await _create(project)
    refused = _commit(worktree.path, "README.md")
    assert refused.returncode != 0
    assert "README.md" in refused.stderr
    assert "contract" in refused.stderr
    run_in(worktree.path, "git", "reset", "--quiet", "--hard")
    assert _commit(worktree.path, "src/auth/login.py").returncode == 0
    # The user's own checkout has no contract.
    assert _commit(project.repo.path, "README.md").returncode == 0


@pytest.mark.parametrize("where", [".git/hooks", "shared-hooks", ".husky/_"])
async def test_the_repositorys_own_hooks_run_after_ours(project: Project, where: str) -> None:
    if where != ".git/hooks":
        project.repo.git("config", "core.hooksPath", where)
    at_start = {entry.name for entry in project.repo.path.iterdir()}
    worktree = await _create(project)
    # As with husky, the set-up of the work tree installs the hooks.
    folder = project.repo.path if where == ".git/hooks" else worktree.path
    _write_hook(folder / where, "pre-commit", "commit-msg", "pre-push")
    assert _commit(worktree.path, "README.md").returncode != 0
    assert _hooked(project) == []
    run_in(worktree.path, "git", "reset", "--quiet", "--hard")
    assert _commit(worktree.path, "src/auth/login.py").returncode == 0
    first, second = _hooked(project)
    assert first == "pre-commit"
    assert second.startswith("commit-msg ")
    assert second.endswith("COMMIT_EDITMSG")
    (worktree.path / "refuse").touch()
    refused = _commit(worktree.path, "src/auth/names.py")
    assert refused.returncode != 0
    assert {entry.name for entry in project.repo.path.iterdir()} == at_start
    # Nothing of ours is in the settings that the user's own checkout sees.
    seen = run_in(project.repo.path, "git", "config", "--get-all", "core.hooksPath").stdout.strip()
    assert seen == ("" if where == ".git/hooks" else where)


async def test_a_push_runs_both_hooks(project: Project) -> None:
    remote = project.folder / "remote.git"
    project.repo.git("clone", "--quiet", "--bare", str(project.repo.path), str(remote))
    project.repo.git("remote", "add", "origin", str(remote))
    _write_hook(project.repo.path / ".git/hooks", "pre-push")
    worktree = await _create(project)
    assert _commit(worktree.path, "src/auth/login.py").returncode == 0
    head = run_in(worktree.path, "git", "rev-parse", "HEAD").stdout.strip()
    pushed = run_in(worktree.path, "git", "push", "--quiet", "origin", "HEAD")
    assert pushed.returncode == 0, pushed.stderr
    (line,) = _hooked(project)
    assert line.startswith(f"pre-push origin {remote} HEAD {head} refs/heads/shiftboss/bd-1 ")
    (worktree.path / "README.md").write_text("changed\n")
    run_in(worktree.path, "git", "commit", "--quiet", "--no-verify", "--all", "--message", "beyond")
    refused = run_in(worktree.path, "git", "push", "--quiet", "origin", "HEAD")
    assert refused.returncode != 0
    assert "README.md" in refused.stderr
    assert len(_hooked(project)) == 1


async def test_a_hook_configured_for_the_main_worktree_runs(project: Project) -> None:
    """`extensions.worktreeConfig` is on already, and `core.hooksPath` is set there."""
    project.repo.git("config", "extensions.worktreeConfig", "true")
    hooks = project.folder / "mine"
    project.repo.git("config", "--worktree", "core.hooksPath", str(hooks))
    _write_hook(hooks, "pre-commit", "post-index-change")
    worktree = await _create(project)
    assert _commit(worktree.path, "src/auth/login.py").returncode == 0
    assert {line.split(" ")[0] for line in _hooked(project)} == {"pre-commit", "post-index-change"}
    assert project.repo.git("config", "core.hooksPath") == str(hooks)


async def test_settings_of_the_main_worktree_are_moved_into_its_own_configuration(
    project: Project,
) -> None:
    """A repository whose files are elsewhere."""
    files = project.folder / "files"
    files.mkdir()
    project.repo.git("config", "core.worktree", str(files))
    worktree = await _create(project)
    assert _commit(worktree.path, "src/auth/login.py").returncode == 0
    top = run_in(worktree.path, "git", "rev-parse", "--show-toplevel").stdout.strip()
    assert top == str(worktree.path)
    assert project.repo.git("rev-parse", "--show-toplevel") == str(files)
