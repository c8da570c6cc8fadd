"""Work trees of attempts: made, left in any state, salvaged and removed."""

from __future__ import annotations

import asyncio
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shiftboss.errors import MergeConflict, TreeUnavailable, UnknownRepo
from shiftboss.orchestrator.worktrees.worktrees import Worktree, Worktrees
from shiftboss.protocol.plan import PlanRepo
from tests.e2e.worktrees.worktree_fixtures import Ground, commit_in, run_in, user_settings

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]

_PLAN = PlanRepo(ports=["PORT", "DEBUG_PORT"])


@pytest.fixture
async def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ground]:
    for name, value in user_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    ground = Ground(tmp_path)
    yield ground
    await ground.trees.close()


async def test_a_tree_has_the_files_of_the_base_on_a_branch_of_its_own(ground: Ground) -> None:
    tree = await ground.make(environment={"MODE": "test"})
    assert tree.path == ground.folder / "trees" / "s" / "bd-1.1"
    assert (tree.path / "src/auth/login.py").is_file()
    assert run_in(tree.path, "git", "status", "--porcelain", "--branch").stdout == (
        "## shiftboss/bd-1\n"
    )
    assert (tree.start, tree.environment) == (ground.repo.base, {"MODE": "test"})
    assert ground.repo.git("status", "--porcelain") == ""
    assert await ground.trees.remove(tree) is None
    assert not tree.path.exists()
    assert ground.registered() == []
    assert "shiftboss/bd-1" not in ground.repo.git("branch")


async def test_a_branch_stays_until_the_target_has_it(ground: Ground) -> None:
    tree = await ground.make()
    commit = commit_in(tree.path, {"src/auth/login.py": "x = 1\n"})
    assert await ground.trees.remove(tree) is None
    assert ground.tip("shiftboss/bd-1") == commit
    ground.repo.git("merge", "--quiet", "--ff-only", commit)
    again = await ground.make(ground.assignment(epoch=2, base=commit))
    await ground.trees.remove(again)
    assert "shiftboss/bd-1" not in ground.repo.git("branch")


async def test_the_next_attempt_goes_on_or_begins_anew(ground: Ground) -> None:
    first = await ground.make()
    commit = commit_in(first.path, {"src/auth/login.py": "x = 1\n"})
    second = await ground.make(ground.assignment(epoch=2), carry_on=True)
    assert (second.start, second.salvaged) == (commit, ())
    assert not first.path.exists()
    third = await ground.make(ground.assignment(epoch=3, checkpoint={"files": []}))
    assert third.start == commit
    fourth = await ground.make(ground.assignment(epoch=4))
    assert fourth.start == ground.repo.base
    assert fourth.salvaged == ("refs/shiftboss/salvage/bd-1/1",)
    assert ground.refs() == {"refs/shiftboss/salvage/bd-1/1": commit}
    # A branch that does not have the base is not gone on with.
    moved = ground.repo.commit("moved", {"README.md": "# Moved\n"})
    commit_in(fourth.path, {"src/auth/login.py": "x = 2\n"})
    fifth = await ground.make(ground.assignment(epoch=5, base=moved), carry_on=True)
    assert fifth.start == moved
    assert len(ground.refs()) == 2


async def test_what_was_never_committed_is_salvaged(ground: Ground) -> None:
    ground.repo.base = ground.repo.commit("ignore", {".gitignore": "*.tmp\n"})
    tree = await ground.make()
    commit = commit_in(tree.path, {"src/auth/login.py": "x = 1\n"})
    (tree.path / "src/auth/login.py").write_text("x = 2\n")
    (tree.path / "new ü\nfile.py").write_text("y = 1\n")
    (tree.path / "left.tmp").write_text("not wanted")
    (tree.path / "README.md").unlink()
    (tree.path / "large.bin").write_bytes(b"\0" * (21 * 1024 * 1024))
    run_in(tree.path, "git", "init", "--quiet", "inner")
    ref = await ground.trees.salvage(tree)
    assert ref == "refs/shiftboss/salvage/bd-1/1"
    assert ground.repo.git("rev-parse", f"{ref}^") == commit
    assert ground.text(ref, "src/auth/login.py") == "x = 2"
    assert ground.text(ref, "new ü\nfile.py") == "y = 1"
    files = ground.repo.git("ls-tree", "-r", "-z", "--name-only", ref).split("\0")
    assert not {"left.tmp", "README.md", "large.bin"} & set(files)
    assert "large.bin" in ground.repo.git("log", "-1", "--format=%B", ref)
    # The agent's own index is as it was, and the same again is the same salvage.
    assert "new" not in run_in(tree.path, "git", "diff", "--cached", "--name-only").stdout
    assert await ground.trees.remove(tree) == ref
    assert list(ground.refs()) == [ref]
    # Nothing temporary is left in the repository.
    left = {one.name for one in (ground.repo.path / ".git/shiftboss").iterdir()}
    assert left == {"trees.lock"}


