"""The fast path answers ordinary calls without ASGI. Clients cannot tell: with and without it, the
same requests get the same bytes."""

from __future__ import annotations

import json
import re
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import psutil
import pytest

from tests.client import ANSWER_SECONDS, Client
from tests.running import RunningServer
from tests.waiting import wait_until

pytestmark = pytest.mark.requirement("BUS-01")


class Reply(NamedTuple):
    status: int
    body: Any


class RawConnection:
    """One connection, byte by byte."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self.host = address.netloc
        self.socket = socket.create_connection((address.hostname, address.port), ANSWER_SECONDS)
        self._file = self.socket.makefile("rb")

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.socket.sendall(part)

    def request(
        self, path: str, body: bytes, *lines: str, version: str = "1.1", method: str = "POST"
    ) -> bytes:
        is_chunked = any("chunked" in line for line in lines)
        length = [] if is_chunked else [f"Content-Length: {len(body)}"]
        if not any(line.startswith("Content-Type") for line in lines):
            length.append("Content-Type: application/json")
        head = [f"{method} {path} HTTP/{version}", f"Host: {self.host}", *length, *lines]
        return "\r\n".join([*head, "", ""]).encode() + body

    def raw_reply(self) -> bytes:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self._file.readline()
            assert line, f"the connection was closed after {head!r}"
            head += line
        length = re.search(rb"\ncontent-length: (\d+)\r", head)
        return head + self._file.read(int(length[1]) if length else 0)

    def reply(self) -> Reply:
        head, _, body = self.raw_reply().partition(b"\r\n\r\n")
        return Reply(int(head.split()[1]), json.loads(body) if body else None)

    def is_closed(self) -> bool:
        return self._file.read() == b""


REGISTER = b'{"name":"w"}'
BAD = b'{"name":""}'


@pytest.fixture(params=[True, False], ids=["fast path", "plain ASGI"])
def server(sqlite_path: str, request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    running = RunningServer(sqlite_path, fast_path=request.param)
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture
def raw(server: RunningServer) -> Iterator[RawConnection]:
    with closing(RawConnection(server.url)) as raw:
        yield raw


def packet_of(**members: object) -> bytes:
    return json.dumps({"packet_id": 1, **members}).encode()


PROGRESS = packet_of(
    task_id="1", task_name="one", status="completed", tasks_completed=1, tasks_total=2
)
# In order: a cycle of the bus, the reports of a packet, and every kind of refusal.
EXCHANGES: list[tuple[str, str, bytes, list[str]]] = [
    ("POST", "/bus/register_worker", REGISTER, []),
    ("POST", "/bus/register_worker", REGISTER, []),
    ("POST", "/bus/register_worker", BAD, []),
    ("POST", "/bus/regi%73ter_worker", REGISTER, []),
    ("POST", "/bus/add_task", b'{"bead_id":"t","title":"T"}', ["Idempotency-Key: 1"]),
    ("POST", "/bus/add_task", b'{"bead_id":"t","title":"T"}', ["Idempotency-Key: 1"]),
    ("POST", "/bus/add_task", b'{"bead_id":"t","title":"U"}', ["Idempotency-Key: 1"]),
    ("POST", "/bus/submit_task", b'{"bead_id":"t"}', []),
    ("POST", "/bus/poll_task", b'{"name":"w"}', []),
    ("POST", "/bus/ack_task", b'{"name":"w","bead_id":"t"}', []),
    ("POST", "/bus/ack_task", b'{"name":"v","bead_id":"t"}', []),
    ("POST", "/bus/heartbeat", b'{"name":"w"}', []),
    ("POST", "/bus/worker_done", b'{"bead_id":"t"}', []),
    ("POST", "/bus/worker_done", b'{"bead_id":"t"}', []),
    ("POST", "/bus/poll_task", b'{"name":"w","timeout_ms":0}', []),
    ("POST", "/bus/poll_task", b'{"name":"w","timeout_ms":1}', []),
    ("POST", "/bus/poll_task", b'{"name":"nobody","timeout_ms":0}', []),
    ("POST", "/bus/show_task", b'{"bead_id":"nothing"}', []),
    ("POST", "/bus/list_tasks", b"", []),
    ("POST", "/bus/ack_task", b"not json", []),
    ("POST", "/bus/ack_task", REGISTER, ["Idempotency-Key: " + "x" * 201]),
    ("POST", "/bus/ack_task", REGISTER, ["Origin: http://evil.example"]),
    ("POST", "/bus/ack_task", REGISTER, ["Origin: http://localhost:3000"]),
    ("POST", "/bus/ack_task", REGISTER, ["Host: 127.0.0.1"]),
    ("POST", "/bus/ack_task", REGISTER, ["Content-Type: text/plain"]),
    ("POST", "/bus/ack_task", REGISTER, [f"X-{number}: x" for number in range(100)]),
    ("POST", "/bus/ack_task", REGISTER + b" " * 300_000, []),
    ("POST", "/bus/list_tasks", b"{}", ["Connection: close"]),
    ("GET", "/bus/list_tasks", b"", []),
    ("GET", "/nothing", b"", []),
    ("POST", "/swarm/create", b'{"swarm_id":"s"}', []),
    ("POST", "/swarm/s/register", packet_of(packet_name="p", tasks_total=2, worktree="/w"), []),
    ("POST", "/swarm/s/progress", PROGRESS, []),
    ("POST", "/swarm/s/progress", PROGRESS, []),
    ("POST", "/swarm/no-such/progress", PROGRESS, []),
    ("POST", "/swarm/no-such/progress", b"{}", []),
    ("POST", "/swarm/.../register", b"{}", []),
    ("POST", "/operator/waive", b"{}", []),
]


def masked(reply: bytes) -> bytes:
    """Without the date, other times, and the port of the server."""
    reply = re.sub(rb"\ndate: [^\r]+", b"\ndate: *", reply)
    reply = re.sub(rb"127\.0\.0\.1:\d+", b"*", reply)
    return re.sub(rb"\b\d{13}\b|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", b"*", reply)


def replies_of(server: RunningServer) -> list[bytes]:
    replies: list[bytes] = []
    for method, path, body, lines in EXCHANGES:
        with closing(RawConnection(server.url)) as raw:
            raw.send(raw.request(path, body, *lines, method=method))
            replies.append(masked(raw.raw_reply()))
    return replies


def test_the_same_requests_get_the_same_bytes_with_and_without_the_fast_path(
    tmp_path: Path,
) -> None:
    replies: list[list[bytes]] = []
    for fast_path in (True, False):
        server = RunningServer(tmp_path / f"{fast_path}.db", fast_path=fast_path)
        with closing(server.start()):
            replies.append(replies_of(server))
    for exchange, fast, plain in zip(EXCHANGES, *replies, strict=True):
        assert fast == plain, exchange
    statuses = {int(reply.split()[1]) for reply in replies[0]}
    assert statuses == {200, 201, 400, 403, 404, 405, 409, 413, 415, 422, 431}


def test_a_chunked_request_gets_the_same_bytes_as_a_plain_one(server: RunningServer) -> None:
    """It always goes through ASGI, even on a connection of the fast path."""
    chunk = b"%x\r\n%b\r\n0\r\n\r\n"
    with closing(RawConnection(server.url)) as raw:
        raw.send(raw.request("/bus/register_worker", REGISTER))
        assert raw.reply().status == 200
    for body in (REGISTER, BAD, b"not json"):
        with closing(RawConnection(server.url)) as raw:
            path = "/bus/register_worker"
            raw.send(raw.request(path, chunk % (len(body), body), "Transfer-Encoding: chunked"))
            chunked = masked(raw.raw_reply())
            raw.send(raw.request(path, body))
            assert masked(raw.raw_reply()) == chunked


def test_a_request_may_come_in_pieces_of_any_size(raw: RawConnection) -> None:
    whole = raw.request("/bus/register_worker", REGISTER)
    for cut in range(1, len(whole)):
        raw.send(whole[:cut], whole[cut:])
        assert raw.reply().body["worker"] == "w"


def test_requests_in_one_packet_are_answered_in_order(raw: RawConnection) -> None:
    names = [f"w{number}" for number in range(6)]
    requests = [
        raw.request("/bus/register_worker", json.dumps({"name": name}).encode()) for name in names
    ]
    health = f"GET /health HTTP/1.1\r\nHost: {raw.host}\r\n\r\n".encode()
    raw.send(b"".join([*requests[:3], health, *requests[3:]]))
    answers = [raw.reply().body for _ in range(7)]
    assert [answer.get("worker", answer.get("status")) for answer in answers] == [
        *names[:3],
        "healthy",
        *names[3:],
    ]


def test_a_request_after_a_waiting_poll_is_answered_after_it(
    raw: RawConnection, client: Client
) -> None:
    raw.send(raw.request("/bus/register_worker", REGISTER))
    raw.reply()
    poll = raw.request("/bus/poll_task", b'{"name":"w","timeout_ms":30000}')
    raw.send(poll + raw.request("/bus/get_status", b"{}"))
    add_and_submit(client, "t")
    assert raw.reply().body["task"]["bead_id"] == "t"
    assert raw.reply().body["workers"][0]["name"] == "w"


@pytest.mark.parametrize(("lines", "version"), [(["Connection: close"], "1.1"), ([], "1.0")])
def test_the_last_request_of_a_connection_closes_it(
    raw: RawConnection, lines: list[str], version: str
) -> None:
    raw.send(raw.request("/bus/register_worker", REGISTER, *lines, version=version))
    assert raw.reply().body["worker"] == "w"
    assert raw.is_closed()


def test_keep_alive_keeps_the_connection(raw: RawConnection) -> None:
    for _ in range(3):
        raw.send(raw.request("/bus/register_worker", REGISTER, "Connection: keep-alive"))
        assert raw.reply().status == 200


def test_an_oversized_body_is_refused_but_a_large_one_is_accepted(
    raw: RawConnection,
) -> None:
    padding = b" " * 200_000
    raw.send(raw.request("/bus/register_worker", REGISTER + padding))
    assert raw.reply().body["worker"] == "w"
    raw.send(raw.request("/bus/register_worker", REGISTER + padding + padding))
    assert raw.reply().body["code"] == "body_too_large"


def test_a_percent_encoded_path_is_decoded(raw: RawConnection) -> None:
    raw.send(raw.request("/bus/regi%73ter_worker", REGISTER))
    assert raw.reply().body["worker"] == "w"


@pytest.mark.parametrize("name", ["Host", "Origin"])
def test_requests_from_web_pages_are_refused(raw: RawConnection, client: Client, name: str) -> None:
    own = f"Origin: http://{raw.host}"
    request = raw.request("/bus/register_worker", REGISTER, own)
    if name == "Host":
        request = request.replace(f"\nHost: {raw.host}".encode(), b"\nHost: evil.example")
    else:
        request = request.replace(own.encode(), b"Origin: http://evil.example")
    raw.send(request)
    refusal = raw.reply()
    assert (refusal.status, refusal.body["field"]) == (403, name)
    assert client.post("/bus/get_status", {}).json()["workers"] == []


def test_a_worker_that_disconnects_is_no_longer_polling(
    server: RunningServer, client: Client
) -> None:
    client.post("/bus/register_worker", {"name": "w"})
    with closing(RawConnection(server.url)) as raw:
        raw.send(raw.request("/bus/poll_task", b'{"name":"w","timeout_ms":600000}'))
        wait_until(lambda: status_of(client) == "polling", "the poll is parked")
    wait_until(lambda: status_of(client) == "idle", "the poll is cancelled")
    add_and_submit(client, "t")
    assert client.post("/bus/poll_task", {"name": "w"}).json()["task"]["bead_id"] == "t"


def test_a_report_counts_even_if_the_client_disconnects_before_the_reply(
    server: RunningServer, client: Client
) -> None:
    with closing(RawConnection(server.url)) as raw:
        raw.send(raw.request("/bus/register_worker", REGISTER))
    wait_until(lambda: status_of(client) == "idle", "the worker is registered")


def test_a_client_that_sends_without_reading_is_throttled_and_loses_nothing(
    raw: RawConnection,
) -> None:
    """The server stops reading while its long replies are not read, and continues later."""
    request = raw.request("/bus/register_worker", json.dumps({"name": "x" * 3000}).encode())
    raw.socket.setblocking(False)
    sent = 0
    for _ in range(20_000):
        try:
            sent += raw.socket.send(request)
        except BlockingIOError:
            break
    raw.socket.settimeout(ANSWER_SECONDS)
    assert sent > 0
    for _ in range(sent // len(request)):
        assert raw.reply().status == 422


def test_a_cached_head_gets_the_reply_to_its_own_body(raw: RawConnection, client: Client) -> None:
    """All bodies have one length, so the head is cached after the first. In between come requests
    that must not be mistaken for it: half a request, two at once, a body of another length."""
    names = [f"w{number}" for number in range(10, 20)]
    for name in names:
        request = raw.request("/bus/register_worker", json.dumps({"name": name}).encode())
        raw.send(request)
        assert raw.reply().body["worker"] == name
        raw.send(request[:30])
        raw.send(request[30:])
        assert raw.reply().body["message"] == "Already registered"
        raw.send(request[:-3])
        raw.send(request[-3:])
        assert raw.reply().body["worker"] == name
        raw.send(request + raw.request("/bus/get_status", b"{}") + request)
        assert [raw.reply().status for _ in range(3)] == [200] * 3
    raw.send(raw.request("/bus/get_status", b"{}"))
    assert [worker["name"] for worker in raw.reply().body["workers"]] == names


def test_a_cached_head_does_not_bypass_the_origin_check(
    server: RunningServer, raw: RawConnection
) -> None:
    """A head that differs in one header is another head."""
    good = raw.request("/bus/register_worker", REGISTER)
    evil = raw.request("/bus/register_worker", REGISTER, "Origin: http://evil.example")
    for _ in range(3):
        for request, status in ((good, 200), (evil, 403)):
            with closing(RawConnection(server.url)) as other:
                other.send(request)
                assert other.reply().status == status


def test_a_packet_that_ends_where_a_cached_head_ends_is_not_a_request(
    raw: RawConnection, client: Client
) -> None:
    """The headers and the body of the next packet count: a forbidding Origin, another swarm."""
    client.create_swarm(swarm_id="other")
    whole = raw.request("/bus/list_tasks", b"")
    for _ in range(2):
        raw.send(whole)
        assert raw.reply().status == 200
    raw.send(whole[:-4], b"\r\nOrigin: http://evil.example\r\n\r\n")
    refusal = raw.reply()
    assert (refusal.status, refusal.body["field"]) == (403, "Origin")
    body = b'{"bead_id":"t","title":"T","swarm_id":"other"}'
    bare = raw.request("/bus/add_task", b"").replace(b"Content-Length: 0\r\n", b"")
    raw.send(bare)
    assert raw.reply().status == 422
    raw.send(bare[:-4], b"\r\nContent-Length: %d\r\n\r\n" % len(body), body)
    assert raw.reply().status == 200
    assert client.post("/bus/list_tasks", {"swarm_id": "other"}).json()["tasks"] != []


@pytest.mark.parametrize("path", ["/bus/register_worker", "/mcp"])
def test_the_body_of_an_upgrade_request_is_never_parsed_as_a_request(
    raw: RawConnection, client: Client, path: str
) -> None:
    """The parser would leave the body to the other protocol and find requests in it."""
    inner = raw.request("/bus/register_worker", b'{"name":"smuggled"}')
    outer = raw.request(path, inner, "Connection: Upgrade", "Upgrade: h2c")
    raw.send(outer[: -len(inner)])
    refusal = raw.socket.recv(1000)
    assert refusal.startswith(b"HTTP/1.1 400")
    assert b"Upgrade" in refusal
    with suppress(OSError):
        raw.send(inner)
        assert raw.socket.recv(1000) == b""
    assert client.post("/bus/get_status", {}).json()["workers"] == []


def test_a_reply_delayed_until_commit_reaches_no_other_client(
    server: RunningServer, client: Client
) -> None:
    """When a client disconnects, the next connection can get the same descriptor."""
    hold(client, "t")
    with closing(sqlite3.connect(server.database, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        gone = RawConnection(server.url)
        port = gone.socket.getsockname()[1]
        wait_until(lambda: port in ports_of_clients(server), "the connection is accepted")
        gone.send(ack(gone, "t"))
        gone.close()
        wait_until(lambda: port not in ports_of_clients(server), "the server has closed it")
        with closing(RawConnection(server.url)) as other:
            other.send(other.request("/bus/register_worker", BAD))
            assert other.reply().status == 422
            assert status_of(client) == "pending"
            database.execute("COMMIT")
            wait_until(lambda: status_of(client) == "executing", "it is acknowledged")
            other.send(other.request("/bus/register_worker", BAD))
            assert other.reply().status == 422


def test_replies_delayed_until_commit_keep_their_order(raw: RawConnection, client: Client) -> None:
    hold(client, "t")
    raw.send(b"".join([ack(raw, "t"), raw.request("/bus/register_worker", BAD)] * 50))
    assert [raw.reply().status for _ in range(100)] == [200, 422] * 50
    raw.send(ack(raw, "t"))
    assert raw.reply().body["bead_id"] == "t"


def ports_of_clients(server: RunningServer) -> set[int]:
    connections = psutil.Process(server.pid).net_connections()
    return {connection.raddr.port for connection in connections if connection.raddr}


def hold(client: Client, name: str) -> None:
    """Assign the task to the worker, which has to acknowledge it."""
    client.post("/bus/register_worker", {"name": "w"})
    add_and_submit(client, name)


def ack(raw: RawConnection, name: str) -> bytes:
    """With the same key, all but the first are repeats."""
    body = json.dumps({"name": "w", "bead_id": name}).encode()
    return raw.request("/bus/ack_task", body, f"Idempotency-Key: {name}")


def add_and_submit(client: Client, name: str) -> None:
    client.post("/bus/add_task", {"bead_id": name, "title": name})
    assert client.post("/bus/submit_task", {"bead_id": name}).status_code == 200


def status_of(client: Client) -> str | None:
    workers = client.post("/bus/get_status", {}).json()["workers"]
    return workers[0]["status"] if workers else None
