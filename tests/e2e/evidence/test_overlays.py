"""Files that are laid over those of a commit."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from shiftboss.errors import EvidenceUnavailable, UnwritableCheckout
from shiftboss.evidence.mirror.checkout import checkout_with_setup
from shiftboss.evidence.mirror.mirror import Mirrors
from shiftboss.evidence.mirror.overlays import Overlay, lay_over
from shiftboss.system.background_delete import BackgroundDelete
from tests.repos import Repo

pytestmark = pytest.mark.requirement("OWN-14")

ODD_NAME = 'tests/odd "name"\n.py'
SHOW_DIFFERENCE = ("git", "status", "--porcelain")


def test_committed_files_are_no_difference_and_leave_nothing_in_the_mirror(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    repo.commit("a link and a folder", {"kept.txt": "kept\n", "folder/file.txt": ""})
    (repo.path / "link").symlink_to("/")
    head = repo.commit("a link", {})
    files = {ODD_NAME: b"1\n", "link/inner.py": b"2\n", "folder": b"3\n", "secret.txt": b"x"}

    async def run() -> tuple[str, str, bytes, bool]:
        mirrors = Mirrors(tmp_path / "mirrors", [])
        mirror = await mirrors.of(str(repo.path))
        await mirror.refresh()
        deletion = BackgroundDelete(tmp_path / "checkouts")
        await deletion.open()
        before = {path for path in mirror.path.rglob("*") if path.is_file()}
        job = repo.job(policy={"setup": ["python3 -c \"open('secret.txt')\""]})
        async with checkout_with_setup(mirror, head, job, deletion, Overlay(files)) as checkout:
            assert checkout.failed_setup is None
            assert {name: (checkout.files / name).read_bytes() for name in files} == files
            status = await checkout.run(SHOW_DIFFERENCE)
            parents = await checkout.run(("git", "log", "--format=%s"))
        await deletion.close()
        after = {path for path in mirror.path.rglob("*") if path.is_file()}
        kept = await mirror.output("a file", "show", f"{head}:kept.txt")
        return status.output_tail, parents.output_tail, kept, before == after

    status, subjects, kept, is_same = asyncio.run(run())
    assert status == ""
    assert subjects.startswith("a link\n")
    assert (kept, is_same) == (b"kept\n", True)


def test_something_in_the_way_is_told_from_a_machine_that_lacks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnwritableCheckout):
        asyncio.run(lay_over(tmp_path, {"x" * 300: b""}))

    def full(_path: Path, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EvidenceUnavailable, match="No space left") as caught:
        asyncio.run(lay_over(tmp_path, {"file": b""}))
    assert not isinstance(caught.value, UnwritableCheckout)