async def test_commits_that_no_branch_holds_are_salvaged(ground: Ground) -> None:
    tree = await ground.make()
    dropped = commit_in(tree.path, {"src/auth/login.py": "x = 1\n"})
    run_in(tree.path, "git", "reset", "--quiet", "--hard", "HEAD~1")
    run_in(tree.path, "git", "checkout", "--quiet", "--detach")
    detached = commit_in(tree.path, {"src/auth/login.py": "x = 2\n"})
    ref = await ground.trees.remove(tree)
    assert ref is not None
    history = ground.repo.git("rev-list", ref).split()
    assert {dropped, detached} <= set(history)


async def test_a_tree_whose_agent_took_it_apart_is_salvaged_and_removed(ground: Ground) -> None:
    tree = await ground.make()
    commit = commit_in(tree.path, {"src/auth/login.py": "x = 1\n"})
    (tree.path / "kept.py").write_text("y = 1\n")
    (tree.path / ".git").unlink()
    locked = tree.path / "locked"
    locked.mkdir()
    (locked / "file").write_text("z")
    locked.chmod(0o500)
    tree.path.chmod(0o500)
    ref = await ground.trees.remove(tree)
    assert ref is not None
    assert ground.text(ref, "kept.py") == "y = 1"
    assert ground.tip("shiftboss/bd-1") == commit
    await ground.trees.close()
    assert list((ground.folder / "trees" / ".gone").iterdir()) == []


@pytest.mark.parametrize("how", ["gone", "empty", "link", "file"])
async def test_a_tree_that_is_not_there_any_more_is_no_trouble(ground: Ground, how: str) -> None:
    elsewhere = ground.folder / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (elsewhere / "file").write_text("kept")
    tree = await ground.make()
    commit = commit_in(tree.path, {"src/auth/login.py": "x = 1\n"})
    run_in(tree.path.parent, "rm", "-rf", str(tree.path))
    if how == "empty":
        tree.path.mkdir()
    elif how == "link":
        tree.path.symlink_to(elsewhere)
    elif how == "file":
        tree.path.write_text("")
    next_one = await ground.make(ground.assignment(epoch=2), carry_on=True)
    assert next_one.start == commit
    assert not tree.path.exists()
    assert not tree.path.is_symlink()
    assert (elsewhere / "file").read_text() == "kept"
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o755
    assert ground.refs() == {}


async def test_a_tree_that_two_want_to_remove_is_removed_once(ground: Ground) -> None:
    """An attempt that has ended, and the one after it, which clears the place."""
    tree = await ground.make()
    (tree.path / "draft.txt").write_text("half of it\n")
    refs = await asyncio.gather(*(ground.trees.remove(tree) for _ in range(4)))
    assert [ref for ref in refs if ref] == ["refs/shiftboss/salvage/bd-1/1"]
    assert not tree.path.exists()
    assert ground.registered() == []


