"""One git process answers what a verification asks about objects, and its verdict is the same."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from shiftboss.evidence.checks.commit import resolve_claim
from shiftboss.evidence.checks.scope import commit_range
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.evidence.mirror import object_reader
from shiftboss.evidence.mirror.mirror import BRANCHES, Mirror
from tests.repos import Repo, outcomes
from tests.verifying import verify
from tests.waiting import eventually

pytestmark = [pytest.mark.requirement("HO-04"), pytest.mark.anyio]

# A git that notes what it is asked. With OLD, it is one that has no --batch-command.
NOTING = """#!/bin/sh
echo "$*" >> '{log}'
case "{old}$*" in OLD*--batch-command*) echo "usage: git cat-file" >&2; exit 129;; esac
exec '{git}' "$@"
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo(tmp_path / "repo")


@pytest.fixture
async def mirror(tmp_path: Path, repo: Repo) -> AsyncIterator[Mirror]:
    mirror = Mirror(tmp_path / "mirror.git", str(repo.path / ".git"), ())
    await mirror.refresh()
    async with mirror.one_reader():
        yield mirror


def note_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, old: bool = False) -> Path:
    """The file in which every git is noted that is started from here on."""
    log, program = tmp_path / "git.log", tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(NOTING.format(log=log, git=shutil.which("git"), old="OLD" if old else ""))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return log


def commands(log: Path) -> list[str]:
    options = ("--no-pager ", "--literal-pathspecs ", "-c checkout.workers=1 ")
    lines = log.read_text().splitlines()
    for option in options:
        lines = [line.removeprefix(option) for line in lines]
    return [line.split()[0] for line in lines]


def processes() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # also of one that has just ended
            if "--batch-command" in child.cmdline():
                found.append(child)
    return found


