"""A checkout that is used for several runs is as clean for each as a new one."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.mirror.checkout import Checkout
from shiftboss.system.fast_import import (
    commit_start,
    forgotten_ref,
    printed_commit,
    written_file,
)
from tests.e2e.evidence.mutant_claims import MutantClaim
from tests.repos import Repo

pytestmark = pytest.mark.requirement("OWN-13")

SETUP = f'{sys.executable} -c \'open("built", "w").write("x")\''


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit("work", {"src/shop.py": "a = 1\n", "bin/run": "x\n"})
    return made


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "index"  # it has times
    }


def runs_after(
    tmp_path: Path, repo: Repo, *actions: Callable[[Checkout], object]
) -> list[tuple[Checkout, dict[str, bytes]]]:
    """The checkouts of a first run and of the runs after each action, with their files."""
    claim = MutantClaim(tmp_path, repo, setup=[SETUP])
    runs = []

    async def use() -> None:
        async with claim.mirror() as mirror, claim.reused(mirror) as reused:
            for action in (*actions, leave):
                async with reused.with_files({"src/shop.py": b"a = 2\n"}) as checkout:
                    runs.append((checkout.checkout, _contents(checkout.checkout.folder)))
                    action(checkout.checkout)

    asyncio.run(use())
    return runs


def leave(checkout: Checkout) -> None:
    """Nothing at all."""


def write_much(checkout: Checkout) -> None:
    """What tests leave behind: caches, reports, links that lead elsewhere."""
    (checkout.files / ".cache" / "deep").mkdir(parents=True)
    (checkout.files / ".cache" / "deep" / "x").write_text("x")
    (checkout.files / "src" / "stray.py").write_text("x")
    (checkout.files / "link").symlink_to(checkout.home)
    (checkout.home / "report").write_text("x")
    (checkout.home / "tmp" / "x").write_text("x")


def test_what_a_run_leaves_behind_is_removed(tmp_path: Path, repo: Repo) -> None:
    first, second = runs_after(tmp_path, repo, write_much)
    assert second == first
    assert first[1]["files/src/shop.py"] == b"a = 2\n"
    assert first[1]["files/built"] == b"x"


def change_unseen(checkout: Checkout) -> None:
    """The same length and the same modification time."""
    path = checkout.files / "README.md"
    state = path.stat()
    path.write_text("# Cost\n")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def replace_folder(checkout: Checkout) -> None:
    (checkout.files / "src").rename(checkout.home / "src")
    (checkout.files / "src").symlink_to(checkout.home / "src")


SPOILING: tuple[Callable[[Checkout], object], ...] = (
    change_unseen,
    replace_folder,
    lambda checkout: (checkout.files / "README.md").unlink(),
    lambda checkout: (checkout.files / "built").write_text("y"),
    lambda checkout: (checkout.files / "src/shop.py").write_text("a = 3\n"),
    lambda checkout: (checkout.files / "bin/run").chmod(0o755),
    lambda checkout: (checkout.files / ".git/config").write_text("[core]\n\tfsmonitor = ./x\n"),
    lambda checkout: (checkout.home / "tmp").rmdir(),
)


def test_a_run_that_changes_what_was_there_spoils_the_checkout(tmp_path: Path, repo: Repo) -> None:
    runs = runs_after(tmp_path, repo, *SPOILING)
    assert len({checkout for checkout, _ in runs}) == len(SPOILING) + 1
    assert all(files == runs[0][1] for _, files in runs)


def test_a_run_that_fails_spoils_the_checkout(tmp_path: Path, repo: Repo) -> None:
    async def use() -> None:
        claim = MutantClaim(tmp_path, repo)
        async with claim.mirror() as mirror, claim.reused(mirror) as reused:
            with pytest.raises(ZeroDivisionError):
                async with reused.with_files({}) as checkout:
                    raise ZeroDivisionError
            assert not checkout.checkout.folder.exists()

    asyncio.run(use())


def test_a_changed_file_is_newer_by_whole_seconds_and_restored_with_its_time(
    tmp_path: Path, repo: Repo
) -> None:
    """Python compares whole seconds to tell whether a compiled file is outdated."""

    async def times() -> list[int]:
        claim = MutantClaim(tmp_path, repo)
        taken = []
        async with claim.mirror() as mirror, claim.reused(mirror) as reused:
            for files in ({}, {"src/shop.py": b"a = 2\n"}, {}):
                async with reused.with_files(files) as checkout:
                    path = checkout.checkout.files / "src/shop.py"
                    taken.append(path.stat().st_mtime_ns)
        return taken

    before, changed, after = asyncio.run(times())
    assert changed - before >= 2 * 10**9
    assert after == before


def test_a_file_that_is_not_there_cannot_be_changed(tmp_path: Path, repo: Repo) -> None:
    async def use() -> None:
        claim = MutantClaim(tmp_path, repo)
        async with claim.mirror() as mirror, claim.reused(mirror) as reused:
            with pytest.raises(EvidenceUnavailable):
                async with reused.with_files({"no/such.py": b""}):
                    pass

    asyncio.run(use())


def test_a_variant_of_a_commit_differs_in_the_given_files_only(tmp_path: Path, repo: Repo) -> None:
    (repo.path / "bin/run").chmod(0o755)
    repo.commit("executable", {"with space.py": "a\n"})
    repo.on_main({"other.py": "b\n"})
    repo.git("merge", "--quiet", "--message", "merged\n\nwith main", "main")
    commit = repo.head()

    async def outputs() -> list[list[bytes]]:
        claim = MutantClaim(tmp_path, repo)
        async with claim.mirror() as mirror:
            files = {"bin/run": b"y\n", "with space.py": b"\xff\n\n"}
            variant = await mirror.variant(commit, files)
            return [
                (await mirror.output("git", *arguments)).splitlines()
                for arguments in (
                    ("diff-tree", "-r", "--name-only", commit, variant),
                    ("ls-tree", "--format=%(objectmode)", variant, "bin/"),
                    ("for-each-ref", "refs/variants/"),
                    ("log", "-1", "--format=%P %an %ad %cn %cd %B", commit),
                    ("log", "-1", "--format=%P %an %ad %cn %cd %B", variant),
                )
            ]

    changed, modes, refs, log, log_of_variant = asyncio.run(outputs())
    assert changed == [b"bin/run", b"with space.py"]
    assert modes == [b"100755"]
    assert refs == []
    assert log == log_of_variant


def test_a_variant_has_files_of_any_name(tmp_path: Path, repo: Repo) -> None:
    """Also new ones, and those in the place of links and folders."""
    names = ['"quoted".py', "line\nbreak.py", "back\\slash.py", "ümlaut.py", "new/file.py"]
    repo.write(dict.fromkeys([*names[:-1], "folder/file.py"], "a\n"))
    (repo.path / "link").symlink_to("folder")
    repo.commit("work")
    contents = {name: name.encode() for name in [*names, "link/file.py", "folder"]}

    async def files() -> dict[str, bytes]:
        claim = MutantClaim(tmp_path, repo)
        async with claim.mirror() as mirror:
            variant = await mirror.variant(repo.head(), contents)
            return {
                name: await mirror.output("a file", "cat-file", "blob", f"{variant}:{name}")
                for name in contents
            }

    assert asyncio.run(files()) == contents


def test_the_ref_of_a_variant_is_never_written(tmp_path: Path, repo: Repo) -> None:
    """So none is left, whenever the work on it is cancelled."""
    hook, written = repo.path / ".git" / "hooks" / "reference-transaction", tmp_path / "written"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ncat >> {written}\n")
    hook.chmod(0o755)

    def commit_on(ref: str, *end: bytes) -> str:
        people = [b"committer A <a@shiftboss.invalid> 1 +0000"]
        start = commit_start(ref, people, b"why", [repo.head().encode()])
        parts = [start, written_file("src/shop.py", b"a = 2\n"), printed_commit(), *end]
        return repo.git("fast-import", "--quiet", "--cat-blob-fd=1", stdin=b"".join(parts))

    variant = commit_on("refs/variants/a", forgotten_ref("refs/variants/a", len(repo.head())))
    assert repo.git("show", f"{variant}:src/shop.py") == "a = 2"
    assert variant not in written.read_text()
    assert variant == commit_on("refs/variants/b")
    assert variant in written.read_text()