async def test_a_tree_is_made_again_after_a_kill_at_any_step(ground: Ground) -> None:
    """What `git worktree add` and what comes after it leave behind when they are killed."""
    common = ground.repo.path / ".git"
    tree = await ground.make()
    reason = (tree.admin / "locked").read_text()
    index = (tree.admin / "index").read_bytes()
    for step, missing in enumerate(
        [("gitdir", "HEAD", "commondir", "index"), ("HEAD", "commondir", "index"), ("index",), ()]
    ):
        for name in missing:
            (tree.admin / name).unlink(missing_ok=True)
        if step == 0:
            run_in(tree.path.parent, "rm", "-rf", str(tree.path))
        if step == 2:
            (tree.path / "README.md").unlink()
            (tree.admin / "index.lock").write_bytes(index[:20])
        if step == 3:
            (common / "shiftboss" / "trees.lock").unlink()
        tree = await Worktrees(ground.folder / "trees").make(
            ground.assignment(epoch=1), _PLAN, ground.contract_file(ground.assignment())
        )
        assert (tree.admin / "locked").read_text() == reason
        assert (tree.path / "README.md").is_file()
        assert len(ground.registered()) == 1
    assert ground.refs() == {}


async def test_sweeping_removes_what_nobody_works_in(ground: Ground) -> None:
    alive = await ground.make(ground.assignment("bd-1"))
    left = await ground.make(ground.assignment("bd-2"))
    (left.path / "new.py").write_text("y = 1\n")
    other = await ground.make(ground.assignment("bd-3", swarm_id="other"))
    users = ground.folder / "mine"
    ground.repo.git("worktree", "add", "--quiet", str(users), "-b", "mine")
    stray = ground.folder / "trees" / "s" / "bd-9.1"
    stray.mkdir()
    foreign = stray.with_name("notes")
    foreign.mkdir()
    mark = ground.folder / "trees" / ".made" / "s" / stray.name
    mark.touch()
    fresh = Worktrees(ground.folder / "trees")
    refs = await fresh.sweep([ground.repo.path], "s", {"bd-1.1"})
    await fresh.close()
    assert refs == ["refs/shiftboss/salvage/bd-2/1"]
    assert [one.path.exists() for one in (alive, left, other)] == [True, False, True]
    assert not stray.exists()
    assert not mark.exists()
    assert foreign.is_dir()
    assert (users / "README.md").is_file()
    assert len(ground.registered()) == 3


async def test_what_others_keep_among_the_trees_stays(ground: Ground) -> None:
    folder = ground.folder / "trees"
    notes = [folder / "s" / "bd-1.1" / "mine", folder / "s" / "mine", folder / ".gone" / "mine"]
    for note in notes:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text("kept")
    with pytest.raises(TreeUnavailable, match="no work tree of ours") as refused:
        await ground.make()
    assert refused.value.field == "trees"
    await ground.trees.sweep([ground.repo.path], "s", [])
    await ground.trees.close()
    assert [note.read_text() for note in notes] == ["kept"] * 3
    assert ground.registered() == []


async def test_eight_trees_are_made_at_once(ground: Ground) -> None:
    others = Worktrees(ground.folder / "trees")  # another orchestrator
    rooms = [ground.trees, others]

    async def make(number: int) -> Worktree:
        assignment = ground.assignment(f"bd-{number}")
        return await rooms[number % 2].make(assignment, _PLAN, ground.contract_file(assignment))

    made = await asyncio.gather(*(make(number) for number in range(8)))
    assert len(ground.registered()) == 8
    assert all((one.path / "README.md").is_file() for one in made)
    ports = [one.environment[name] for one in made for name in ("PORT", "DEBUG_PORT")]
    assert len(set(ports)) == 16
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", int(port)))
    await asyncio.gather(*(rooms[index % 2].remove(one) for index, one in enumerate(made)))
    assert ground.registered() == []
    await others.close()