def test_a_verification_starts_a_git_for_each_kind_of_question(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.on_main({"README.md": "# More sums\n"})
    repo.commit("work", {"src/auth/login.py": "x = 1\n", "src/auth/new.py": "y = 1\n"})
    verify(tmp_path, repo.job())
    log = note_git(tmp_path, monkeypatch)
    (verdict,) = verify(tmp_path, repo.job(criteria=["Command passes: true"]))
    assert verdict.accepted, verdict.violations
    assert commands(log) == [
        *("rev-parse", "fetch", "cat-file", "ls-tree", "diff-tree", "read-tree", "for-each-ref"),
    ]


def test_an_old_git_gives_the_same_verdict(
    tmp_path: Path, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        repo.commit("work", {"src/auth/login.py": f"x = {number}\n", "src/new.py": "y = 1\n"})
    (now,) = verify(tmp_path, repo.job())
    log = note_git(tmp_path, monkeypatch, old=True)
    (old,) = verify(tmp_path, repo.job())
    assert "cat-file --batch-check" in log.read_text()
    assert outcomes(now)["scope"] == "failed"
    assert old.model_copy(update={"duration_ms": now.duration_ms}) == now


async def test_answers_do_not_depend_on_the_process(repo: Repo, mirror: Mirror) -> None:
    blob = repo.git("rev-parse", "HEAD:src/auth/login.py").strip()
    names = [repo.base, "0" * 40, f"{BRANCHES}task", "", " x", "a\nb", "ä", blob, "x" * 5000]
    found = await mirror.look_up(names)
    assert [item is not None for item in found] == [
        *(True, False, True, False, False, False, False, True, False),
    ]
    contents = await mirror.read([blob, *names], 1000)
    (process,) = processes()
    process.kill()
    assert await mirror.look_up(names) == found
    assert await mirror.read([blob, *names], 1000) == contents
    assert contents[blob] == (repo.path / "src/auth/login.py").read_bytes()
    assert processes() == []


async def test_the_process_sees_what_is_fetched_while_it_runs(repo: Repo, mirror: Mirror) -> None:
    ref = f"{BRANCHES}task"
    before = repo.head()
    for pack in (False, True, False):
        after = repo.commit("more", {"src/auth/login.py": f"{before}\n"})
        (found, missing) = await mirror.look_up([ref, after])
        assert found is not None
        assert (found.id, missing) == (before, None)
        await mirror.refresh()
        if pack:
            await mirror.output("packing", "gc", "--quiet", "--prune=now")
        assert [item and item.id for item in await mirror.look_up([ref, after])] == [after] * 2
        assert (await mirror.read([f"{ref}:src/auth/login.py"], 1000)).popitem()[1] == (
            f"{before}\n".encode()
        )
        before = after
    repo.git("checkout", "--quiet", "main")
    repo.git("branch", "--quiet", "-D", "task")
    await mirror.refresh()
    assert await mirror.look_up([ref]) == [None]
    assert len(processes()) == 1


async def test_too_large_an_answer_is_not_read(
    mirror: Mirror, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_reader, "COMMIT_BYTES_MAX", 10)
    commit = repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    await mirror.refresh()
    assert await mirror.commits_since(repo.base, commit) is None
    assert await mirror.is_ancestor(repo.base, commit)
    assert not await mirror.is_ancestor(commit, repo.base)


async def test_a_short_history_is_walked_as_git_walks_it(mirror: Mirror, repo: Repo) -> None:
    first = repo.commit("first", {"src/auth/login.py": "x = 1\n"})
    landed = repo.on_main({"README.md": "# More\n"})
    repo.git("merge", "--quiet", "-m", "merge", "main")
    merge = repo.head()
    repo.git("checkout", "--quiet", "--orphan", "alone")
    root = repo.commit("root", {})
    await mirror.refresh()
    assert await mirror.commits_since(repo.base, repo.base) == {}
    assert await mirror.commits_since(repo.base, merge) == {
        merge: [first, landed],
        first: [repo.base],
        landed: [repo.base],
    }
    for base, commit in [(first, merge), (merge, first), (repo.base, root), (root, merge)]:
        assert await mirror.commits_since(base, commit) is None
    assert await mirror.is_ancestor(first, merge)
    assert not await mirror.is_ancestor(merge, first)
    assert not await mirror.is_ancestor(root, merge)


@pytest.mark.parametrize("case", ["line", "long", "target in it", "target beside it", "merge"])
async def test_the_commits_of_a_claim_are_those_that_git_lists(
    mirror: Mirror, repo: Repo, case: str
) -> None:
    for number in range(object_reader.WALK_STEPS_MAX + 2 if case == "long" else 3):
        repo.commit(f"step {number}", {"src/auth/login.py": f"x = {number}\n"})
        if number == 1 and case == "target in it":
            repo.git("branch", "--force", "main")
    if case in ("target beside it", "merge"):
        repo.on_main({"README.md": "# More\n"})
    if case == "merge":
        repo.git("merge", "--quiet", "-m", "merge", "main")
    await mirror.refresh()
    claim, _ = await resolve_claim(mirror, repo.job())
    walked = await commit_range(mirror, claim, claim.target)
    plain = Mirror(mirror.path, mirror.source, ())
    listed = await commit_range(plain, claim, claim.target)
    assert walked == listed
    assert list(walked.parents.items()) == list(listed.parents.items())


async def test_who_waits_when_the_reader_is_closed_gets_an_answer(
    tmp_path: Path, repo: Repo
) -> None:
    mirror = Mirror(tmp_path / "mirror.git", str(repo.path / ".git"), ())
    await mirror.refresh()
    async with mirror.one_reader():
        await mirror.look_up([repo.base])
        asked = [asyncio.ensure_future(mirror.look_up([repo.base] * 500)) for _ in range(3)]
        await asyncio.sleep(0)
    for answers in await asyncio.gather(*asked):
        assert {item and item.id for item in answers} == {repo.base}
    assert processes() == []


async def test_a_verification_that_is_cancelled_leaves_no_process(
    tmp_path: Path, repo: Repo
) -> None:
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    verifier = Verifier(tmp_path / "verifier")
    job = repo.job(criteria=["Command passes: sleep 600"])
    verifying = asyncio.ensure_future(verifier.verify(job))
    await eventually(processes, "git reads objects")
    verifying.cancel()
    await asyncio.wait([verifying])
    assert processes() == []
    await verifier.close()


@pytest.mark.parametrize("renamed", [False, True])
def test_a_single_commit_is_judged_like_several(tmp_path: Path, repo: Repo, renamed: bool) -> None:
    """Its changes are not asked for again, unless it has renamed a file."""
    if renamed:
        repo.git("mv", "src/lib/jwt.py", "src/auth/jwt.py")
    one = repo.commit("work", {"src/lib/new.py": "x = 1\n", "src/auth/login.py": "y = 1\n"})
    (single,) = verify(tmp_path, repo.job())
    repo.git("commit", "--quiet", "--allow-empty", "-m", "nothing")
    (several,) = verify(tmp_path, repo.job())
    assert one != several.commit
    paths = {violation.path for violation in single.violations}
    assert paths == {violation.path for violation in several.violations}
    assert paths == {"src/lib/new.py"} | ({"src/lib/jwt.py"} if renamed else set())


@pytest.mark.parametrize("branch", ["task", "main"])
def test_a_branch_that_moves_while_a_command_runs_is_noticed(
    tmp_path: Path, repo: Repo, branch: str
) -> None:
    landed = repo.on_main({"README.md": "# More\n"})
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    repo.git("merge", "--quiet", "-m", "merge", "main")
    moving = f"git -C {repo.path} update-ref refs/heads/{branch} {repo.base}"
    job = repo.job(
        criteria=[f"Command passes: {moving}"],
        accounted_commits=[landed],
        policy={"sandbox": "off"},
    )
    (verdict,) = verify(tmp_path, job)
    assert outcomes(verdict)["branch"] == "failed"
