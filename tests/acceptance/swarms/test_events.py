"""The event stream: every event once, in order, at once, across restarts."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from urllib.parse import urlsplit

import httpx2
import psutil
import pytest

from tests.acceptance.swarms.packets import (
    SWARM,
    accepted,
    complete_body,
    error_body,
    progress_body,
    register_body,
)
from tests.client import Client, SseEvent
from tests.running import RunningServer
from tests.waiting import wait_until


def progress_reports(client: Client, first: int, last: int) -> None:
    for number in range(first, last + 1):
        accepted(client, "progress", progress_body(task_id=f"t-{number}", tasks_completed=0))


@pytest.mark.requirement("SW-09")
def test_the_events_of_a_swarm_have_the_documented_format(any_client: Client) -> None:
    any_client.create_swarm(swarm_id=SWARM)
    accepted(any_client, "register", register_body())
    accepted(any_client, "progress", progress_body())
    accepted(any_client, "error", error_body(error_type="rate_limit"))
    accepted(any_client, "complete", complete_body())
    text = any_client.get(f"/swarm/{SWARM}/events", follow="false").text
    assert 'id: 2\nevent: worker_registered\ndata: {"packet_id":1,' in text
    events = any_client.stored_events(SWARM)
    assert [(event.event_id, event.kind) for event in events] == [
        (1, "swarm_created"),
        (2, "worker_registered"),
        (3, "progress_update"),
        (4, "worker_error"),
        (5, "worker_complete"),
        (6, "swarm_complete"),
    ]
    by_kind = {event.kind: event.data for event in events}
    assert by_kind["worker_registered"].items() >= {
        ("packet_id", 1),
        ("packet_name", "backend-api"),
    }
    assert by_kind["progress_update"].items() >= {
        ("packet_id", 1),
        ("tasks_completed", 1),
        ("tasks_total", 10),
    }
    assert by_kind["worker_complete"].items() >= {("packet_id", 1), ("final_commit", "def5678901")}


@pytest.mark.requirement("SW-09")
def test_a_live_reader_gets_what_is_reported_while_it_waits(any_client: Client) -> None:
    any_client.create_swarm(swarm_id=SWARM)
    with any_client.events(SWARM) as reader:
        assert reader.next().kind == "swarm_created"
        accepted(any_client, "register", register_body())
        assert reader.next().kind == "worker_registered"
        progress_reports(any_client, 1, 3)
        assert [event.event_id for event in reader.take(3)] == [3, 4, 5]


@pytest.mark.requirement("SW-09")
def test_a_reconnecting_reader_misses_nothing_and_sees_nothing_twice(
    any_client: Client, any_server: RunningServer
) -> None:
    any_client.create_swarm(swarm_id=SWARM)
    accepted(any_client, "register", register_body())
    seen: list[SseEvent] = []
    with any_client.events(SWARM) as reader:
        progress_reports(any_client, 1, 3)
        seen += reader.take(4)
    progress_reports(any_client, 4, 6)
    any_server.kill()
    any_server.start()
    progress_reports(any_client, 7, 8)
    # A browser repeats its first URL and adds the last id that it has seen.
    with any_client.events(SWARM, since=0, last_event_id=seen[-1].event_id) as reader:
        seen += reader.take(4)
        progress_reports(any_client, 9, 10)
        seen += reader.take(4)
    assert [event.event_id for event in seen] == list(range(1, 13))


@pytest.mark.requirement("SW-09")
def test_history_longer_than_a_page_arrives_complete_followed_by_live_events(
    client: Client,
) -> None:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body())
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: progress_reports(client, n, n), range(1200)))
    with client.events(SWARM, since=100) as reader:
        accepted(client, "complete", complete_body())
        events = reader.take(1104)
    assert [event.event_id for event in events] == list(range(101, 1205))


@pytest.mark.requirement("SW-09")
def test_a_thousand_readers_of_one_swarm_all_get_the_events(
    client: Client, server: RunningServer
) -> None:
    client.create_swarm(swarm_id=SWARM)
    with ExitStack() as stack:
        readers = [stack.enter_context(_raw_stream(server)) for _ in range(1000)]
        accepted(client, "register", register_body())
        accepted(client, "complete", complete_body())
        for reader in readers:
            assert b"event: swarm_complete" in _read_until(reader, b"event: swarm_complete")


@pytest.mark.requirement("SW-09")
def test_a_reader_that_stops_reading_delays_no_other_and_is_cut_off(
    client: Client, server: RunningServer
) -> None:
    client.create_swarm(swarm_id=SWARM)
    accepted(client, "register", register_body())
    message = "x" * 5000
    with _raw_stream(server, receive_buffer=4096) as stuck, _raw_stream(server) as quick:
        heard: list[int] = []
        listening = threading.Thread(target=lambda: heard.extend(_ids(quick, 12_002)))
        listening.start()
        bodies = [
            error_body(task_id=f"t-{n}", message=message, error_type="rate_limit")
            for n in range(12_000)
        ]
        with ThreadPoolExecutor(8) as threads:
            parts = [bodies[start::8] for start in range(8)]
            list(threads.map(partial(_report_errors, server), parts))
        listening.join(60)
        assert heard == list(range(1, 12_003))
        # Buffered events can still be read; then the stream ends without its last events.
        rest = _read_until(stuck, b"id: 12002\n")
        assert b"id: 12002\n" not in rest


@pytest.mark.requirement("SW-09")
def test_stopping_the_server_ends_the_streams_cleanly(
    client: Client, server: RunningServer
) -> None:
    client.create_swarm(swarm_id=SWARM)
    with client.events(SWARM) as reader:
        assert reader.next().kind == "swarm_created"
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert reader.rest() == []  # httpx2 raises when a stream ends in the middle
        stopping.join()


@pytest.mark.requirement("SW-09")
def test_a_head_request_for_a_stream_returns_only_headers(
    client: Client, server: RunningServer
) -> None:
    client.create_swarm(swarm_id=SWARM)
    answer = httpx2.head(f"{server.url}/swarm/{SWARM}/events", trust_env=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")


@pytest.mark.requirement("SW-09")
def test_a_reader_that_disconnects_is_unsubscribed(client: Client, server: RunningServer) -> None:
    client.create_swarm(swarm_id=SWARM)
    before = _connections(server)
    for _ in range(20):
        with _raw_stream(server) as reader:
            _read_until(reader, b"swarm_created")
    wait_until(lambda: _connections(server) <= before, "the connections are gone")


def _connections(server: RunningServer) -> int:
    return len(psutil.Process(server.pid).net_connections(kind="tcp"))


def _raw_stream(server: RunningServer, receive_buffer: int | None = None) -> socket.socket:
    """A stream as a bare socket: a thousand of them are cheap."""
    address = urlsplit(server.url)
    connection = socket.socket()
    connection.settimeout(15)
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.connect((address.hostname, address.port))
    request = f"GET /swarm/{SWARM}/events HTTP/1.1\r\nHost: {address.netloc}\r\n\r\n"
    connection.sendall(request.encode())
    return connection


def _report_errors(server: RunningServer, bodies: Iterable[dict[str, object]]) -> None:
    """Over one connection, without the cost of a full HTTP client."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=15)
    with closing(connection):
        for body in bodies:
            connection.request(
                "POST",
                f"/swarm/{SWARM}/error",
                json.dumps(body),
                {"Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            assert json.load(answer)["acknowledged"], answer.status


def _ids(stream: socket.socket, last: int) -> Iterator[int]:
    """The ids of the events, up to the last."""
    with stream.makefile("rb") as lines:
        for line in lines:
            if line.startswith(b"id: "):
                event_id = int(line[4:])
                yield event_id
                if event_id == last:
                    return


def _read_until(connection: socket.socket, mark: bytes) -> bytes:
    """Read until the marker arrives or the stream ends."""
    found = b""
    while mark not in found:
        part = connection.recv(65536)
        if not part:
            break
        found = found[-len(mark) :] + part if len(found) > 1_000_000 else found + part
    return found
