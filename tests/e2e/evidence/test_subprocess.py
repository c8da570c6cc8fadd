"""The evidence process of a server: asked over one line, started anew, never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from shiftboss.errors import CiUnavailable, EvidenceUnavailable, InvalidRequest
from shiftboss.evidence.subprocess.proxy import EvidenceProxy
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.policy import CiPolicy
from shiftboss.protocol.verdicts import Verdict
from tests.acceptance.handoffs.handoffs import GATE
from tests.leash import Leash
from tests.repos import Repo
from tests.waiting import eventually, wait_until

pytestmark = pytest.mark.requirement("HO-04", "HO-05")

# A server that asks for one look, at which git waits for ever.
LOOKING = """
import asyncio, os, pathlib
os.environ["PATH"] = {programs!r} + os.pathsep + os.environ["PATH"]
from shiftboss.evidence.subprocess.proxy import EvidenceProxy
asyncio.run(EvidenceProxy(pathlib.Path({folder!r}), None).identity({repo!r}))
"""
WAITING_GIT = """#!/bin/sh
cat {pipe}
"""


class Room:
    """A repository with work on it, whose command waits until it may end."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repo(folder / "repo")
        self.repo.base = self.repo.commit("set up", {"tools/gate.py": GATE})
        self.repo.commit("work", {"src/auth/login.py": "def login():\n    return 1\n"})
        self.started, self.go = folder / "started", folder / "go"
        self.state, self.caches = folder / "state", folder / "caches"
        self.evidence = EvidenceProxy(self.state, None)

    def looking(self) -> asyncio.Task[Verdict]:
        gate = f"Command passes: python3 tools/gate.py {self.started} {self.go}"
        return asyncio.create_task(self.evidence.verify(self.repo.job(criteria=[gate])))

    async def runs(self) -> None:
        await eventually(self.started.exists, "the command runs", seconds=30)

    def commands(self) -> list[psutil.Process]:
        return _with_word(str(self.started))

    def processes(self) -> list[psutil.Process]:
        return _with_word(str(self.state))


@pytest.fixture
async def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Room]:
    room = Room(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(room.caches))
    yield room
    room.go.touch()
    await room.evidence.close()


@pytest.mark.anyio
async def test_looks_run_beside_each_other_in_a_process_that_the_first_one_starts(
    room: Room,
) -> None:
    assert room.processes() == []
    looking = room.looking()
    await room.runs()
    async with asyncio.timeout(30):
        found = await room.evidence.survey(str(room.repo.path), None, ["src/auth/"], "t", "d")
    assert found.base_commit == room.repo.head()
    assert await room.evidence.commit_of(str(room.repo.path), "nowhere") is None
    assert not looking.done()
    (process,) = room.processes()
    assert process.nice() > psutil.Process().nice()
    # Who stops a service may tell everybody; this one is the server's to end.
    process.terminate()
    room.go.touch()
    assert (await looking).accepted
    await room.evidence.close()
    assert room.processes() == []
    assert list(room.caches.glob("shiftboss/checkouts/*/0/trash")) != []
    assert list(room.caches.glob("shiftboss/checkouts/*/0/*/*")) == []


@pytest.mark.anyio
async def test_a_look_that_is_cancelled_leaves_nothing_behind(room: Room) -> None:
    looking = room.looking()
    await room.runs()
    assert room.commands()
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    assert room.commands() == []
    # The process is there for the next.
    before = room.processes()
    assert await room.evidence.commit_of(str(room.repo.path), "HEAD") == room.repo.head()
    assert room.processes() == before


@pytest.mark.anyio
async def test_one_that_is_cancelled_before_it_has_begun_is_no_harm(room: Room) -> None:
    asked = asyncio.create_task(room.evidence.identity(str(room.repo.path)))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    async with asyncio.timeout(30):
        for _ in range(20):
            asked = asyncio.create_task(room.evidence.identity(str(room.repo.path)))
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        assert await room.evidence.identity(str(room.repo.path))


@pytest.mark.anyio
async def test_errors_come_back_as_they_are(room: Room) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await room.evidence.survey(str(room.repo.path), "nowhere", ["src/"], "t", "d")
    assert refused.value.field == "base"
    assert refused.value.hint == "give a branch, a tag or a commit of the repo"
    demand = CiDemand(
        repo="r",
        repo_path=str(room.repo.path),
        branch="main",
        policy=CiPolicy.model_validate({"jobs": {"test": {"run": ["true"]}}}),
    )
    with pytest.raises(CiUnavailable) as unknown:
        await room.evidence.ci_report(demand, "0" * 40)
    assert unknown.value.facts["reason"] == "commit"
    assert unknown.value.retry_after_seconds > 0


