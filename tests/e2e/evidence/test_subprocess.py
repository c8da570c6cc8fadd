"""The evidence process of a server: it answers calls, is restarted, never outlives the server."""

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
from shiftboss.protocol.claims.verdicts import Verdict
from shiftboss.protocol.policy import CiPolicy
from shiftboss.system.processes.niceness import NICENESS
from tests.acceptance.handoffs.handoffs import GATE
from tests.kill_with_parent import KillWithParent
from tests.repos import UNCONTAINED, Repo
from tests.waiting import eventually, wait_until

pytestmark = pytest.mark.requirement("HO-04", "HO-05")

# A server that asks one question, at which git waits forever.
WAITING_SERVER = """
import asyncio, os, pathlib
os.environ["PATH"] = {programs!r} + os.pathsep + os.environ["PATH"]
from shiftboss.evidence.subprocess.proxy import EvidenceProxy
asyncio.run(EvidenceProxy(pathlib.Path({folder!r}), None).identity({repo!r}))
"""
WAITING_GIT = """#!/bin/sh
cat {pipe}
"""


class EvidenceSetup:
    """A repository with work, and a criterion whose command waits until it may end."""

    def __init__(self, folder: Path) -> None:
        self.repo = Repo(folder / "repo")
        self.repo.base = self.repo.commit("set up", {"tools/gate.py": GATE})
        self.repo.commit("work", {"src/auth/login.py": "def login():\n    return 1\n"})
        self.started, self.go = folder / "started", folder / "go"
        self.state, self.caches = folder / "state", folder / "caches"
        self.evidence = EvidenceProxy(self.state, None)

    def verifying(self) -> asyncio.Task[Verdict]:
        gate = f"Command passes: python3 tools/gate.py {self.started} {self.go}"
        return asyncio.create_task(
            self.evidence.verify(self.repo.job(criteria=[gate], policy=UNCONTAINED))
        )

    async def runs(self) -> None:
        await eventually(self.started.exists, "the command runs", seconds=30)

    def commands(self) -> list[psutil.Process]:
        return _with_word(str(self.started))

    def processes(self) -> list[psutil.Process]:
        return _with_word(str(self.state))


@pytest.fixture
async def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EvidenceSetup]:
    setup = EvidenceSetup(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(setup.caches))
    yield setup
    setup.go.touch()
    await setup.evidence.close()


@pytest.mark.anyio
async def test_calls_run_concurrently_in_a_process_started_by_the_first_call(
    setup: EvidenceSetup,
) -> None:
    assert setup.processes() == []
    verifying = setup.verifying()
    await setup.runs()
    async with asyncio.timeout(30):
        found = await setup.evidence.survey(str(setup.repo.path), None, ["src/auth/"], "t", "d")
    assert found.base_commit == setup.repo.head()
    assert await setup.evidence.commit_of(str(setup.repo.path), "nowhere") is None
    assert not verifying.done()
    (process,) = setup.processes()
    assert process.nice() == max(psutil.Process().nice(), NICENESS)
    # A service manager may signal all processes; only the server ends this one.
    process.terminate()
    setup.go.touch()
    assert (await verifying).accepted
    await setup.evidence.close()
    assert setup.processes() == []
    assert list(setup.caches.glob("shiftboss/checkouts/*/0/trash")) != []
    assert list(setup.caches.glob("shiftboss/checkouts/*/0/*/*")) == []


@pytest.mark.anyio
async def test_a_cancelled_call_leaves_nothing_behind(setup: EvidenceSetup) -> None:
    verifying = setup.verifying()
    await setup.runs()
    assert setup.commands()
    verifying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await verifying
    assert setup.commands() == []
    # The process remains for the next call. A child that it has just forked looks like it.
    await eventually(lambda: len(setup.processes()) == 1, "one process is left")
    before = setup.processes()
    assert await setup.evidence.commit_of(str(setup.repo.path), "HEAD") == setup.repo.head()
    await eventually(lambda: setup.processes() == before, "it is the same process")


@pytest.mark.anyio
async def test_a_call_can_be_cancelled_before_it_begins(setup: EvidenceSetup) -> None:
    asked = asyncio.create_task(setup.evidence.identity(str(setup.repo.path)))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    async with asyncio.timeout(30):
        for _ in range(20):
            asked = asyncio.create_task(setup.evidence.identity(str(setup.repo.path)))
            await asyncio.sleep(0)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        assert await setup.evidence.identity(str(setup.repo.path))


