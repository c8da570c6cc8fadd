"""The server of a run of its own: it waits for a former one, one that keeps dying is told, and who
works there cannot become its operator."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from shiftboss.client.server_address import Server
from shiftboss.errors import Forbidden
from shiftboss.orchestrator.run import server_process
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.orchestrator.run.server_process import ServerDown, ServerOptions, answers, serving
from tests.repos import Repo
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]


def wish(folder: Path) -> ServerOptions:
    nowhere = Server("http://127.0.0.1:1", None)
    return ServerOptions(nowhere, str(folder / "shiftboss.db"), folder / "server.log", own=True)


def servers() -> list[int]:
    """Those of this process that live."""
    return [one.pid for one in psutil.Process().children() if _is_server(one)]


def _is_server(process: psutil.Process) -> bool:
    try:
        return "serve" in process.cmdline()
    except psutil.Error:
        return False


def environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text()
    except PermissionError:  # for root alone
        return ""


def contents(folder: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in folder.rglob("*") if one.is_file()}


async def test_it_waits_until_the_server_of_a_killed_run_has_let_go(tmp_path: Path) -> None:
    former = RunningServer(tmp_path / "shiftboss.db").start()
    board = Progress()

    async def use() -> bool:
        async with serving(wish(tmp_path), board) as served:
            return await answers(served.server)

    using = asyncio.create_task(use())
    try:
        await asyncio.wait((using,), timeout=1)
        assert not using.done()
        assert servers() == [], "it does not even try"
        former.stop()
        assert await using
    finally:
        former.close()
    assert servers() == []


async def test_one_that_dies_is_back_at_the_same_address(tmp_path: Path) -> None:
    board = Progress()
    async with serving(wish(tmp_path), board) as served:
        server = served.server
        (first,) = servers()
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: servers() not in ([], [first]), "there is another", 20)
        for _ in range(200):
            if await answers(server):
                break
            await asyncio.sleep(0.05)
        assert await answers(server)
        async with RunServerClient(server, "s", served.operator_token) as line:
            await line.create_swarm("Sums")
            await line.call("resume_swarm", operator=True)  # it has the same token as before
    assert list(board.lines) == ["the server has ended; starting it again"]


async def test_the_operators_token_is_where_no_agent_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFTBOSS_OPERATOR_TOKEN", "of-the-environment")
    tokens = []
    for given in (None, "of-the-operator"):
        wished = replace(wish(tmp_path), operator_token=given)
        async with serving(wished, Progress()) as served:
            token = served.operator_token
            assert token is not None
            (pid,) = servers()
            seen = f"{psutil.Process(pid).cmdline()} {environment(pid)} {wished} {served}"
            assert token not in seen
            assert "of-the-environment" not in seen
            async with RunServerClient(served.server, "s", token) as line:
                await line.create_swarm("Sums")
                await line.call("resume_swarm", operator=True)
            for wrong in (None, "of-the-environment"):
                async with RunServerClient(served.server, "s", wrong) as line:
                    with pytest.raises(Forbidden):
                        await line.call("resume_swarm", operator=True)
        files = contents(tmp_path)
        assert "receipt-key.pem" in files
        assert "operator-token" not in files
        assert not any(token.encode() in content for content in files.values())
        tokens.append(token)
    assert tokens[1] == "of-the-operator"
    assert len(tokens[0]) > 30


async def test_only_the_run_gives_tasks_their_contracts(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    task = {"bead_id": "t", "subtask_title": "T", "files": ["src/"], "repo": str(repo.path)}
    async with serving(wish(tmp_path), Progress()) as served:
        async with RunServerClient(served.server, "s") as agent:
            await agent.create_swarm("Sums")
            with pytest.raises(Forbidden, match="only the operator may spawn"):
                await agent.spawn(**task)
        async with RunServerClient(served.server, "s", served.operator_token) as run:
            assert (await run.spawn(**task))["bead_id"] == "t"


async def test_a_server_of_somebody_else_decides_itself_who_may_spawn(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    foreign = RunningServer(tmp_path / "shiftboss.db").start()
    wished = replace(wish(tmp_path), server=Server(foreign.url, None), own=False)
    try:
        async with serving(wished, Progress()) as served:
            assert served.operator_token is None
            async with RunServerClient(served.server, "s", served.operator_token) as line:
                await line.create_swarm("Sums")
                await line.spawn(
                    bead_id="t", subtask_title="T", files=["src/"], repo=str(repo.path)
                )
    finally:
        foreign.close()


async def test_whoever_uses_one_that_dies_again_and_again_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_process, "RESTARTS_MAX", 2)

    async def kill_each() -> None:
        while True:
            await eventually(servers, "there is another", 20)
            for pid in servers():
                os.kill(pid, signal.SIGKILL)

    async def use() -> None:
        async with serving(wish(tmp_path), Progress()):
            await kill_each()

    async with asyncio.timeout(60):
        with pytest.raises(ServerDown, match="2 times"):
            await use()
    assert servers() == []
