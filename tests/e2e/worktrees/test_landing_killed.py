"""Whoever lands is killed while git writes the files of the user's checkout."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shiftboss.orchestrator.landing.landing import Landed, Landing
from tests.e2e.worktrees.worktree_fixtures import Ground, user_settings
from tests.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]

# A filter of git that says which group of processes it is in, and waits until it may go on.
_FILTER = """\
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / "new").write_text(str(os.getpgid(0)))
(folder / "new").rename(folder / "started")
for _ in range(3000):
    if (folder / "go").exists():
        break
    time.sleep(0.01)
sys.stdout.buffer.write(sys.stdin.buffer.read())
"""


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    for name, value in user_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    ground = Ground(tmp_path)
    ground.repo.base = ground.repo.commit("slow", {".gitattributes": "*.slow filter=slow\n"})
    (tmp_path / "filter.py").write_text(_FILTER)
    command = f"{sys.executable} {tmp_path / 'filter.py'} {tmp_path}"
    ground.repo.git("config", "filter.slow.smudge", command)
    ground.repo.git("config", "filter.slow.clean", "cat")
    return ground


def _start(ground: Ground, commit: str) -> subprocess.Popen[bytes]:
    """A process that lands the commit, as far as the slow file."""
    program = f"""\
import asyncio, pathlib
from shiftboss.orchestrator.landing.landing import Landable, Landing
from shiftboss.protocol.handoffs import VerificationPolicy

wanted = Landable("bd-1", "work", pathlib.Path({str(ground.repo.path)!r}), {commit!r}, "main", [],
                  VerificationPolicy())
asyncio.run(Landing(pathlib.Path({str(ground.folder / "landing")!r})).land(wanted))
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    wait_until((ground.folder / "started").exists, "git has come to the slow file", 30)
    return process


def _work(ground: Ground) -> str:
    """Made in a clone: the files of the work have to be new to the checkout."""
    clone = ground.folder / "clone"
    ground.repo.git("clone", "--quiet", str(ground.repo.path), str(clone))
    (clone / "early.py").write_text("x = 1\n")
    (clone / "late.slow").write_text("y = 1\n")
    (clone / "README.md").unlink()
    for words in (["add", "--all"], ["commit", "--quiet", "--message", "work of bd-1"]):
        subprocess.run(["git", *words], cwd=clone, check=True)
    ground.repo.git("fetch", "--quiet", str(clone), "HEAD:refs/heads/shiftboss/bd-1")
    return ground.tip("shiftboss/bd-1")


async def test_a_git_that_outlives_its_orchestrator_is_waited_for(ground: Ground) -> None:
    commit = _work(ground)
    process = _start(ground, commit)
    process.kill()
    process.wait(timeout=30)
    landing = Landing(ground.folder / "landing")
    second = asyncio.create_task(landing.land(ground.landable("bd-1", commit)))
    done, _ = await asyncio.wait([second], timeout=0.3)
    assert not done  # it has its turn when the git of the first has ended
    (ground.folder / "go").touch()
    assert await second == Landed(commit, "already")
    await landing.close()
    assert ground.repo.git("status", "--porcelain") == ""


async def test_what_a_killed_git_left_half_written_is_put_back(ground: Ground) -> None:
    commit = _work(ground)
    process = _start(ground, commit)
    process.kill()
    process.wait(timeout=30)
    os.killpg(int((ground.folder / "started").read_text()), signal.SIGKILL)
    assert (ground.repo.path / "early.py").exists()
    assert ground.tip() == ground.repo.base
    (ground.folder / "go").touch()
    landing = Landing(ground.folder / "landing")
    assert await landing.land(ground.landable("bd-1", commit)) == Landed(commit, "fast_forward")
    await landing.close()
    assert ground.repo.git("status", "--porcelain") == ""
    assert (ground.repo.path / "late.slow").read_text() == "y = 1\n"