@pytest.mark.anyio
async def test_errors_are_passed_back_unchanged(setup: EvidenceSetup) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await setup.evidence.survey(str(setup.repo.path), "nowhere", ["src/"], "t", "d")
    assert refused.value.field == "base"
    assert refused.value.hint == "give a branch, a tag or a commit of the repo"
    demand = CiDemand(
        repo="r",
        repo_path=str(setup.repo.path),
        branch="main",
        policy=CiPolicy.model_validate({"jobs": {"test": {"run": ["true"]}}}),
    )
    with pytest.raises(CiUnavailable) as unknown:
        await setup.evidence.ci_report(demand, "0" * 40)
    assert unknown.value.facts["reason"] == "commit"
    assert unknown.value.retry_after_seconds > 0


@pytest.mark.anyio
@pytest.mark.requirement("CC-12")
async def test_a_local_ci_run_is_restarted_in_the_evidence_process(setup: EvidenceSetup) -> None:
    gate = f"python3 tools/gate.py {setup.started} {setup.go}"
    demand = CiDemand(
        repo="r",
        repo_path=str(setup.repo.path),
        branch="main",
        policy=CiPolicy.model_validate({"jobs": {"test": {"run": [gate]}}}),
    )
    sha = setup.repo.base
    assert await setup.evidence.restart_ci(demand, sha) is False, "there is no run yet"
    await setup.evidence.ci_report(demand, sha)
    await setup.runs()
    (first,) = setup.commands()
    setup.started.unlink()
    assert await setup.evidence.restart_ci(demand, sha) is True
    assert not first.is_running()
    await setup.runs()
    setup.go.touch()

    async def ended() -> bool:
        (run,) = (await setup.evidence.ci_report(demand, sha)).runs
        return (run.run_id, run.state) == ("2", "success")

    for _ in range(3000):
        if await ended():
            break
        await asyncio.sleep(0.01)
    assert await ended()
    assert await setup.evidence.restart_ci(demand, sha) is False, "nothing is under way"


@pytest.mark.anyio
async def test_after_the_process_is_killed_open_calls_fail_and_the_next_call_works(
    setup: EvidenceSetup,
) -> None:
    verifying = setup.verifying()
    await setup.runs()
    (process,) = setup.processes()
    process.kill()
    with pytest.raises(EvidenceUnavailable, match="was killed") as ended:
        await verifying
    assert ended.value.hint is not None
    await eventually(lambda: not setup.commands(), "its command is gone")
    setup.go.touch()
    assert (await setup.verifying()).accepted
    # It has the place of the dead one, and what that one had copied.
    assert [one.name for one in (setup.state / "verification").iterdir() if one.is_dir()] == ["0"]
    (after,) = setup.processes()
    assert after.pid != process.pid


@pytest.mark.anyio
async def test_two_servers_on_one_folder_use_separate_subfolders(setup: EvidenceSetup) -> None:
    setup.go.touch()
    other = EvidenceProxy(setup.state, None)
    try:
        verdicts = await asyncio.gather(setup.verifying(), other.verify(setup.repo.job()))
    finally:
        await other.close()
    assert all(verdict.accepted for verdict in verdicts)
    slots = sorted(one.name for one in (setup.state / "verification").iterdir() if one.is_dir())
    assert slots == ["0", "1"]


@pytest.mark.anyio
async def test_an_unusable_folder_is_reported_until_it_is_usable(setup: EvidenceSetup) -> None:
    in_the_way = setup.state / "verification"
    in_the_way.write_text("a file")
    for _ in range(2):
        with pytest.raises(EvidenceUnavailable, match="cannot use the folder"):
            await setup.evidence.identity(str(setup.repo.path))
        assert setup.processes() == []
    in_the_way.unlink()
    assert await setup.evidence.identity(str(setup.repo.path))
    await setup.evidence.close()
    with pytest.raises(EvidenceUnavailable, match="stopping"):
        await setup.evidence.identity(str(setup.repo.path))


@pytest.mark.parametrize("victim", ["server", "process"])
def test_no_evidence_or_git_process_outlives_a_server(tmp_path: Path, victim: str) -> None:
    repo, pipe = Repo(tmp_path / "repo"), tmp_path / "pipe"
    os.mkfifo(pipe)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text(WAITING_GIT.format(pipe=pipe))
    (programs / "git").chmod(0o755)
    state = str(tmp_path / "state")
    program = WAITING_SERVER.format(programs=str(programs), folder=state, repo=str(repo.path))
    with subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, text=True
    ) as server:
        killer = KillWithParent(server.pid)
        wait_until(lambda: _with_word(str(pipe)), "git waits", seconds=30)
        (process,) = [one for one in _with_word(state) if one.pid != server.pid]
        os.kill(server.pid if victim == "server" else process.pid, signal.SIGKILL)
        _, output = server.communicate(timeout=30)
        killer.release()
    wait_until(lambda: not _with_word(str(tmp_path)), "all of it is gone", seconds=30)
    assert ("EvidenceUnavailable" in output) == (victim == "process")


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
