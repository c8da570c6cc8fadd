"""An ordinary request for a call is answered without ASGI, anything else through it: nobody can
tell which by the answer."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
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
    headers: dict[str, str]
    body: Any


class Line:
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

    def request(self, path: str, body: bytes, *lines: str, version: str = "1.1") -> bytes:
        length = [] if any("chunked" in one for one in lines) else [f"Content-Length: {len(body)}"]
        head = [f"POST {path} HTTP/{version}", f"Host: {self.host}", *length, *lines]
        return "\r\n".join([*head, "", ""]).encode() + body

    def reply(self) -> Reply:
        status = int(self._file.readline().split()[1])
        headers: dict[str, str] = {}
        while line := self._file.readline().strip().decode():
            name, _, value = line.partition(": ")
            headers[name] = value
        body = self._file.read(int(headers.get("content-length", "0")))
        return Reply(status, headers, json.loads(body) if body else None)

    def is_closed(self) -> bool:
        return self._file.read() == b""


@pytest.fixture
def line(server: RunningServer) -> Iterator[Line]:
    with closing(Line(server.url)) as it:
        yield it


REGISTER = b'{"name":"w"}'
BAD = b'{"name":""}'


def both_ways(line: Line, path: str, body: bytes) -> tuple[Reply, Reply]:
    line.send(line.request(path, body))
    short = line.reply()
    with closing(Line(f"http://{line.host}")) as other:
        chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        other.send(other.request(path, chunk, "Transfer-Encoding: chunked"))
        return short, other.reply()


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/bus/register_worker", REGISTER, 200),
        ("/bus/register_worker", BAD, 422),
        ("/bus/poll_task", b'{"name":"nobody","timeout_ms":0}', 404),
        ("/bus/show_task", b'{"bead_id":"nothing"}', 404),
        ("/bus/ack_task", b"not json", 422),
        ("/swarm/no-such/progress", b"{}", 422),
        ("/swarm/.../register", b"{}", 404),
        ("/operator/waive", b"{}", 403),
    ],
)
def test_the_same_words_get_the_same_answer(
    server: RunningServer, path: str, body: bytes, status: int
) -> None:
    with closing(Line(server.url)) as line:
        line.send(line.request("/bus/register_worker", REGISTER))
        assert line.reply().status == 200
        short, long = both_ways(line, path, body)
    assert short.status == long.status == status
    assert short.body == long.body
    assert short.headers.keys() == long.headers.keys()
    assert short.headers["content-type"] == long.headers["content-type"]


def test_a_request_may_come_in_pieces_of_any_size(line: Line) -> None:
    whole = line.request("/bus/register_worker", REGISTER)
    for cut in range(1, len(whole)):
        line.send(whole[:cut], whole[cut:])
        assert line.reply().body["worker"] == "w"


def test_requests_in_one_packet_are_answered_in_their_order(line: Line) -> None:
    names = [f"w{number}" for number in range(6)]
    requests = [
        line.request("/bus/register_worker", json.dumps({"name": name}).encode()) for name in names
    ]
    health = f"GET /health HTTP/1.1\r\nHost: {line.host}\r\n\r\n".encode()
    line.send(b"".join([*requests[:3], health, *requests[3:]]))
    answers = [line.reply().body for _ in range(7)]
    assert [answer.get("worker", answer.get("status")) for answer in answers] == [
        *names[:3],
        "healthy",
        *names[3:],
    ]


def test_what_follows_a_poll_that_waits_is_answered_after_it(line: Line, client: Client) -> None:
    line.send(line.request("/bus/register_worker", REGISTER))
    line.reply()
    poll = line.request("/bus/poll_task", b'{"name":"w","timeout_ms":30000}')
    line.send(poll + line.request("/bus/get_status", b"{}"))
    add_and_submit(client, "t")
    assert line.reply().body["task"]["bead_id"] == "t"
    assert line.reply().body["workers"][0]["name"] == "w"


@pytest.mark.parametrize(("lines", "version"), [(["Connection: close"], "1.1"), ([], "1.0")])
def test_a_last_request_ends_the_connection(line: Line, lines: list[str], version: str) -> None:
    line.send(line.request("/bus/register_worker", REGISTER, *lines, version=version))
    assert line.reply().body["worker"] == "w"
    assert line.is_closed()


def test_a_connection_that_stays_is_ordinary(line: Line) -> None:
    for _ in range(3):
        line.send(line.request("/bus/register_worker", REGISTER, "Connection: keep-alive"))
        assert line.reply().status == 200


def test_a_body_that_is_too_large_is_refused_and_a_large_one_is_not(line: Line) -> None:
    room = b" " * 200_000
    line.send(line.request("/bus/register_worker", REGISTER + room))
    assert line.reply().body["worker"] == "w"
    line.send(line.request("/bus/register_worker", REGISTER + room + room))
    assert line.reply().body["code"] == "body_too_large"


def test_a_path_with_escapes_is_the_path_without_them(line: Line) -> None:
    line.send(line.request("/bus/regi%73ter_worker", REGISTER))
    assert line.reply().body["worker"] == "w"


@pytest.mark.parametrize("name", ["Host", "Origin"])
def test_a_web_page_gets_nothing(line: Line, client: Client, name: str) -> None:
    request = line.request("/bus/register_worker", REGISTER, "Origin: http://127.0.0.1")
    if name == "Host":
        request = request.replace(f"Host: {line.host}".encode(), b"Host: evil.example")
    else:
        request = request.replace(b"Origin: http://127.0.0.1", b"Origin: http://evil.example")
    line.send(request)
    refusal = line.reply()
    assert (refusal.status, refusal.body["field"]) == (403, name)
    assert client.post("/bus/get_status", {}).json()["workers"] == []


def test_who_hangs_up_no_longer_polls(server: RunningServer, client: Client) -> None:
    client.post("/bus/register_worker", {"name": "w"})
    with closing(Line(server.url)) as line:
        line.send(line.request("/bus/poll_task", b'{"name":"w","timeout_ms":600000}'))
        wait_until(lambda: status_of(client) == "polling", "the poll is parked")
    wait_until(lambda: status_of(client) == "idle", "the poll is given up")
    add_and_submit(client, "t")
    assert client.post("/bus/poll_task", {"name": "w"}).json()["task"]["bead_id"] == "t"


def test_who_hangs_up_before_the_answer_has_said_it_all_the_same(
    server: RunningServer, client: Client
) -> None:
    with closing(Line(server.url)) as line:
        line.send(line.request("/bus/register_worker", REGISTER))
    wait_until(lambda: status_of(client) == "idle", "the worker is registered")


def test_who_sends_and_does_not_read_waits_and_loses_nothing(line: Line) -> None:
    """Long answers that nobody reads: the server stops reading, and goes on later."""
    request = line.request("/bus/register_worker", json.dumps({"name": "x" * 3000}).encode())
    line.socket.setblocking(False)
    sent = 0
    for _ in range(20_000):
        try:
            sent += line.socket.send(request)
        except BlockingIOError:
            break
    line.socket.settimeout(ANSWER_SECONDS)
    assert sent > 0
    for _ in range(sent // len(request)):
        assert line.reply().status == 422


def test_a_head_that_is_known_gets_the_answer_to_its_own_body(line: Line, client: Client) -> None:
    """All of one length: after the first, the head is known. In between comes what must not be
    taken for it: half a request, two at once, one with a body of another length."""
    names = [f"w{number}" for number in range(10, 20)]
    for name in names:
        request = line.request("/bus/register_worker", json.dumps({"name": name}).encode())
        line.send(request)
        assert line.reply().body["worker"] == name
        line.send(request[:30])
        line.send(request[30:])
        assert line.reply().body["message"] == "Already registered"
        line.send(request[:-3])
        line.send(request[-3:])
        assert line.reply().body["worker"] == name
        line.send(request + line.request("/bus/get_status", b"{}") + request)
        assert [line.reply().status for _ in range(3)] == [200] * 3
    line.send(line.request("/bus/get_status", b"{}"))
    assert [one["name"] for one in line.reply().body["workers"]] == names


def test_a_known_head_goes_on_to_be_guarded(server: RunningServer, line: Line) -> None:
    """The same but for one header is another head."""
    good = line.request("/bus/register_worker", REGISTER)
    evil = line.request("/bus/register_worker", REGISTER, "Origin: http://evil.example")
    for _ in range(3):
        for request, status in ((good, 200), (evil, 403)):
            with closing(Line(server.url)) as other:
                other.send(request)
                assert other.reply().status == status


@pytest.mark.parametrize("path", ["/bus/register_worker", "/mcp"])
def test_a_body_behind_an_upgrade_is_never_a_request(line: Line, client: Client, path: str) -> None:
    """The parser would leave it to the other protocol, and read on in it."""
    inner = line.request("/bus/register_worker", b'{"name":"smuggled"}')
    outer = line.request(path, inner, "Connection: Upgrade", "Upgrade: h2c")
    line.send(outer[: -len(inner)])
    refusal = line.socket.recv(1000)
    assert refusal.startswith(b"HTTP/1.1 400")
    assert b"Upgrade" in refusal
    with suppress(OSError):
        line.send(inner)
        assert line.socket.recv(1000) == b""
    assert client.post("/bus/get_status", {}).json()["workers"] == []


def test_a_reply_that_leaves_at_the_commit_reaches_nobody_else(
    server: RunningServer, client: Client
) -> None:
    """Who hangs up makes room for another connection with the same descriptor."""
    hold(client, "t")
    with closing(sqlite3.connect(server.database, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        gone = Line(server.url)
        files = psutil.Process(server.pid).num_fds
        wait_until(lambda: status_of(client) == "pending", "the connection is accepted")
        with_it = files()
        gone.send(ack(gone, "t"))
        gone.close()
        wait_until(lambda: files() < with_it, "the server has closed it")
        with closing(Line(server.url)) as other:
            other.send(other.request("/bus/register_worker", BAD))
            assert other.reply().status == 422
            assert status_of(client) == "pending"
            database.execute("COMMIT")
            wait_until(lambda: status_of(client) == "executing", "it is acknowledged")
            other.send(other.request("/bus/register_worker", BAD))
            assert other.reply().status == 422


def test_replies_that_leave_at_the_commit_keep_their_order(line: Line, client: Client) -> None:
    hold(client, "t")
    line.send(b"".join([ack(line, "t"), line.request("/bus/register_worker", BAD)] * 50))
    assert [line.reply().status for _ in range(100)] == [200, 422] * 50
    line.send(ack(line, "t"))
    assert line.reply().body["bead_id"] == "t"


def hold(client: Client, name: str) -> None:
    """The worker is given the task, and has to acknowledge it."""
    client.post("/bus/register_worker", {"name": "w"})
    add_and_submit(client, name)


def ack(line: Line, name: str) -> bytes:
    """The key makes one report of all that are the same."""
    body = json.dumps({"name": "w", "bead_id": name}).encode()
    return line.request("/bus/ack_task", body, f"Idempotency-Key: {name}")


def add_and_submit(client: Client, name: str) -> None:
    client.post("/bus/add_task", {"bead_id": name, "title": name})
    assert client.post("/bus/submit_task", {"bead_id": name}).status_code == 200


def status_of(client: Client) -> str | None:
    workers = client.post("/bus/get_status", {}).json()["workers"]
    return workers[0]["status"] if workers else None
