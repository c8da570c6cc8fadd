"""A repository that keeps git or a command waiting holds up nobody else, and leaves nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from tests.acceptance.handoffs.handoffs import GATE
from tests.kill_with_parent import KillWithParent
from tests.repos import UNCONTAINED, Repo
from tests.waiting import eventually, wait_until

pytestmark = pytest.mark.requirement("HO-04")

FETCHING = """
import asyncio, sys
from pathlib import Path
from shiftboss.system.git import git

waiting = "--upload-pack=cat {pipe} #"
fetch = ["fetch", "--quiet", waiting, "--", "{repo}"]
asyncio.run(git(fetch, Path("{repo}"), environment={{"GIT_ALLOW_PROTOCOL": "file"}}))
"""


def repo_with_work(path: Path) -> Repo:
    repo = Repo(path)
    repo.base = repo.commit("set up", {"tools/gate.py": GATE})
    repo.commit("work", {"src/auth/login.py": "x = 1\n"})
    return repo


async def outcome(verifier: Verifier, job: VerificationJob) -> Verdict | EvidenceUnavailable:
    try:
        return await verifier.verify(job)
    except EvidenceUnavailable as error:
        return error


@pytest.mark.parametrize(
    "place", ["refs/heads/pipe", "packed-refs", "objects/info/alternates", "refs/heads/a/link"]
)
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.anyio
async def test_a_pipe_in_place_of_a_ref_is_found_before_git_blocks_on_it(
    tmp_path: Path, place: str, known: bool
) -> None:
    repo = repo_with_work(tmp_path / "repo")
    job = repo.job()
    verifier = Verifier(tmp_path / "verifier")
    if known:
        assert isinstance(await outcome(verifier, job), Verdict)
    pipe = repo.path / ".git" / place
    pipe.parent.mkdir(exist_ok=True)
    if place.endswith("link"):
        os.mkfifo(tmp_path / "pipe")
        pipe.symlink_to(tmp_path / "pipe")
    else:
        os.mkfifo(pipe)
    async with asyncio.timeout(30):
        refused = await outcome(verifier, job)
    assert isinstance(refused, EvidenceUnavailable)
    assert f"{pipe} is neither a file nor a folder" in refused.detail
    await verifier.close()


@pytest.mark.anyio
async def test_a_slow_repository_does_not_occupy_every_slot(tmp_path: Path) -> None:
    slow, quick = repo_with_work(tmp_path / "slow"), repo_with_work(tmp_path / "quick")
    started, go = tmp_path / "started", tmp_path / "go"
    gate = f"Command passes: python3 tools/gate.py {started} {go}"
    waiting = slow.job(criteria=[gate], policy=UNCONTAINED)
    verifier = Verifier(tmp_path / "verifier", at_once=2)
    claims = [asyncio.create_task(verifier.verify(waiting)) for _ in range(3)]
    try:
        await eventually(started.exists, "the first of them runs", seconds=30)
        async with asyncio.timeout(30):
            assert (await verifier.verify(quick.job())).accepted
        assert not any(claim.done() for claim in claims)
    finally:
        go.touch()
        verdicts = await asyncio.gather(*claims)
        await verifier.close()
    assert all(verdict.accepted for verdict in verdicts)


def test_no_git_process_outlives_a_killed_server(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = FETCHING.format(pipe=pipe, repo=repo.path)
    with subprocess.Popen([sys.executable, "-c", program]) as server:
        killer = KillWithParent(server.pid)
        wait_until(lambda: "cat" in _names_of(pipe), "git waits", seconds=30)
        server.kill()
        server.wait()
        killer.release()
    wait_until(lambda: not _names_of(pipe), "all of it is gone", seconds=30)


def _names_of(pipe: Path) -> list[str]:
    """The processes that have the pipe among their arguments, except their parent."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(pipe) in word for word in process.cmdline()[1:]):
                found.append(process.name())
        except psutil.Error:
            continue
    return [name for name in found if not name.startswith("python")]
