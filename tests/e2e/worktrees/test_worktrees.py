"""Work trees of attempts: created, left in any state, salvaged and removed."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftboss.errors import MergeConflict, TreeUnavailable, UnknownRepo
from shiftboss.orchestrator.git.base_commit import base_commit
from shiftboss.orchestrator.worktrees.salvage import salvage_worktree
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.orchestrator.worktrees.worktree_folder import WorktreeFolder
from shiftboss.protocol.plan import PlanRepo
from tests.e2e.worktrees.worktree_fixtures import Project, commit_in, run_in, user_settings
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]

_PLAN = PlanRepo(ports=["PORT", "DEBUG_PORT"])


@pytest.fixture
async def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Project]:
    for name, value in user_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    project = Project(tmp_path)
    yield project
    await project.worktrees.close()


async def test_a_worktree_has_the_files_of_the_base_on_its_own_branch(project: Project) -> None:
    worktree = await project.create(environment={"MODE": "test"})
    assert worktree.path == project.folder / "trees" / "s" / "bd-1.1"
    assert (worktree.path / "src/auth/login.py").is_file()
    assert run_in(worktree.path, "git", "status", "--porcelain", "--branch").stdout == (
        "## shiftboss/bd-1\n"
    )
    assert (worktree.start, worktree.environment) == (project.repo.base, {"MODE": "test"})
    assert project.repo.git("status", "--porcelain") == ""
    assert await project.worktrees.remove(worktree) is None
    assert not worktree.path.exists()
    assert project.registered() == []
    assert "shiftboss/bd-1" not in project.repo.git("branch")


async def test_a_branch_stays_until_the_target_contains_it(project: Project) -> None:
    worktree = await project.create()
    commit = commit_in(worktree.path, {"src/auth/login.py": "x = 1\n"})
    assert await project.worktrees.remove(worktree) is None
    assert project.tip("shiftboss/bd-1") == commit
    project.repo.git("merge", "--quiet", "--ff-only", commit)
    again = await project.create(project.assignment(epoch=2, base=commit))
    await project.worktrees.remove(again)
    assert "shiftboss/bd-1" not in project.repo.git("branch")


async def test_the_next_attempt_continues_the_branch_or_starts_over(project: Project) -> None:
    first = await project.create()
    commit = commit_in(first.path, {"src/auth/login.py": "x = 1\n"})
    second = await project.create(project.assignment(epoch=2), continue_branch=True)
    assert (second.start, second.salvaged) == (commit, ())
    assert not first.path.exists()
    third = await project.create(project.assignment(epoch=3), continue_branch=True)
    assert third.start == commit
    # After a rejection, the checkpoint has the reason; it does not bring the commits back.
    fourth = await project.create(project.assignment(epoch=4, checkpoint={"start_over": True}))
    assert fourth.start == project.repo.base
    assert fourth.salvaged == ("refs/shiftboss/salvage/bd-1/1",)
    assert project.refs() == {"refs/shiftboss/salvage/bd-1/1": commit}
    # A branch that does not contain the base is not continued.
    moved = project.repo.commit("moved", {"README.md": "# Moved\n"})
    commit_in(fourth.path, {"src/auth/login.py": "x = 2\n"})
    fifth = await project.create(project.assignment(epoch=5, base=moved), continue_branch=True)
    assert fifth.start == moved
    assert len(project.refs()) == 2


async def test_uncommitted_changes_are_salvaged(project: Project) -> None:
    project.repo.base = project.repo.commit("ignore", {".gitignore": "*.tmp\n"})
    worktree = await project.create()
    commit = commit_in(worktree.path, {"src/auth/login.py": "x = 1\n"})
    (worktree.path / "src/auth/login.py").write_text("x = 2\n")
    (worktree.path / "new ü\nfile.py").write_text("y = 1\n")
    (worktree.path / "left.tmp").write_text("not wanted")
    (worktree.path / "README.md").unlink()
    (worktree.path / "large.bin").write_bytes(b"\0" * (21 * 1024 * 1024))
    run_in(worktree.path, "git", "init", "--quiet", "inner")
    ref = await salvage_worktree(worktree)
    assert ref == "refs/shiftboss/salvage/bd-1/1"
    assert project.repo.git("rev-parse", f"{ref}^") == commit
    assert project.text(ref, "src/auth/login.py") == "x = 2"
    assert project.text(ref, "new ü\nfile.py") == "y = 1"
    files = project.repo.git("ls-tree", "-r", "-z", "--name-only", ref).split("\0")
    assert not {"left.tmp", "README.md", "large.bin"} & set(files)
    assert "large.bin" in project.repo.git("log", "-1", "--format=%B", ref)
    # The agent's index has not changed, and the same files again give the same ref.
    assert "new" not in run_in(worktree.path, "git", "diff", "--cached", "--name-only").stdout
    assert await project.worktrees.remove(worktree) == ref
    assert list(project.refs()) == [ref]
    # Nothing temporary is left in the repository.
    left = {entry.name for entry in (project.repo.path / ".git/shiftboss").iterdir()}
    assert left == {"trees.lock"}


async def test_commits_on_no_branch_are_salvaged(project: Project) -> None:
    worktree = await project.create()
    dropped = commit_in(worktree.path, {"src/auth/login.py": "x = 1\n"})
    run_in(worktree.path, "git", "reset", "--quiet", "--hard", "HEAD~1")
    run_in(worktree.path, "git", "checkout", "--quiet", "--detach")
    detached = commit_in(worktree.path, {"src/auth/login.py": "x = 2\n"})
    ref = await project.worktrees.remove(worktree)
    assert ref is not None
    history = project.repo.git("rev-list", ref).split()
    assert {dropped, detached} <= set(history)


async def test_a_damaged_worktree_is_salvaged_and_removed(project: Project) -> None:
    worktree = await project.create()
    commit = commit_in(worktree.path, {"src/auth/login.py": "x = 1\n"})
    (worktree.path / "kept.py").write_text("y = 1\n")
    (worktree.path / ".git").unlink()
    locked = worktree.path / "locked"
    locked.mkdir()
    (locked / "file").write_text("z")
    locked.chmod(0o500)
    worktree.path.chmod(0o500)
    ref = await project.worktrees.remove(worktree)
    assert ref is not None
    assert project.text(ref, "kept.py") == "y = 1"
    assert project.tip("shiftboss/bd-1") == commit
    await project.worktrees.close()
    assert list((project.folder / "trees" / ".gone").iterdir()) == []


@pytest.mark.parametrize("how", ["gone", "empty", "link", "file"])
async def test_a_worktree_that_has_disappeared_is_replaced(project: Project, how: str) -> None:
    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (elsewhere / "file").write_text("kept")
    worktree = await project.create()
    commit = commit_in(worktree.path, {"src/auth/login.py": "x = 1\n"})
    run_in(worktree.path.parent, "rm", "-rf", str(worktree.path))
    if how == "empty":
        worktree.path.mkdir()
    elif how == "link":
        worktree.path.symlink_to(elsewhere)
    elif how == "file":
        worktree.path.write_text("")
    successor = await project.create(project.assignment(epoch=2), continue_branch=True)
    assert successor.start == commit
    assert not worktree.path.exists()
    assert not worktree.path.is_symlink()
    assert (elsewhere / "file").read_text() == "kept"
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755
    assert project.refs() == {}


async def test_a_worktree_removed_twice_at_once_is_salvaged_once(project: Project) -> None:
    """By an attempt that has ended and by the next one, which needs the path."""
    worktree = await project.create()
    (worktree.path / "draft.txt").write_text("half of it\n")
    refs = await asyncio.gather(*(project.worktrees.remove(worktree) for _ in range(4)))
    assert [ref for ref in refs if ref] == ["refs/shiftboss/salvage/bd-1/1"]
    assert not worktree.path.exists()
    assert project.registered() == []


async def test_a_worktree_is_created_again_after_a_kill_at_any_step(project: Project) -> None:
    """`git worktree add` and the steps after it leave these states when they are killed."""
    common = project.repo.path / ".git"
    worktree = await project.create()
    reason = (worktree.admin / "locked").read_text()
    index = (worktree.admin / "index").read_bytes()
    for step, missing in enumerate(
        [("gitdir", "HEAD", "commondir", "index"), ("HEAD", "commondir", "index"), ("index",), ()]
    ):
        for name in missing:
            (worktree.admin / name).unlink(missing_ok=True)
        if step == 0:
            run_in(worktree.path.parent, "rm", "-rf", str(worktree.path))
        if step == 2:
            (worktree.path / "README.md").unlink()
            (worktree.admin / "index.lock").write_bytes(index[:20])
        if step == 3:
            (common / "shiftboss" / "trees.lock").unlink()
        worktree = await WorktreeFolder(project.folder / "trees").create(
            project.assignment(epoch=1), _PLAN, project.contract_file(project.assignment())
        )
        assert (worktree.admin / "locked").read_text() == reason
        assert (worktree.path / "README.md").is_file()
        assert len(project.registered()) == 1
    assert project.refs() == {}


@pytest.mark.parametrize("turns", range(0, 60, 4))
async def test_nothing_is_left_of_a_worktree_that_was_cancelled_at_any_step(
    project: Project, turns: int
) -> None:
    path = project.folder / "trees" / "s" / "bd-1.1"
    creating = asyncio.create_task(project.create())
    if turns:
        await eventually(lambda: path.exists() or creating.done(), "git has begun")
    for _ in range(turns):
        await asyncio.sleep(0)
    creating.cancel()
    await asyncio.wait((creating,))
    assert creating.cancelled() or creating.result().path == path
    if creating.cancelled():
        assert not path.exists()
        assert project.registered() == []


async def test_sweep_removes_worktrees_that_are_not_in_use(project: Project) -> None:
    alive = await project.create(project.assignment("bd-1"))
    left = await project.create(project.assignment("bd-2"))
    (left.path / "new.py").write_text("y = 1\n")
    other = await project.create(project.assignment("bd-3", swarm_id="other"))
    users = project.folder / "mine"
    project.repo.git("worktree", "add", "--quiet", str(users), "-b", "mine")
    stray = project.folder / "trees" / "s" / "bd-9.1"
    stray.mkdir()
    foreign = stray.with_name("notes")
    foreign.mkdir()
    mark = project.folder / "trees" / ".made" / "s" / stray.name
    mark.touch()
    fresh = WorktreeFolder(project.folder / "trees")
    refs = await fresh.sweep([project.repo.path], "s", {"bd-1.1"})
    await fresh.close()
    assert refs == ["refs/shiftboss/salvage/bd-2/1"]
    assert [worktree.path.exists() for worktree in (alive, left, other)] == [True, False, True]
    assert not stray.exists()
    assert not mark.exists()
    assert foreign.is_dir()
    assert (users / "README.md").is_file()
    assert len(project.registered()) == 3


async def test_unrelated_files_among_the_worktrees_are_kept(project: Project) -> None:
    folder = project.folder / "trees"
    notes = [folder / "s" / "bd-1.1" / "mine", folder / "s" / "mine", folder / ".gone" / "mine"]
    for note in notes:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text("kept")
    with pytest.raises(TreeUnavailable, match="not a work tree of Shiftboss") as refused:
        await project.create()
    assert refused.value.field == "trees"
    await project.worktrees.sweep([project.repo.path], "s", [])
    await project.worktrees.close()
    assert [note.read_text() for note in notes] == ["kept"] * 3
    assert project.registered() == []


async def test_eight_worktrees_can_be_created_at_once(project: Project) -> None:
    others = WorktreeFolder(project.folder / "trees")  # another orchestrator
    folders = [project.worktrees, others]

    async def create(number: int) -> Worktree:
        assignment = project.assignment(f"bd-{number}")
        return await folders[number % 2].create(
            assignment, _PLAN, project.contract_file(assignment)
        )

    created = await asyncio.gather(*(create(number) for number in range(8)))
    assert len(project.registered()) == 8
    assert all((worktree.path / "README.md").is_file() for worktree in created)
    ports = [worktree.environment[name] for worktree in created for name in ("PORT", "DEBUG_PORT")]
    assert len(set(ports)) == 16
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", int(port)))
    await asyncio.gather(
        *(folders[index % 2].remove(worktree) for index, worktree in enumerate(created))
    )
    assert project.registered() == []
    await others.close()


async def test_listed_files_that_are_not_in_git_are_copied(project: Project) -> None:
    secret = project.repo.path / "conf" / ".env"
    secret.parent.mkdir()
    secret.write_text("KEY=hidden\n")
    secret.chmod(0o600)
    worktree = await project.create(copy=["conf/.env"])
    copied = worktree.path / "conf" / ".env"
    assert copied.read_text() == "KEY=hidden\n"
    assert stat.S_IMODE(copied.stat().st_mode) == 0o600
    # Git ignores it in this work tree, so it is in no commit, not even a salvaged one.
    assert run_in(worktree.path, "git", "status", "--porcelain").stdout == ""
    assert await project.worktrees.remove(worktree) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../outside", "leads out"),
        ("/etc/hostname", "leads out"),
        ("link", "leads out"),
        ("linked/outside", "leads out"),
        (".git/config", "belongs to git"),
        ("missing", "is not in"),
        ("src", "not a regular file"),
        ("README.md", "is in git"),
    ],
)
async def test_paths_that_may_not_be_copied_are_refused(
    project: Project, name: str, reason: str
) -> None:
    (project.folder / "outside").write_text("not yours")
    (project.repo.path / "link").symlink_to(project.folder / "outside")
    (project.repo.path / "linked").symlink_to(project.folder)
    with pytest.raises(TreeUnavailable, match=reason) as refused:
        await project.create(copy=[name])
    assert refused.value.field == "copy"
    assert project.registered() == []
    assert list((project.folder / "trees" / "s").iterdir()) == []


async def test_set_up_commands_run_in_the_worktree(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFTBOSS_TOKEN", "secret")
    values = "import os; open('made', 'w').write(' '.join(sorted(os.environ)) + os.environ['MODE'])"
    worktree = await project.create(setup=[f'python3 -c "{values}"'], environment={"MODE": "test"})
    seen = (worktree.path / "made").read_text()
    assert seen.endswith("test")
    assert "SHIFTBOSS_TOKEN" not in seen
    failing = "python3 -c \"print('no such package'); raise SystemExit(3)\""
    with pytest.raises(TreeUnavailable) as refused:
        await project.create(project.assignment("bd-2"), setup=[failing])
    assert "exit code 3" in refused.value.detail
    assert "no such package" in refused.value.detail
    assert failing in refused.value.detail
    assert len(project.registered()) == 1


async def test_impossible_assignments_are_refused(project: Project) -> None:
    with pytest.raises(UnknownRepo):
        await project.create(project.assignment(repo=project.folder / "nowhere"))
    with pytest.raises(TreeUnavailable, match="base") as refused:
        await project.create(project.assignment(base="0" * 40))
    assert refused.value.field == "base"
    with pytest.raises(TreeUnavailable, match="main"):
        await project.create(project.assignment(branch="main"))
    assert project.registered() == []
    assert project.tip() == project.repo.base


async def test_a_bare_repository_can_have_worktrees(project: Project) -> None:
    bare = project.folder / "bare.git"
    project.repo.git("clone", "--quiet", "--bare", str(project.repo.path), str(bare))
    worktree = await project.create(project.assignment(repo=bare))
    commit_in(worktree.path, {"src/auth/login.py": "x = 1\n"})
    assert run_in(bare, "git", "rev-parse", "--is-bare-repository").stdout.strip() == "true"
    inside = run_in(worktree.path, "git", "rev-parse", "--is-bare-repository").stdout.strip()
    assert inside == "false"
    await project.worktrees.remove(worktree)
    assert run_in(bare, "git", "fsck").returncode == 0


async def test_a_base_contains_accepted_work_that_has_not_landed(project: Project) -> None:
    one = project.work("bd-1", {"src/auth/login.py": "x = 1\n"})
    two = project.work("bd-2", {"src/auth/names.py": "y = 1\n"})
    repo = project.repo.path
    assert await base_commit(repo, "main", []) == project.repo.base
    assert await base_commit(repo, "main", [one]) == one
    both = await base_commit(repo, "main", [one, two])
    assert project.text(both, "src/auth/login.py") == "x = 1"
    assert project.text(both, "src/auth/names.py") == "y = 1"
    assert await base_commit(repo, "main", [one, two]) == both
    assert await base_commit(repo, "main", [one, two, one]) == both
    against = project.work("bd-3", {"src/auth/login.py": "x = 3\n"})
    with pytest.raises(MergeConflict) as refused:
        await base_commit(repo, "main", [one, against])
    assert refused.value.facts == {"paths": ["src/auth/login.py"], "ours": one, "theirs": against}
    with pytest.raises(TreeUnavailable, match="no branch release"):
        await base_commit(repo, "release", [])