@pytest.mark.anyio
@pytest.mark.requirement("CC-12")
async def test_a_run_of_the_local_ci_is_restarted_there(room: Room) -> None:
    gate = f"python3 tools/gate.py {room.started} {room.go}"
    demand = CiDemand(
        repo="r",
        repo_path=str(room.repo.path),
        branch="main",
        policy=CiPolicy.model_validate({"jobs": {"test": {"run": [gate]}}}),
    )
    sha = room.repo.base
    assert await room.evidence.restart_ci(demand, sha) is False, "there is no run yet"
    await room.evidence.ci_report(demand, sha)
    await room.runs()
    (first,) = room.commands()
    room.started.unlink()
    assert await room.evidence.restart_ci(demand, sha) is True
    assert not first.is_running()
    await room.runs()
    room.go.touch()

    async def ended() -> bool:
        (run,) = (await room.evidence.ci_report(demand, sha)).runs
        return (run.run_id, run.state) == ("2", "success")

    for _ in range(3000):
        if await ended():
            break
        await asyncio.sleep(0.01)
    assert await ended()
    assert await room.evidence.restart_ci(demand, sha) is False, "nothing is under way"


@pytest.mark.anyio
async def test_after_its_death_what_was_under_way_fails_and_the_next_look_works(
    room: Room,
) -> None:
    looking = room.looking()
    await room.runs()
    (process,) = room.processes()
    process.kill()
    with pytest.raises(EvidenceUnavailable, match="was killed") as ended:
        await looking
    assert ended.value.hint is not None
    await eventually(lambda: not room.commands(), "its command is gone")
    room.go.touch()
    assert (await room.looking()).accepted
    # It has the place of the dead one, and what that one had copied.
    assert [one.name for one in (room.state / "verification").iterdir() if one.is_dir()] == ["0"]
    (after,) = room.processes()
    assert after.pid != process.pid


@pytest.mark.anyio
async def test_two_servers_on_one_folder_keep_apart(room: Room) -> None:
    room.go.touch()
    other = EvidenceProxy(room.state, None)
    try:
        verdicts = await asyncio.gather(room.looking(), other.verify(room.repo.job()))
    finally:
        await other.close()
    assert all(verdict.accepted for verdict in verdicts)
    slots = sorted(one.name for one in (room.state / "verification").iterdir() if one.is_dir())
    assert slots == ["0", "1"]


@pytest.mark.anyio
async def test_a_folder_that_cannot_be_used_is_told_until_it_can(room: Room) -> None:
    in_the_way = room.state / "verification"
    in_the_way.write_text("a file")
    for _ in range(2):
        with pytest.raises(EvidenceUnavailable, match="cannot use the folder"):
            await room.evidence.identity(str(room.repo.path))
    in_the_way.unlink()
    assert await room.evidence.identity(str(room.repo.path))
    await room.evidence.close()
    with pytest.raises(EvidenceUnavailable, match="stopping"):
        await room.evidence.identity(str(room.repo.path))


@pytest.mark.parametrize("victim", ["server", "process"])
def test_no_process_and_no_git_outlives_a_server(tmp_path: Path, victim: str) -> None:
    repo, pipe = Repo(tmp_path / "repo"), tmp_path / "pipe"
    os.mkfifo(pipe)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(WAITING_GIT.format(pipe=pipe))
    (programs / "git").chmod(0o755)
    state = str(tmp_path / "state")
    program = LOOKING.format(programs=str(programs), folder=state, repo=str(repo.path))
    with subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True
    ) as server:
        leash = Leash(server.pid)
        wait_until(lambda: _with_word(str(pipe)), "git waits", seconds=30)
        (process,) = [one for one in _with_word(state) if one.pid != server.pid]
        os.kill(server.pid if victim == "server" else process.pid, signal.SIGKILL)
        _, told = server.communicate(timeout=30)
        leash.let_go()
    wait_until(lambda: not _with_word(str(tmp_path)), "all of it is gone", seconds=30)
    assert ("EvidenceUnavailable" in told) == (victim == "process")


def _with_word(word: str) -> list[psutil.Process]:
    """The processes that have it in an argument."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(word in argument for argument in process.cmdline()[1:]):
                found.append(process)
        except psutil.Error:
            continue
    return found
