"""A landing process is killed while git writes the files of the user's checkout."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shiftboss.orchestrator.landing.work_landing import Landed, WorkLanding
from tests.e2e.worktrees.worktree_fixtures import Project, user_settings
from tests.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]

# A git filter that writes down its process group and waits for a file.
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
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name, value in user_settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    project = Project(tmp_path)
    project.repo.base = project.repo.commit("slow", {".gitattributes": "*.slow filter=slow\n"})
    (tmp_path / "filter.py").write_text(_FILTER)
    command = f"{sys.executable} {tmp_path / 'filter.py'} {tmp_path}"
    project.repo.git("config", "filter.slow.smudge", command)
    project.repo.git("config", "filter.slow.clean", "cat")
    return project


def _start(project: Project, commit: str) -> subprocess.Popen[bytes]:
    """Start a process that lands the commit, and wait until it reaches the slow file."""
    program = f"""\
import asyncio, pathlib
from shiftboss.orchestrator.landing.work_landing import AcceptedWork, WorkLanding
from shiftboss.protocol.handoffs import VerificationPolicy

folder = pathlib.Path({str(project.folder)!r})
repo = pathlib.Path({str(project.repo.path)!r})
work = AcceptedWork("bd-1", "work", repo, {commit!r}, "main", [], VerificationPolicy())
asyncio.run(WorkLanding(folder / "landing", folder / "state").land(work))
"""
    process = subprocess.Popen([sys.executable, "-c", program])
    wait_until((project.folder / "started").exists, "git has reached the slow file", 30)
    return process


def _work(project: Project) -> str:
    """Made in a clone: the files must be new to the checkout."""
    clone = project.folder / "clone"
    project.repo.git("clone", "--quiet", str(project.repo.path), str(clone))
    (clone / "early.py").write_text("x = 1\n")
    (clone / "late.slow").write_text("y = 1\n")
    (clone / "README.md").unlink()
    for arguments in (["add", "--all"], ["commit", "--quiet", "--message", "work of bd-1"]):
        subprocess.run(["git", *arguments], cwd=clone, check=True)
    project.repo.git("fetch", "--quiet", str(clone), "HEAD:refs/heads/shiftboss/bd-1")
    return project.tip("shiftboss/bd-1")


async def test_a_git_that_outlives_its_orchestrator_is_waited_for(project: Project) -> None:
    commit = _work(project)
    process = _start(project, commit)
    process.kill()
    process.wait(timeout=30)
    work_landing = WorkLanding(project.folder / "landing", project.folder / "state")
    second = asyncio.create_task(work_landing.land(project.accepted_work("bd-1", commit)))
    done, _ = await asyncio.wait([second], timeout=0.3)
    assert not done  # it waits until the git process of the first has exited
    (project.folder / "go").touch()
    assert await second == Landed(commit, "already")
    await work_landing.close()
    assert project.repo.git("status", "--porcelain") == ""


async def test_files_left_half_written_by_a_killed_git_are_restored(project: Project) -> None:
    commit = _work(project)
    process = _start(project, commit)
    process.kill()
    process.wait(timeout=30)
    os.killpg(int((project.folder / "started").read_text()), signal.SIGKILL)
    assert (project.repo.path / "early.py").exists()
    assert project.tip() == project.repo.base
    (project.folder / "go").touch()
    work_landing = WorkLanding(project.folder / "landing", project.folder / "state")
    assert await work_landing.land(project.accepted_work("bd-1", commit)) == Landed(
        commit, "fast_forward"
    )
    await work_landing.close()
    assert project.repo.git("status", "--porcelain") == ""
    assert (project.repo.path / "late.slow").read_text() == "y = 1\n"
