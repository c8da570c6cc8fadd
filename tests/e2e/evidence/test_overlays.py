"""Files that are laid over those of a commit."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path

import pytest

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.mirror.checkout import checkout_with_setup
from shiftboss.evidence.mirror.mirror import Mirrors
from shiftboss.evidence.mirror.overlays import Overlay, UnwritableCheckout, lay_over
from shiftboss.system.background_delete import BackgroundDelete
from tests.repos import Repo

pytestmark = pytest.mark.requirement("OWN-14")

ODD_NAMES = ['"quoted".py', "line\nbreak.py", "back\\slash.py", "ümlaut.py", "new/file.py"]
SETUP = "python3 -c \"open('new/file.py')\""
# What a worker's code could see of a commit.
SHOWN = (
    ("git", "status", "--porcelain"),
    ("git", "ls-tree", "--format=%(objectmode)", "HEAD", "bin/run"),
    ("git", "log", "--format=%P %an %ad %cn %cd %B"),
)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Its tip is a merge, and has a program, a link and a folder."""
    repo = Repo(tmp_path / "repo")
    repo.write(dict.fromkeys([*ODD_NAMES[:-1], "folder/file.py", "bin/run"], "a\n"))
    (repo.path / "bin/run").chmod(0o755)
    (repo.path / "link").symlink_to("folder")
    repo.commit("work")
    repo.on_main({"other.py": "b\n"})
    repo.git("merge", "--quiet", "--message", "merged\n\nwith main", "main")
    return repo


def test_committed_files_are_no_difference_and_leave_nothing_in_the_mirror(
    tmp_path: Path, repo: Repo
) -> None:
    """Files of any name, new ones, and those in the place of links and folders."""
    names = [*ODD_NAMES, "link/file.py", "folder", "bin/run"]
    files = {name: name.encode() + b"\xff" for name in names}

    async def shown() -> list[str]:
        mirror = await Mirrors(tmp_path / "mirrors", hidden=()).of(str(repo.path))
        await mirror.refresh()
        deletion = BackgroundDelete(tmp_path / "checkouts")
        await deletion.open()
        before = set(mirror.path.rglob("*"))
        job = repo.job(policy={"setup": [SETUP]})
        overlay = Overlay(files)
        async with checkout_with_setup(mirror, repo.head(), job, deletion, overlay) as checkout:
            assert checkout.failed_setup is None
            assert {name: (checkout.files / name).read_bytes() for name in files} == files
            assert (checkout.files / "other.py").read_text() == "b\n"
            outputs = [(await checkout.run(argv)).output_tail for argv in SHOWN]
        await deletion.close()
        assert set(mirror.path.rglob("*")) == before
        return outputs

    status, mode, log = asyncio.run(shown())
    assert (status, mode) == ("", "100755\n")
    assert log.strip() == repo.git(*SHOWN[-1][1:]).strip()


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
