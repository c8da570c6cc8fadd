"""Git hooks: a commit or push outside the contract is refused, whoever makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.handoffs.handoffs import HONEST
from tests.acceptance.hooks.hook_fixtures import HookOutput, TaskWorkspace

pytestmark = pytest.mark.requirement("HO-10")


@pytest.fixture
def workspace(tmp_path: Path) -> TaskWorkspace:
    workspace = TaskWorkspace(tmp_path)
    workspace.install_git_hooks()
    return workspace


def commit(workspace: TaskWorkspace, files: dict[str, str], *options: str) -> HookOutput:
    workspace.repo.write(files)
    workspace.git("add", "--all")
    return workspace.git("commit", "--quiet", "--message", "work", *options)


def test_a_commit_within_the_contract_is_allowed(workspace: TaskWorkspace) -> None:
    assert commit(workspace, HONEST).code == 0
    assert commit(workspace, {"docs/new.md": "x", "src/auth/deep/é.py": "x"}).code == 0
    workspace.git("mv", "src/auth/login.py", "src/auth/entry.py")
    assert workspace.git("commit", "--message", "move").code == 0
    assert workspace.git("commit", "--amend", "--message", "again").code == 0


def test_a_commit_outside_the_contract_is_refused_and_the_contract_named(
    workspace: TaskWorkspace,
) -> None:
    before = workspace.repo.head()
    refused = commit(workspace, HONEST | {"README.md": "mine", "src/auth/names.py": "x", "n": "x"})
    assert refused.code == 1
    assert "this commit is refused by the contract of task t, version 1, " in refused.err
    assert "README.md was changed and is not in files_owned" in refused.err
    assert "src/auth/names.py was changed and is in files_readonly" in refused.err
    assert "n was added and is not in files_owned" in refused.err
    assert "login.py" not in refused.err
    assert 'request_scope(swarm_id="s", bead_id="t", paths=["README.md"' in refused.err
    assert workspace.repo.head() == before


def test_every_way_to_change_a_path_is_checked(workspace: TaskWorkspace) -> None:
    def refused(reason: str) -> None:
        done = workspace.git("commit", "--message", "x")
        assert (done.code, reason in done.err) == (1, True), done
        workspace.git("reset", "--quiet", "--hard")

    workspace.git("rm", "--quiet", "README.md")
    refused("README.md was deleted")
    workspace.git("mv", "src/lib/jwt.py", "src/auth/jwt.py")
    refused("src/lib/jwt.py was deleted")
    workspace.git("mv", "src/auth/login.py", "src/lib/login.py")
    refused("src/lib/login.py was added")
    workspace.git("update-index", "--chmod=+x", "README.md")
    refused("README.md was given the mode 100755")
    (workspace.tree / "src/auth/link").symlink_to("/etc/passwd")
    workspace.git("add", "--all")
    refused("src/auth/link was added and is a link to an absolute path")
    workspace.git(
        "update-index", "--add", "--cacheinfo", f"160000,{workspace.repo.base},src/auth/sub"
    )
    refused("src/auth/sub was added and is a submodule")
    workspace.repo.write({"src/auth/conftest.py": "x"})
    workspace.git("add", "--all")
    refused("src/auth/conftest.py was added and configures tests or tools")


def test_partial_commits_and_commits_of_everything_are_judged(workspace: TaskWorkspace) -> None:
    """For partial commits git passes its own index to the hook."""
    workspace.repo.write(HONEST | {"README.md": "mine"})
    assert workspace.git("commit", "--all", "--message", "x").code == 1
    assert workspace.git("commit", "--message", "x", "README.md").code == 1
    assert workspace.git("commit", "--message", "x", "src/auth/login.py").code == 0


def test_changes_outside_the_contract_can_be_reverted(workspace: TaskWorkspace) -> None:
    workspace.repo.write({"README.md": "mine"})
    workspace.git("add", "--all")
    workspace.git("-c", "core.hooksPath=/dev/null", "commit", "--message", "astray")
    workspace.git("checkout", workspace.repo.base, "--", "README.md")
    assert workspace.git("commit", "--amend", "--allow-empty", "--message", "back").code == 0


def test_commits_are_allowed_only_on_the_tasks_branch(workspace: TaskWorkspace) -> None:
    workspace.git("checkout", "--quiet", "-b", "mine")
    refused = commit(workspace, HONEST)
    assert refused.code == 1
    assert "the branch of the task is task" in refused.err
    workspace.git("checkout", "--quiet", "--detach")
    assert "to no branch is refused" in commit(workspace, HONEST).err


def test_a_merge_of_the_target_may_bring_changes_by_others(workspace: TaskWorkspace) -> None:
    workspace.git("checkout", "--quiet", "main")
    assert (
        commit(workspace, {"README.md": "landed", "src/lib/jwt.py": "landed"}, "--no-verify").code
        == 0
    )
    workspace.git("checkout", "--quiet", "task")
    assert commit(workspace, HONEST).code == 0
    assert workspace.git("merge", "--no-commit", "main").code == 0
    assert workspace.git("commit", "--message", "merge").code == 0, "of the target's side alone"
    workspace.git("reset", "--quiet", "--hard", "HEAD~1")
    workspace.git("merge", "--no-commit", "main")
    refused = commit(workspace, {"README.md": "landed, and mine"})
    assert "README.md was changed and is not in files_owned" in refused.err
    assert "src/lib/jwt.py" not in refused.err


def test_a_rebase_is_allowed_and_its_commits_are_judged(workspace: TaskWorkspace) -> None:
    workspace.git("checkout", "--quiet", "main")
    commit(workspace, {"src/auth/login.py": "landed\n", "README.md": "landed"}, "--no-verify")
    workspace.git("checkout", "--quiet", "task")
    assert commit(workspace, HONEST).code == 0
    assert workspace.git("rebase", "main").code != 0, "both changed the same lines"
    workspace.repo.write({"src/auth/login.py": "both\n"})
    workspace.git("add", "--all")
    assert workspace.git("-c", "core.editor=true", "rebase", "--continue").code == 0
    assert workspace.git("rev-parse", "--abbrev-ref", "HEAD").out == "task\n"


def pushed(workspace: TaskWorkspace, *arguments: str) -> HookOutput:
    return workspace.git("push", "--quiet", *arguments)


@pytest.fixture
def remote(workspace: TaskWorkspace, tmp_path: Path) -> Path:
    workspace.git("init", "--quiet", "--bare", str(tmp_path / "remote"))
    workspace.git("remote", "add", "origin", str(tmp_path / "remote"))
    assert pushed(workspace, "--no-verify", "origin", "main").code == 0
    return tmp_path / "remote"


@pytest.mark.usefixtures("remote")
def test_a_push_of_the_tasks_branch_is_allowed(workspace: TaskWorkspace) -> None:
    commit(workspace, HONEST)
    assert pushed(workspace, "origin", "task") == (0, "", "")
    commit(workspace, {"docs/new.md": "x"})
    assert pushed(workspace, "origin", "task") == (0, "", "")


@pytest.mark.usefixtures("remote")
def test_pushes_outside_the_contract_are_refused(workspace: TaskWorkspace) -> None:
    commit(workspace, HONEST)
    assert pushed(workspace, "origin", "task").code == 0

    def refused(reason: str, *arguments: str) -> None:
        done = pushed(workspace, *arguments)
        assert (done.code != 0, reason in done.err) == (True, True), done
        assert "contract of task t, version 1" in done.err

    refused("goes to refs/heads/main", "origin", "task:main")
    refused("goes to refs/tags/v1", "origin", "task:refs/tags/v1")
    refused("deletes refs/heads/task", "origin", ":task")
    commit(workspace, {"docs/new.md": "x"}, "--amend")
    refused("rewrites refs/heads/task", "--force", "origin", "task")
    workspace.git("reset", "--quiet", "--hard", "origin/task")
    commit(workspace, {"README.md": "mine"}, "--no-verify")
    commit(workspace, {"README.md": "# Sums\n"}, "--no-verify")
    refused("README.md was changed and is not in files_owned", "origin", "task")


@pytest.mark.usefixtures("remote")
def test_a_push_with_a_merge_or_rebase_of_the_target_is_allowed(workspace: TaskWorkspace) -> None:
    workspace.git("checkout", "--quiet", "main")
    commit(workspace, {"README.md": "landed"}, "--no-verify")
    workspace.git("checkout", "--quiet", "task")
    commit(workspace, HONEST)
    assert workspace.git("merge", "--quiet", "--no-edit", "main").code == 0
    assert pushed(workspace, "origin", "task").code == 0
    workspace.git("checkout", "--quiet", "main")
    commit(workspace, {"README.md": "landed again"}, "--no-verify")
    pushed(workspace, "--no-verify", "origin", "main")
    workspace.git("checkout", "--quiet", "task")
    workspace.git("reset", "--quiet", "--hard", "origin/task")
    assert workspace.git("merge", "--quiet", "--no-edit", "origin/main").code == 0
    assert pushed(workspace, "origin", "task").code == 0


@pytest.mark.usefixtures("remote")
def test_commits_already_on_the_remote_are_not_counted_as_the_tasks(
    workspace: TaskWorkspace,
) -> None:
    workspace.git("checkout", "--quiet", "main")
    commit(workspace, {"README.md": "landed"}, "--no-verify")
    pushed(workspace, "--no-verify", "origin", "main")
    workspace.git("checkout", "--quiet", "task")
    assert commit(workspace, HONEST).code == 0
    assert workspace.git("rebase", "--quiet", "origin/main").code == 0
    assert pushed(workspace, "origin", "task").code == 0


@pytest.mark.usefixtures("remote")
def test_commits_of_an_unpushed_target_are_recognised_by_the_targets_name(
    workspace: TaskWorkspace,
) -> None:
    workspace.git("checkout", "--quiet", "main")
    commit(workspace, {"README.md": "landed"}, "--no-verify")
    workspace.git("checkout", "--quiet", "task")
    workspace.git("reset", "--quiet", "--hard", "main")
    commit(workspace, HONEST)
    assert pushed(workspace, "origin", "task").code != 0
    workspace.write(target="main")
    assert pushed(workspace, "origin", "task").code == 0


def test_a_repositorys_first_commit_is_judged_too(workspace: TaskWorkspace) -> None:
    workspace.git("checkout", "--quiet", "--orphan", "new")
    workspace.git("rm", "-r", "--cached", "--quiet", ".")
    workspace.write(branch="new")
    workspace.repo.write({"docs/new.md": "x", "n": "x"})
    workspace.git("add", "n", "docs/new.md")
    assert "n was added and is not in files_owned" in workspace.git("commit", "--message", "x").err
    workspace.git("rm", "--cached", "--quiet", "n")
    assert workspace.git("commit", "--message", "x").code == 0
