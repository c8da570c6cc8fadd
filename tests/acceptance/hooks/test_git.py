"""Hooks of git: a commit or push outside of the contract is refused, whoever makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.handoffs.handoffs import HONEST
from tests.acceptance.hooks.hook_fixtures import HookRoom, Said

pytestmark = pytest.mark.requirement("HO-10")


@pytest.fixture
def room(tmp_path: Path) -> HookRoom:
    room = HookRoom(tmp_path)
    room.install_git_hooks()
    return room


def commit(room: HookRoom, files: dict[str, str], *options: str) -> Said:
    room.repo.write(files)
    room.git("add", "--all")
    return room.git("commit", "--quiet", "--message", "work", *options)


def test_a_commit_within_the_contract_is_made(room: HookRoom) -> None:
    assert commit(room, HONEST).code == 0
    assert commit(room, {"docs/new.md": "x", "src/auth/deep/é.py": "x"}).code == 0
    room.git("mv", "src/auth/login.py", "src/auth/entry.py")
    assert room.git("commit", "--message", "move").code == 0
    assert room.git("commit", "--amend", "--message", "again").code == 0


def test_a_commit_outside_of_the_contract_is_refused_and_names_it(room: HookRoom) -> None:
    before = room.repo.head()
    refused = commit(room, HONEST | {"README.md": "mine", "src/auth/names.py": "x", "n": "x"})
    assert refused.code == 1
    assert "this commit is refused by the contract of task t, version 1, " in refused.err
    assert "README.md was changed and is not in files_owned" in refused.err
    assert "src/auth/names.py was changed and is in files_readonly" in refused.err
    assert "n was added and is not in files_owned" in refused.err
    assert "login.py" not in refused.err
    assert 'request_scope(swarm_id="s", bead_id="t", paths=["README.md"' in refused.err
    assert room.repo.head() == before


def test_every_way_to_change_a_path_is_seen(room: HookRoom) -> None:
    def refused(reason: str) -> None:
        done = room.git("commit", "--message", "x")
        assert (done.code, reason in done.err) == (1, True), done
        room.git("reset", "--quiet", "--hard")

    room.git("rm", "--quiet", "README.md")
    refused("README.md was deleted")
    room.git("mv", "src/lib/jwt.py", "src/auth/jwt.py")
    refused("src/lib/jwt.py was deleted")
    room.git("mv", "src/auth/login.py", "src/lib/login.py")
    refused("src/lib/login.py was added")
    room.git("update-index", "--chmod=+x", "README.md")
    refused("README.md was given the mode 100755")
    (room.tree / "src/auth/link").symlink_to("/etc/passwd")
    room.git("add", "--all")
    refused("src/auth/link was added and is a link to an absolute path")
    room.git("update-index", "--add", "--cacheinfo", f"160000,{room.repo.base},src/auth/sub")
    refused("src/auth/sub was added and is a submodule")
    room.repo.write({"src/auth/conftest.py": "x"})
    room.git("add", "--all")
    refused("src/auth/conftest.py was added and configures tests or tools")


def test_parts_of_the_work_tree_and_all_of_it(room: HookRoom) -> None:
    """git hands its own index to the hook then."""
    room.repo.write(HONEST | {"README.md": "mine"})
    assert room.git("commit", "--all", "--message", "x").code == 1
    assert room.git("commit", "--message", "x", "README.md").code == 1
    assert room.git("commit", "--message", "x", "src/auth/login.py").code == 0


def test_what_is_not_the_tasks_can_be_put_back(room: HookRoom) -> None:
    room.repo.write({"README.md": "mine"})
    room.git("add", "--all")
    room.git("-c", "core.hooksPath=/dev/null", "commit", "--message", "astray")
    room.git("checkout", room.repo.base, "--", "README.md")
    assert room.git("commit", "--amend", "--allow-empty", "--message", "back").code == 0


def test_only_the_branch_of_the_task_gets_commits(room: HookRoom) -> None:
    room.git("checkout", "--quiet", "-b", "mine")
    refused = commit(room, HONEST)
    assert refused.code == 1
    assert "the branch of the task is task" in refused.err
    room.git("checkout", "--quiet", "--detach")
    assert "to no branch is refused" in commit(room, HONEST).err


def test_a_merge_of_the_target_brings_what_others_did(room: HookRoom) -> None:
    room.git("checkout", "--quiet", "main")
    assert (
        commit(room, {"README.md": "landed", "src/lib/jwt.py": "landed"}, "--no-verify").code == 0
    )
    room.git("checkout", "--quiet", "task")
    assert commit(room, HONEST).code == 0
    assert room.git("merge", "--no-commit", "main").code == 0
    assert room.git("commit", "--message", "merge").code == 0, "of the target's side alone"
    room.git("reset", "--quiet", "--hard", "HEAD~1")
    room.git("merge", "--no-commit", "main")
    refused = commit(room, {"README.md": "landed, and mine"})
    assert "README.md was changed and is not in files_owned" in refused.err
    assert "src/lib/jwt.py" not in refused.err


def test_a_rebase_goes_through_and_its_commits_are_judged(room: HookRoom) -> None:
    room.git("checkout", "--quiet", "main")
    commit(room, {"src/auth/login.py": "landed\n", "README.md": "landed"}, "--no-verify")
    room.git("checkout", "--quiet", "task")
    assert commit(room, HONEST).code == 0
    assert room.git("rebase", "main").code != 0, "both changed the same lines"
    room.repo.write({"src/auth/login.py": "both\n"})
    room.git("add", "--all")
    assert room.git("-c", "core.editor=true", "rebase", "--continue").code == 0
    assert room.git("rev-parse", "--abbrev-ref", "HEAD").out == "task\n"


def pushed(room: HookRoom, *arguments: str) -> Said:
    return room.git("push", "--quiet", *arguments)


@pytest.fixture
def remote(room: HookRoom, tmp_path: Path) -> Path:
    room.git("init", "--quiet", "--bare", str(tmp_path / "remote"))
    room.git("remote", "add", "origin", str(tmp_path / "remote"))
    assert pushed(room, "--no-verify", "origin", "main").code == 0
    return tmp_path / "remote"


@pytest.mark.usefixtures("remote")
def test_a_push_of_the_tasks_branch_goes_through(room: HookRoom) -> None:
    commit(room, HONEST)
    assert pushed(room, "origin", "task") == (0, "", "")
    commit(room, {"docs/new.md": "x"})
    assert pushed(room, "origin", "task") == (0, "", "")


@pytest.mark.usefixtures("remote")
def test_pushes_that_are_refused(room: HookRoom) -> None:
    commit(room, HONEST)
    assert pushed(room, "origin", "task").code == 0

    def refused(reason: str, *arguments: str) -> None:
        done = pushed(room, *arguments)
        assert (done.code != 0, reason in done.err) == (True, True), done
        assert "contract of task t, version 1" in done.err

    refused("goes to refs/heads/main", "origin", "task:main")
    refused("goes to refs/tags/v1", "origin", "task:refs/tags/v1")
    refused("deletes refs/heads/task", "origin", ":task")
    commit(room, {"docs/new.md": "x"}, "--amend")
    refused("rewrites refs/heads/task", "--force", "origin", "task")
    room.git("reset", "--quiet", "--hard", "origin/task")
    commit(room, {"README.md": "mine"}, "--no-verify")
    commit(room, {"README.md": "# Sums\n"}, "--no-verify")
    refused("README.md was changed and is not in files_owned", "origin", "task")


@pytest.mark.usefixtures("remote")
def test_a_push_with_a_merge_or_rebase_of_the_target_goes_through(room: HookRoom) -> None:
    room.git("checkout", "--quiet", "main")
    commit(room, {"README.md": "landed"}, "--no-verify")
    room.git("checkout", "--quiet", "task")
    commit(room, HONEST)
    assert room.git("merge", "--quiet", "--no-edit", "main").code == 0
    assert pushed(room, "origin", "task").code == 0
    room.git("checkout", "--quiet", "main")
    commit(room, {"README.md": "landed again"}, "--no-verify")
    pushed(room, "--no-verify", "origin", "main")
    room.git("checkout", "--quiet", "task")
    room.git("reset", "--quiet", "--hard", "origin/task")
    assert room.git("merge", "--quiet", "--no-edit", "origin/main").code == 0
    assert pushed(room, "origin", "task").code == 0


@pytest.mark.usefixtures("remote")
def test_what_the_remote_has_is_not_the_tasks(room: HookRoom) -> None:
    room.git("checkout", "--quiet", "main")
    commit(room, {"README.md": "landed"}, "--no-verify")
    pushed(room, "--no-verify", "origin", "main")
    room.git("checkout", "--quiet", "task")
    assert commit(room, HONEST).code == 0
    assert room.git("rebase", "--quiet", "origin/main").code == 0
    assert pushed(room, "origin", "task").code == 0


@pytest.mark.usefixtures("remote")
def test_commits_of_a_target_that_is_nowhere_else_are_known_by_its_name(room: HookRoom) -> None:
    room.git("checkout", "--quiet", "main")
    commit(room, {"README.md": "landed"}, "--no-verify")
    room.git("checkout", "--quiet", "task")
    room.git("reset", "--quiet", "--hard", "main")
    commit(room, HONEST)
    assert pushed(room, "origin", "task").code != 0
    room.write(target="main")
    assert pushed(room, "origin", "task").code == 0


def test_the_first_commit_of_all_is_judged_too(room: HookRoom) -> None:
    room.git("checkout", "--quiet", "--orphan", "new")
    room.git("rm", "-r", "--cached", "--quiet", ".")
    room.write(branch="new")
    room.repo.write({"docs/new.md": "x", "n": "x"})
    room.git("add", "n", "docs/new.md")
    assert "n was added and is not in files_owned" in room.git("commit", "--message", "x").err
    room.git("rm", "--cached", "--quiet", "n")
    assert room.git("commit", "--message", "x").code == 0
