"""Connections to /mcp: access, disconnecting clients, and shutdown of the server."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.types import Message

from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.protocol.bus import RegisterWorkerRequest
from shiftboss.server.mcp.endpoint import McpEndpoint
from shiftboss.store.open_store import store_at
from tests.acceptance.mcp.mcp_clients import status_of
from tests.acceptance.mcp.mcp_posts import PLAIN, RANKED, REVISIONS, Poster, call_request, headers
from tests.client import NO_CERTIFICATES, Client
from tests.running import RunningServer
from tests.waiting import wait_until

every_path = pytest.mark.parametrize("accept", [PLAIN, RANKED], ids=["plain", "sdk"])
every_revision = pytest.mark.parametrize("revision", REVISIONS)

POLL = {"name": "z.ai1", "timeout_ms": 60_000}


def poll_body(revision: str) -> bytes:
    return json.dumps(call_request(revision, "poll_task", POLL)).encode()


@contextmanager
def parked_poll(url: str, accept: str, revision: str) -> Iterator[socket.socket]:
    """An open connection with a parked poll."""
    body = poll_body(revision)
    sent_headers = headers(revision, "poll_task") | {
        "Host": urlsplit(url).netloc,
        "Accept": accept,
        "Content-Length": str(len(body)),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in sent_headers.items())
    address = urlsplit(url)
    with closing(socket.create_connection((address.hostname, address.port), 10)) as connection:
        connection.sendall(f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body)
        yield connection


@pytest.mark.requirement("BUS-08")
@every_revision
@every_path
def test_the_poll_of_a_disconnected_client_is_cancelled(
    server: RunningServer, client: Client, accept: str, revision: str
) -> None:
    client.post("/bus/register_worker", {"name": "z.ai1"})
    with parked_poll(server.url, accept, revision):
        wait_until(lambda: status_of(client, "z.ai1") == "polling", "the poll is parked")
    wait_until(lambda: status_of(client, "z.ai1") == "idle", "the poll is gone")


@pytest.mark.requirement("BUS-08")
@every_revision
@every_path
def test_a_stopping_server_answers_parked_polls_and_exits(
    server: RunningServer, client: Client, accept: str, revision: str
) -> None:
    client.post("/bus/register_worker", {"name": "z.ai1"})
    with parked_poll(server.url, accept, revision) as connection:
        wait_until(lambda: status_of(client, "z.ai1") == "polling", "the poll is parked")
        started_at = time.monotonic()
        server.stop()
        assert time.monotonic() - started_at < 20
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b'"structuredContent":{"task":null,"timeout":true}' in answer.replace(b" ", b"")
    assert "Traceback" not in server.log


@pytest.mark.requirement("BUS-03")
@pytest.mark.anyio
async def test_a_long_poll_becomes_a_stream_that_is_kept_alive(sqlite_path: str) -> None:
    coordinator = Coordinator(store_at(sqlite_path))
    await coordinator.start()
    await coordinator.bus.register_worker(RegisterWorkerRequest(name="z.ai1"))
    endpoint = McpEndpoint(coordinator, keep_alive_seconds=0.02)
    exchange = Exchange(REVISIONS[-1])
    polling = asyncio.create_task(endpoint(exchange.scope, exchange.receive, exchange.send))
    async with asyncio.timeout(30):
        for _ in range(4):
            await exchange.sent.get()
        coordinator.hub.close()
        await polling
    await coordinator.stop()
    start, *parts, end = exchange.messages
    assert (b"content-type", b"text/event-stream") in start["headers"]
    assert {part["body"] for part in parts[:-1]} == {b": keep-alive\r\n\r\n"}
    event, data = parts[-1]["body"].decode().strip().split("\r\n")
    assert event == "event: message"
    message = json.loads(data.removeprefix("data: "))
    assert message["result"]["structuredContent"] == {"task": None, "timeout": True}
    assert not end.get("more_body")


class Exchange:
    """One HTTP exchange as an application sees it, with a client that stays connected."""

    def __init__(self, revision: str) -> None:
        sent_headers = headers(revision, "poll_task") | {"Accept": PLAIN, "Host": "127.0.0.1"}
        self.scope: dict[str, Any] = {
            "type": "http",
            "method": "POST",
            "scheme": "http",
            "headers": [
                (name.lower().encode(), value.encode()) for name, value in sent_headers.items()
            ],
        }
        self.messages: list[Message] = []
        self.sent: asyncio.Queue[Message] = asyncio.Queue()
        self._body: list[Message] = [{"type": "http.request", "body": poll_body(revision)}]

    async def receive(self) -> Message:
        if self._body:
            return self._body.pop()
        await asyncio.Event().wait()
        raise AssertionError("the client stays")

    async def send(self, message: Message) -> None:
        self.messages.append(message)
        self.sent.put_nowait(message)


@pytest.mark.requirement("BUS-01")
@every_path
@pytest.mark.parametrize(
    "foreign", [{"Host": "shiftboss.example"}, {"Origin": "http://shiftboss.example"}]
)
def test_a_web_page_cannot_call_tools_through_the_users_browser(
    server: RunningServer, accept: str, foreign: dict[str, str]
) -> None:
    with Poster(server.url, REVISIONS[0], accept) as poster:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
        answered = poster.post(body, headers(REVISIONS[0], "") | foreign)
    assert answered.status == 403
    assert answered.message["code"] == "forbidden"


@pytest.mark.requirement("BUS-01")
def test_with_a_token_every_call_needs_it(sqlite_path: str) -> None:
    with closing(RunningServer(sqlite_path, token="s3cret")) as server:
        server.start()
        with Poster(server.url, REVISIONS[0]) as poster:
            assert poster.call("get_status", {}).status == 401
        sent_headers = headers(REVISIONS[0], "") | {
            "Accept": PLAIN,
            "Authorization": "Bearer s3cret",
        }
        body = call_request(REVISIONS[0], "get_status", {})
        with httpx2.Client(base_url=server.url, trust_env=False, verify=NO_CERTIFICATES) as http:
            answer = http.post("/mcp", json=body, headers=sent_headers)
    assert answer.json()["result"]["structuredContent"]["workers"] == []


@pytest.mark.requirement("BUS-01")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_opening_a_stream_or_ending_a_session_is_refused(
    server: RunningServer, method: str
) -> None:
    with httpx2.Client(base_url=server.url, trust_env=False, verify=NO_CERTIFICATES) as http:
        answer = http.request(method, "/mcp", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 405
    assert answer.json()["hint"] == "use POST"


@pytest.mark.requirement("BUS-01")
def test_an_oversized_body_is_refused(server: RunningServer) -> None:
    with Poster(server.url, REVISIONS[0]) as poster:
        answered = poster.call("add_task", {"bead_id": "t", "title": "x" * 300_000})
    assert (answered.status, answered.message["code"]) == (413, "body_too_large")


@pytest.mark.requirement("BUS-01")
def test_the_server_starts_without_the_sdk() -> None:
    """It takes most of a second to import, and plain calls do not need it."""
    look = "import sys, shiftboss.server.run; print({'mcp', 'mcp_types'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "set()\n"
