"""The server of a run of its own: it waits for a former one, and one that keeps dying is told."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from shiftboss.orchestrator import server_process
from shiftboss.orchestrator.board import Board
from shiftboss.orchestrator.server_process import ServerDown, ServerWish, answers, serving
from shiftboss.worker.server_address import Server
from tests.running import RunningServer
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]


def wish(folder: Path) -> ServerWish:
    nowhere = Server("http://127.0.0.1:1", None)
    return ServerWish(nowhere, str(folder / "shiftboss.db"), folder / "server.log", own=True)


def servers() -> list[int]:
    """Those of this process that live."""
    return [one.pid for one in psutil.Process().children() if _is_server(one)]


def _is_server(process: psutil.Process) -> bool:
    try:
        return "serve" in process.cmdline()
    except psutil.Error:
        return False


async def test_it_waits_until_the_server_of_a_killed_run_has_let_go(tmp_path: Path) -> None:
    former = RunningServer(tmp_path / "shiftboss.db").start()
    board = Board()

    async def use() -> bool:
        async with serving(wish(tmp_path), board) as server:
            return await answers(server)

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
    board = Board()
    async with serving(wish(tmp_path), board) as server:
        (first,) = servers()
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: servers() not in ([], [first]), "there is another", 20)
        for _ in range(200):
            if await answers(server):
                break
            await asyncio.sleep(0.05)
        assert await answers(server)
    assert list(board.lines) == ["the server has ended; starting it again"]


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
        async with serving(wish(tmp_path), Board()):
            await kill_each()

    async with asyncio.timeout(60):
        with pytest.raises(ServerDown, match="2 times"):
            await use()
    assert servers() == []
