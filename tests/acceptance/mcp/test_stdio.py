"""`shiftboss mcp`: the tools of a running server on standard input and output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.mcp.mcp_clients import status_of
from tests.client import Client
from tests.commands import COMMAND_SECONDS, environment
from tests.fork_server import forked_command
from tests.running import RunningServer
from tests.waiting import wait_until

NOBODY = "http://127.0.0.1:9"

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


class Process:
    """The command, used line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        self.send(message)
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer["id"] == message["id"]
        return answer

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        result: dict[str, Any] = self.answer(call(tool, **arguments))["result"]
        return result

    def close_input(self) -> int:
        """Wait until it exits by itself; returns the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(COMMAND_SECONDS)


def call(tool: str, **arguments: object) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


@contextmanager
def started(*arguments: str) -> Iterator[Process]:
    with subprocess.Popen(
        forked_command(["-m", "shiftboss.cli.main", "mcp", *arguments]),
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            spoken_to = Process(process)
            spoken_to.answer(INITIALIZE)
            spoken_to.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            yield spoken_to
        finally:
            process.kill()


@pytest.mark.requirement("BUS-01", "BUS-08")
def test_without_a_server_calls_fail_until_one_is_started(sqlite_path: str) -> None:
    with closing(RunningServer(sqlite_path)) as server:
        server.start()
        server.stop()
        with started("--server", server.url) as process:
            refused = process.call("register_worker", name="z.ai1")
            server.start()
            accepted = process.call("register_worker", name="z.ai1")
    assert refused["isError"] is True
    assert refused["structuredContent"]["code"] == "server_unreachable"
    assert server.url in refused["structuredContent"]["error"]
    assert "shiftboss serve" in refused["structuredContent"]["hint"]
    assert accepted["structuredContent"]["message"] == "Registered"


@pytest.mark.requirement("BUS-01")
def test_the_bridge_exits_when_its_input_closes() -> None:
    with started("--server", NOBODY) as process:
        assert process.close_input() == 0


@pytest.mark.requirement("BUS-08")
def test_the_bridge_can_exit_during_a_poll_and_the_poll_is_cancelled(
    server: RunningServer, client: Client
) -> None:
    client.post("/bus/register_worker", {"name": "z.ai1"})
    with started("--server", server.url) as process:
        process.send(call("poll_task", name="z.ai1", timeout_ms=60_000))
        wait_until(lambda: status_of(client, "z.ai1") == "polling", "the poll is parked")
        assert process.close_input() == 0
    wait_until(lambda: status_of(client, "z.ai1") == "idle", "the poll is gone")


@pytest.mark.requirement("BUS-01")
def test_the_bridge_sends_its_token_to_the_server(sqlite_path: str, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.touch(mode=0o600)
    token_file.write_text("s3cret\n")
    with closing(RunningServer(sqlite_path, token="s3cret")) as server:
        server.start()
        with started("--server", server.url) as process:
            refused = process.call("get_status")
        # Of several addresses it uses the one that answers. A new token is read from the file.
        urls = f"http://127.0.0.1:1,{server.url}"
        with started("--server", urls, "--token-file", str(token_file)) as process:
            accepted = [process.call("get_status")]
            server.stop()
            server.change(token="n3w")
            server.start()
            token_file.write_text("n3w\n")
            accepted.append(process.call("get_status"))
    assert refused["structuredContent"]["code"] == "unauthorized"
    assert [one["structuredContent"]["workers"] for one in accepted] == [[], []]


@pytest.mark.requirement("BUS-01")
def test_another_program_at_the_address_is_recognised(tmp_path: Path) -> None:
    """A server that answers, but not like ours."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as other:
        try:
            assert other.stdout is not None
            port = other.stdout.readline().split(" port ")[1].split()[0]
            with started("--server", f"http://127.0.0.1:{port}") as process:
                refused = process.call("get_status")
        finally:
            other.kill()
    assert refused["isError"] is True
    assert "501" in refused["structuredContent"]["error"]
