"""The server that a run starts: it waits for an earlier one, is restarted, and keeps its token."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from shiftboss.client.errors import ServerUnreachable
from shiftboss.client.http_client import HttpClient, ServerRequest
from shiftboss.client.server_address import Server
from shiftboss.client.servers import Servers
from shiftboss.errors import Forbidden, InvalidRequest, SchemaMismatch, UnknownRepo
from shiftboss.orchestrator.run import server_client, server_process
from shiftboss.orchestrator.run.progress import Progress
from shiftboss.orchestrator.run.run_server import server_for_run
from shiftboss.orchestrator.run.server_client import RunServerClient
from shiftboss.orchestrator.run.server_process import ServerDown, ServerOptions
from shiftboss.system.state_folder import read_server_file
from tests.repos import Repo
from tests.running import RunningServer
from tests.sqlite_files import make_sqlite_file
from tests.waiting import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("OWN-01")]


def options(folder: Path) -> ServerOptions:
    log = folder / "server.log"
    return ServerOptions(None, str(folder / "shiftboss.db"), folder, log, own=True)


async def is_reachable(server: Server | Servers) -> bool:
    try:
        await HttpClient(server).send(ServerRequest(path="/health"))
    except ServerUnreachable:
        return False
    return True


async def test_a_run_shares_the_one_of_several_servers_that_answers(tmp_path: Path) -> None:
    """The operator's token of this folder is for its own server, not for all that were named."""
    other = RunningServer(tmp_path / "shiftboss.db").start()
    servers = Servers.at(f"http://127.0.0.1:1,{other.url}")
    try:
        shared = replace(options(tmp_path), server=servers, own=False)
        async with server_for_run(shared, Progress()) as run_server:
            assert run_server.server.address == other.url
            assert run_server.operator_token is None
            async with RunServerClient(run_server.server, "s") as client:
                await client.create_swarm("Sums")
    finally:
        other.close()


@asynccontextmanager
async def client_of(run_options: ServerOptions) -> AsyncIterator[RunServerClient]:
    async with (
        server_for_run(run_options, Progress()) as found,
        RunServerClient(found.server, "s", found.operator_token) as client,
    ):
        yield client


def servers() -> list[int]:
    """The running servers that this process has started."""
    return [child.pid for child in psutil.Process().children() if _is_server(child)]


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
    return {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


async def test_a_run_waits_until_a_killed_runs_server_has_released_the_database(
    tmp_path: Path,
) -> None:
    earlier = RunningServer(tmp_path / "shiftboss.db").start()
    progress = Progress()

    async def use() -> bool:
        async with server_for_run(options(tmp_path), progress) as run_server:
            return await is_reachable(run_server.server)

    using = asyncio.create_task(use())
    try:
        waiting = f"waiting for another server to release {tmp_path / 'shiftboss.db'}"
        await eventually(lambda: waiting in progress.lines, "it waits")
        assert servers() == [], "it does not even try to start one"
        earlier.stop()
        assert await using
    finally:
        earlier.close()
    assert servers() == []


async def test_a_server_that_dies_is_restarted_at_the_same_address(tmp_path: Path) -> None:
    progress = Progress()
    async with server_for_run(options(tmp_path), progress) as run_server:
        server = run_server.server
        (first,) = servers()
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: servers() not in ([], [first]), "there is another", 20)
        for _ in range(200):
            if await is_reachable(server):
                break
            await asyncio.sleep(0.05)
        assert await is_reachable(server)
        async with RunServerClient(server, "s", run_server.operator_token) as client:
            await client.create_swarm("Sums")
            await client.call("resume_swarm", operator=True)  # the token is still the same
    assert list(progress.lines) == ["the server has exited; restarting it"]


async def test_no_agent_can_find_an_operators_token_that_the_user_has_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHIFTBOSS_OPERATOR_TOKEN", "of-the-environment")
    token = "of-the-operator"
    given_options = replace(options(tmp_path), operator_token=token)
    async with server_for_run(given_options, Progress()) as run_server:
        assert run_server.operator_token == token
        (pid,) = servers()
        seen = f"{psutil.Process(pid).cmdline()} {environment(pid)} {given_options} {run_server}"
        assert token not in seen
        assert "of-the-environment" not in seen
        async with RunServerClient(run_server.server, "s", token) as client:
            await client.create_swarm("Sums")
            await client.call("resume_swarm", operator=True)
        for wrong in (None, "of-the-environment"):
            async with RunServerClient(run_server.server, "s", wrong) as client:
                with pytest.raises(Forbidden):
                    await client.call("resume_swarm", operator=True)
    files = contents(tmp_path)
    assert "receipt-key.pem" in files
    assert "operator-token" not in files
    assert not any(token.encode() in content for content in files.values())


