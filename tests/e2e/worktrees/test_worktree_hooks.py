"""The git hooks of a work tree: the contract first, then the repository's own hook."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftboss.hooks.contract import write_contract
from shiftboss.orchestrator.worktrees.worktrees import Worktree
from shiftboss.protocol.handoffs import Context, Contract, Escalation, WorkerHandoff, handoff_hash
from tests.e2e.worktrees.worktree_fixtures import Ground, run_in, user_settings

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("HO-10")]

# Tells what it was given; refuses the commit with an exit code of its own when it is told to.
_HOOK = """\
#!/bin/sh
echo "$(basename "$0") $* $(cat)" >> "$PWD/../hooked"
[ ! -e refuse ] || exit 7
"""


@pytest.fixture
async def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ground]:
    for name, value in user_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    ground = Ground(tmp_path)
    yield ground
    await ground.trees.close()


async def _make(ground: Ground, bead_id: str = "bd-1") -> Worktree:
    """With a contract for `src/auth/`."""
    assignment = ground.assignment(bead_id)
    tree = await ground.make(assignment)
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
        ground.contract_file(assignment),
        {
            "swarm_id": "s",
            "bead_id": bead_id,
            "worker": "s-1",
            "epoch": 1,
            "contract_version": 1,
            "contract_hash": handoff_hash(handoff),
            "handoff": json.loads(handoff.model_dump_json()),
            "generated": [],
            "tree": str(tree.path),
            "base": ground.repo.base,
            "branch": assignment.branch,
            "server_url": None,
        },
    )
    return tree


def _commit(folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    (folder / path).write_text("x = 1\n")
    run_in(folder, "git", "add", path)
    return run_in(folder, "git", "commit", "--quiet", "--message", "work")


def _hooked(ground: Ground) -> list[str]:
    """What the repository's own hooks have told, from any tree."""
    files = [*ground.folder.glob("hooked"), *ground.folder.glob("trees/*/hooked")]
    return [line.rstrip() for file in files for line in file.read_text().splitlines()]


def _write_hook(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(_HOOK)
        (folder / name).chmod(0o755)


async def test_a_commit_outside_of_the_contract_is_refused(ground: Ground) -> None:
    tree = await _make(ground)
    refused = _commit(tree.path, "README.md")
    assert refused.returncode != 0
    assert "README.md" in refused.stderr
    assert "contract" in refused.stderr
    run_in(tree.path, "git", "reset", "--quiet", "--hard")
    assert _commit(tree.path, "src/auth/login.py").returncode == 0
    # The user's own checkout has no contract.
    assert _commit(ground.repo.path, "README.md").returncode == 0


@pytest.mark.parametrize("where", [".git/hooks", "shared-hooks", ".husky/_"])
async def test_the_hooks_of_the_repository_are_run_after_ours(ground: Ground, where: str) -> None:
    if where != ".git/hooks":
        ground.repo.git("config", "core.hooksPath", where)
    at_start = {one.name for one in ground.repo.path.iterdir()}
    tree = await _make(ground)
    # As husky does it, the hooks come with the set-up of the tree.
    place = ground.repo.path if where == ".git/hooks" else tree.path
    _write_hook(place / where, "pre-commit", "commit-msg", "pre-push")
    assert _commit(tree.path, "README.md").returncode != 0
    assert _hooked(ground) == []
    run_in(tree.path, "git", "reset", "--quiet", "--hard")
    assert _commit(tree.path, "src/auth/login.py").returncode == 0
    first, second = _hooked(ground)
    assert first == "pre-commit"
    assert second.startswith("commit-msg ")
    assert second.endswith("COMMIT_EDITMSG")
    (tree.path / "refuse").touch()
    refused = _commit(tree.path, "src/auth/names.py")
    assert refused.returncode != 0
    assert {one.name for one in ground.repo.path.iterdir()} == at_start
    # Nothing of ours is in the settings that the user's own checkout sees.
    seen = run_in(ground.repo.path, "git", "config", "--get-all", "core.hooksPath").stdout.strip()
    assert seen == ("" if where == ".git/hooks" else where)


async def test_a_push_is_told_to_both(ground: Ground) -> None:
    remote = ground.folder / "remote.git"
    ground.repo.git("clone", "--quiet", "--bare", str(ground.repo.path), str(remote))
    ground.repo.git("remote", "add", "origin", str(remote))
    _write_hook(ground.repo.path / ".git/hooks", "pre-push")
    tree = await _make(ground)
    assert _commit(tree.path, "src/auth/login.py").returncode == 0
    head = run_in(tree.path, "git", "rev-parse", "HEAD").stdout.strip()
    pushed = run_in(tree.path, "git", "push", "--quiet", "origin", "HEAD")
    assert pushed.returncode == 0, pushed.stderr
    (told,) = _hooked(ground)
    assert told.startswith(f"pre-push origin {remote} HEAD {head} refs/heads/shiftboss/bd-1 ")
    (tree.path / "README.md").write_text("changed\n")
    run_in(tree.path, "git", "commit", "--quiet", "--no-verify", "--all", "--message", "beyond")
    refused = run_in(tree.path, "git", "push", "--quiet", "origin", "HEAD")
    assert refused.returncode != 0
    assert "README.md" in refused.stderr
    assert len(_hooked(ground)) == 1


async def test_a_hook_of_the_first_tree_alone_is_found(ground: Ground) -> None:
    """Settings of single trees are on already, and the repository's own hooks are one of them."""
    ground.repo.git("config", "extensions.worktreeConfig", "true")
    hooks = ground.folder / "mine"
    ground.repo.git("config", "--worktree", "core.hooksPath", str(hooks))
    _write_hook(hooks, "pre-commit", "post-index-change")
    tree = await _make(ground)
    assert _commit(tree.path, "src/auth/login.py").returncode == 0
    assert {line.split(" ")[0] for line in _hooked(ground)} == {"pre-commit", "post-index-change"}
    assert ground.repo.git("config", "core.hooksPath") == str(hooks)


async def test_settings_of_the_first_tree_move_to_it(ground: Ground) -> None:
    """A repository whose files lie elsewhere."""
    files = ground.folder / "files"
    files.mkdir()
    ground.repo.git("config", "core.worktree", str(files))
    tree = await _make(ground)
    assert _commit(tree.path, "src/auth/login.py").returncode == 0
    top = run_in(tree.path, "git", "rev-parse", "--show-toplevel").stdout.strip()
    assert top == str(tree.path)
    assert ground.repo.git("rev-parse", "--show-toplevel") == str(files)
