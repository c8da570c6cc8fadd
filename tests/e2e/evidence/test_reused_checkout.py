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
                    path = checkout.files / "src/shop.py"
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