@pytest.mark.requirement("OWN-12")
async def test_a_run_and_serve_have_the_same_operators_token_in_a_folder(tmp_path: Path) -> None:
    async with server_for_run(options(tmp_path), Progress()) as run_server:
        token = run_server.operator_token
    file = tmp_path / "operator-token"
    assert (file.read_text(), file.stat().st_mode & 0o777) == (f"{token}\n", 0o600)
    serving = RunningServer(tmp_path / "shiftboss.db").start()
    try:
        async with server_for_run(replace(options(tmp_path), own=False), Progress()) as run_server:
            assert (run_server.server.address, run_server.operator_token) == (serving.url, token)
    finally:
        serving.close()


@pytest.mark.requirement("OWN-12")
async def test_a_run_continues_when_the_run_that_started_its_server_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The default port could be taken by the server of another test as soon as it is free.
    monkeypatch.setattr(server_process, "PORT", 0)
    progress = Progress()
    not_own = replace(options(tmp_path), own=False)
    async with AsyncExitStack() as first_run:
        first = await first_run.enter_async_context(server_for_run(not_own, Progress()))
        async with server_for_run(not_own, progress) as second:
            assert second.server.address == first.server.address
            assert second.operator_token == first.operator_token
            assert len(servers()) == 1
            await first_run.aclose()
            async with RunServerClient(second.server, "s", second.operator_token) as client:
                await client.create_swarm("Sums")
                await client.call("resume_swarm", operator=True)
    assert list(progress.lines) == ["the shared server has ended; starting one in its place"]
    assert servers() == []