async def test_files_that_git_does_not_know_are_copied(ground: Ground) -> None:
    secret = ground.repo.path / "conf" / ".env"
    secret.parent.mkdir()
    secret.write_text("KEY=hidden\n")
    secret.chmod(0o600)
    tree = await ground.make(copy=["conf/.env"])
    copied = tree.path / "conf" / ".env"
    assert copied.read_text() == "KEY=hidden\n"
    assert stat.S_IMODE(copied.stat().st_mode) == 0o600
    # Git passes it over in this tree, and so it is in no commit, not even a salvaged one.
    assert run_in(tree.path, "git", "status", "--porcelain").stdout == ""
    assert await ground.trees.remove(tree) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../outside", "leads out"),
        ("/etc/hostname", "leads out"),
        ("link", "leads out"),
        ("linked/outside", "leads out"),
        (".git/config", "git's own"),
        ("missing", "is not in"),
        ("src", "not a file"),
        ("README.md", "git has a file"),
    ],
)
async def test_nothing_else_is_copied(ground: Ground, name: str, reason: str) -> None:
    (ground.folder / "outside").write_text("not yours")
    (ground.repo.path / "link").symlink_to(ground.folder / "outside")
    (ground.repo.path / "linked").symlink_to(ground.folder)
    with pytest.raises(TreeUnavailable, match=reason) as refused:
        await ground.make(copy=[name])
    assert refused.value.field == "copy"
    assert ground.registered() == []
    assert list((ground.folder / "trees" / "s").iterdir()) == []


async def test_set_up_commands_are_run_in_the_tree(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFTBOSS_TOKEN", "secret")
    words = "import os; open('made', 'w').write(' '.join(sorted(os.environ)) + os.environ['MODE'])"
    tree = await ground.make(setup=[f'python3 -c "{words}"'], environment={"MODE": "test"})
    seen = (tree.path / "made").read_text()
    assert seen.endswith("test")
    assert "SHIFTBOSS_TOKEN" not in seen
    failing = "python3 -c \"print('no such package'); raise SystemExit(3)\""
    with pytest.raises(TreeUnavailable) as refused:
        await ground.make(ground.assignment("bd-2"), setup=[failing])
    assert "exit code 3" in refused.value.detail
    assert "no such package" in refused.value.detail
    assert failing in refused.value.detail
    assert len(ground.registered()) == 1


async def test_what_cannot_be_made_is_said(ground: Ground) -> None:
    with pytest.raises(UnknownRepo):
        await ground.make(ground.assignment(repo=ground.folder / "nowhere"))
    with pytest.raises(TreeUnavailable, match="base") as refused:
        await ground.make(ground.assignment(base="0" * 40))
    assert refused.value.field == "base"
    with pytest.raises(TreeUnavailable, match="main"):
        await ground.make(ground.assignment(branch="main"))
    assert ground.registered() == []
    assert ground.tip() == ground.repo.base


async def test_a_bare_repository_has_trees_too(ground: Ground) -> None:
    bare = ground.folder / "bare.git"
    ground.repo.git("clone", "--quiet", "--bare", str(ground.repo.path), str(bare))
    tree = await ground.make(ground.assignment(repo=bare))
    commit_in(tree.path, {"src/auth/login.py": "x = 1\n"})
    assert run_in(bare, "git", "rev-parse", "--is-bare-repository").stdout.strip() == "true"
    inside = run_in(tree.path, "git", "rev-parse", "--is-bare-repository").stdout.strip()
    assert inside == "false"
    await ground.trees.remove(tree)
    assert run_in(bare, "git", "fsck").returncode == 0


async def test_a_base_has_the_accepted_work_that_has_not_landed(ground: Ground) -> None:
    one = ground.work("bd-1", {"src/auth/login.py": "x = 1\n"})
    two = ground.work("bd-2", {"src/auth/names.py": "y = 1\n"})
    repo = ground.repo.path
    assert await ground.trees.base_for(repo, "main", []) == ground.repo.base
    assert await ground.trees.base_for(repo, "main", [one]) == one
    both = await ground.trees.base_for(repo, "main", [one, two])
    assert ground.text(both, "src/auth/login.py") == "x = 1"
    assert ground.text(both, "src/auth/names.py") == "y = 1"
    assert await ground.trees.base_for(repo, "main", [one, two]) == both
    assert await ground.trees.base_for(repo, "main", [one, two, one]) == both
    against = ground.work("bd-3", {"src/auth/login.py": "x = 3\n"})
    with pytest.raises(MergeConflict) as refused:
        await ground.trees.base_for(repo, "main", [one, against])
    assert refused.value.facts == {"paths": ["src/auth/login.py"], "ours": one, "theirs": against}
    with pytest.raises(TreeUnavailable, match="no branch release"):
        await ground.trees.base_for(repo, "release", [])