@pytest.mark.requirement("OWN-12")
async def test_a_server_of_another_folder_is_left_alone(tmp_path: Path) -> None:
    """Both would like the default port; at most one gets it."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    async with (
        server_for_run(replace(options(one), own=False), Progress()) as first,
        server_for_run(replace(options(other), own=False), Progress()) as second,
    ):
        assert first.server != second.server
        assert first.operator_token != second.operator_token
        assert (read_server_file(one), read_server_file(other)) != (None, None)
    assert (read_server_file(one), read_server_file(other)) == (None, None)


async def test_only_the_run_can_spawn_tasks(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    task = {"bead_id": "t", "subtask_title": "T", "files": ["src/"], "repo": str(repo.path)}
    async with server_for_run(options(tmp_path), Progress()) as run_server:
        async with RunServerClient(run_server.server, "s") as agent:
            await agent.create_swarm("Sums")
            with pytest.raises(Forbidden, match="only the operator may spawn"):
                await agent.spawn(**task)
        async with RunServerClient(run_server.server, "s", run_server.operator_token) as run:
            assert (await run.spawn(**task))["bead_id"] == "t"


@pytest.mark.requirement("OWN-12")
async def test_an_agent_cannot_name_the_plan_that_the_operator_is_advised_to_run(
    tmp_path: Path,
) -> None:
    async with (
        server_for_run(options(tmp_path), Progress()) as run_server,
        RunServerClient(run_server.server, "s") as agent,
        RunServerClient(run_server.server, "s", run_server.operator_token) as run,
    ):
        await run.create_swarm("Sums")
        await run.report_run(Path("/plans/plan.yaml"), True)
        with pytest.raises(Forbidden, match="only the operator may run plans"):
            await agent.call("report_run", plan_file="/tmp/x.yaml")
        with pytest.raises(Forbidden, match="only the operator may run plans"):
            await agent.call("release_files")
        await run.call("add_task", bead_id="t", title="T")
        why = await run.call("why_task", bead_id="t")
        assert why["reasons"][0]["command"] == "shiftboss run /plans/plan.yaml"
        for path in ("plan.yaml", "/a\nb.yaml", "/" + "a" * 5000):
            with pytest.raises(InvalidRequest, match="plan_file"):
                await run.call("report_run", operator=True, plan_file=path)
        await run.release_files(["s-1"])


@pytest.mark.requirement("OWN-12")
async def test_a_plan_that_was_edited_raises_a_budget(tmp_path: Path) -> None:
    async with server_for_run(options(tmp_path), Progress()) as run_server:
        async with RunServerClient(run_server.server, "s", run_server.operator_token) as run:
            await run.create_swarm("Sums")
            await run.call("add_task", bead_id="t", title="T")
            for tokens in (100, 200):
                await run.set_budget(tokens=tokens)
                await run.set_budget(bead_id="t", tokens=tokens)
            kept = await run.set_budget(tokens=100)
            assert kept["budget"]["tokens"] == 200, "a budget of the operator stays"
        async with RunServerClient(run_server.server, "s") as agent:
            with pytest.raises(Forbidden, match="only the operator may raise a budget"):
                await agent.set_budget(tokens=300)


@pytest.mark.requirement("OWN-12")
async def test_a_run_that_may_not_spawn_is_told_what_to_do(tmp_path: Path) -> None:
    other = RunningServer(tmp_path / "other" / "shiftboss.db", spawning="operator").start()
    shared = replace(options(tmp_path), server=Server(other.url, None), own=False)
    token = (tmp_path / "other" / "operator-token").read_text().strip()
    task = {"bead_id": "t", "subtask_title": "T", "files": ["src/"], "repo": str(tmp_path)}
    try:
        for given in (None, "wrong"):
            async with client_of(replace(shared, operator_token=given)) as client:
                await client.create_swarm("Sums")
                with pytest.raises(Forbidden) as refusal:
                    await client.spawn(**task)
            assert "set SHIFTBOSS_OPERATOR_TOKEN to the token in" in str(refusal.value.hint)
        async with client_of(replace(shared, operator_token=token)) as client:
            with pytest.raises(UnknownRepo):  # it may
                await client.spawn(**task)
    finally:
        other.close()


async def test_a_server_that_was_already_running_decides_who_can_spawn(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    other = RunningServer(tmp_path / "shiftboss.db").start()
    elsewhere = tmp_path / "elsewhere"
    given_options = replace(
        options(tmp_path), state=elsewhere, server=Server(other.url, None), own=False
    )
    try:
        async with server_for_run(given_options, Progress()) as run_server:
            assert run_server.operator_token is None
            async with RunServerClient(run_server.server, "s", run_server.operator_token) as client:
                await client.create_swarm("Sums")
                await client.spawn(
                    bead_id="t", subtask_title="T", files=["src/"], repo=str(repo.path)
                )
    finally:
        other.close()


@pytest.mark.requirement("OWN-11")
async def test_a_run_says_that_the_shared_server_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_client, "OUTAGE_SECONDS", 0.0)
    lines: list[str] = []
    shared = RunningServer(tmp_path / "shiftboss.db").start()
    try:
        async with RunServerClient(Server(shared.url, None), "s", report=lines.append) as client:
            await client.create_swarm("Sums")
            shared.stop()
            calling = asyncio.create_task(client.call("list_tasks", after="", limit=1))
            await eventually(lambda: lines, "it has said so", 20)
            shared.start()
            await calling
    finally:
        shared.close()
    assert lines[0].startswith(f"no answer from {shared.url}: ")
    assert lines[0].endswith("; trying again")
    assert lines[1:] == [f"{shared.url} answers again"]


async def test_a_server_that_keeps_dying_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_process, "RESTARTS_MAX", 2)

    async def kill_each() -> None:
        while True:
            await eventually(servers, "there is another", 20)
            for pid in servers():
                os.kill(pid, signal.SIGKILL)

    async def use() -> None:
        async with server_for_run(options(tmp_path), Progress()):
            await kill_each()

    async with asyncio.timeout(60):
        with pytest.raises(ServerDown, match="2 times"):
            await use()
    assert servers() == []


async def test_a_run_ends_if_the_database_has_the_schema_of_another_build(tmp_path: Path) -> None:
    run_options = options(tmp_path)
    await asyncio.to_thread(make_sqlite_file, Path(run_options.database))
    async with client_of(run_options) as client:
        await client.create_swarm("g")
        connection = sqlite3.connect(run_options.database)
        connection.execute("DROP TABLE tasks")
        connection.close()
        async with asyncio.timeout(60):
            with pytest.raises(SchemaMismatch, match="no such table: tasks"):
                await client.call("list_tasks")
