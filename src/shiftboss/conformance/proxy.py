"""The proxy between the worker and the real server: records every exchange, and injects faults."""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from shiftboss.conformance.exchanges import Exchange, answer_of, exchange_of, json_object
from shiftboss.conformance.faults import Fault, FaultReply

ANSWER_SECONDS: Final = 700.0
CHUNK_BYTES: Final = 65_536
BODY_BYTES_MAX: Final = 8 * 2**20
_NOT_FORWARDED: Final = frozenset({"host", "connection", "content-length", "transfer-encoding"})

T = TypeVar("T")


# The kit is a server of the documents: their calls are separate. A worker that combines them finds
# that out from the refusal, which is not a call of its work and is not recorded.
_COMBINED: Final = {
    "poll_task": ("ack", "lease_seconds"),
    "worker_done": ("poll", "ack", "lease_seconds", "timeout_ms"),
    "task_failed": ("poll", "ack", "lease_seconds", "timeout_ms"),
}


class CutError(Exception):
    """Close the connection without an answer."""


class RecordingProxy(ThreadingHTTPServer):
    """`exchanges` are in the order of their arrival. `is_down`: no request gets an answer."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, server_url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(server_url).netloc
        self.exchanges: list[Exchange] = []
        self.is_down = False
        self.on_arrival: Callable[[Exchange], None] = lambda _: None
        self.changed = threading.Condition()
        self._faults: list[Fault] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def inject(self, fault: Fault) -> Fault:
        with self.changed:
            self._faults.append(fault)
        return fault

    def clear_faults(self) -> None:
        with self.changed:
            for fault in self._faults:
                if fault.hold is not None:
                    fault.hold.set()
            self._faults.clear()
            self.is_down = False

    def fault_for(self, exchange: Exchange) -> Fault | None:
        with self.changed:
            return next((fault for fault in self._faults if fault.fits(exchange)), None)

    def note(self, change: Callable[[], None]) -> None:
        with self.changed:
            change()
            self.changed.notify_all()

    def wait(self, found: Callable[[], T | None], seconds: float) -> T | None:
        """What `found` returns once it is something, asked after every change on the wire."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while (result := found()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                # Woken by the wire; the pause is for what changes elsewhere.
                self.changed.wait(min(left, 0.05))
        return result

    def handle_error(self, request: object, client_address: object) -> None:
        """A worker that closes its connection is no error of the proxy."""


class _Handler(BaseHTTPRequestHandler):
    server: RecordingProxy
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self._relay()

    def do_GET(self) -> None:
        self._relay()

    def do_DELETE(self) -> None:
        self._relay()

    def _relay(self) -> None:
        self.close_connection = True
        body = self._read_body()
        exchange = exchange_of(self.command, self.path, self.headers, body)  # type: ignore[arg-type]
        member = _combined_member(exchange)
        if member is not None:
            self._send(exchange, _unknown_member(member))
            return
        self.server.on_arrival(exchange)
        self.server.note(lambda: self.server.exchanges.append(exchange))
        try:
            reply = self._answer(exchange, body)
            self._send(exchange, reply)
        except (CutError, OSError, http.client.HTTPException):
            self._close(exchange)

    def _answer(self, exchange: Exchange, body: bytes) -> FaultReply:
        if self.server.is_down:
            raise CutError
        fault = self.server.fault_for(exchange)
        if fault is None:
            return self._forward(exchange, body)
        if fault.reply is not None or fault.cut == "before":
            self.server.note(lambda: fault.met.append(exchange))
            if fault.reply is None:
                raise CutError
            return fault.reply
        if fault.poll_ms is not None:
            body = _with_poll_ms(body, fault.poll_ms)
        reply = self._forward(exchange, body)
        exchange.answer = answer_of(exchange.path, reply.content_type, reply.body)
        exchange.status = reply.status
        if fault.when(exchange) and fault.fits(exchange):
            self.server.note(lambda: fault.met.append(exchange))
            if fault.hold is not None:
                fault.hold.wait(ANSWER_SECONDS)
            if fault.cut == "after":
                raise CutError
        return reply

    def _send(self, exchange: Exchange, reply: FaultReply) -> None:
        exchange.answer = answer_of(exchange.path, reply.content_type, reply.body)
        exchange.status = reply.status
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.send_header("Connection", "close")
        if reply.retry_after is not None:
            self.send_header("Retry-After", str(reply.retry_after))
        # Before the bytes: a worker that reacts at once must find its answer in the record.
        self.server.note(lambda: _end(exchange, is_delivered=True))
        self.end_headers()
        self.wfile.write(reply.body)

    def _close(self, exchange: Exchange) -> None:
        self.server.note(lambda: _end(exchange, is_delivered=False))
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _forward(self, exchange: Exchange, body: bytes) -> FaultReply:
        connection = http.client.HTTPConnection(self.server.target, timeout=ANSWER_SECONDS)
        try:
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in _NOT_FORWARDED
            }
            connection.request(exchange.method, self.path, body or None, headers)
            self._wait_for_answer(connection)
            response = connection.getresponse()
            content_type = response.getheader("Content-Type", "application/json")
            if exchange.method == "GET" and content_type.startswith("text/event-stream"):
                self._copy_stream(exchange, response, content_type)
            return FaultReply(
                response.status, response.read(), content_type, _retry_after(response)
            )
        finally:
            connection.close()

    def _copy_stream(
        self, exchange: Exchange, response: http.client.HTTPResponse, content_type: str
    ) -> None:
        """Pass events on as they come. Ends with the connection, by CutError."""
        exchange.status = response.status
        self.send_response(response.status)
        self.send_header("Content-Type", content_type)
        self.send_header("Connection", "close")
        self.end_headers()
        while chunk := response.read1(CHUNK_BYTES):
            self.wfile.write(chunk)
        raise CutError

    def _wait_for_answer(self, upstream: http.client.HTTPConnection) -> None:
        """Ends with the worker: a poll of a worker that has gone must not stay parked."""
        ready, _, _ = select.select([upstream.sock, self.connection], [], [], ANSWER_SECONDS)
        if self.connection in ready and not self.connection.recv(1, socket.MSG_PEEK):
            raise CutError

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return b"".join(self._chunks())
        return self.rfile.read(min(int(self.headers.get("Content-Length") or 0), BODY_BYTES_MAX))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().partition(b";")[0].strip() or b"0", 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


def _end(exchange: Exchange, *, is_delivered: bool) -> None:
    exchange.answered_at = time.monotonic()
    exchange.is_delivered = is_delivered


def _retry_after(response: http.client.HTTPResponse) -> int | None:
    value = response.getheader("Retry-After", "")
    return int(value) if value.isdecimal() else None


def _with_poll_ms(body: bytes, poll_ms: int) -> bytes:
    """The request with another `timeout_ms`, of the bus or of the MCP tool."""
    document = json_object(body)
    members: Any = document
    if "params" in document:
        members = document["params"].setdefault("arguments", {})
    members["timeout_ms"] = poll_ms
    return json.dumps(document).encode()


@contextmanager
def proxying(server_url: str) -> Iterator[RecordingProxy]:
    proxy = RecordingProxy(server_url)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.clear_faults()
        proxy.shutdown()
        thread.join()
        proxy.server_close()


def _combined_member(exchange: Exchange) -> str | None:
    members = _COMBINED.get(exchange.operation, ()) if exchange.path.startswith("/bus/") else ()
    return next((member for member in members if member in exchange.arguments), None)


def _unknown_member(member: str) -> FaultReply:
    detail = f"{member}: Extra inputs are not permitted"
    problem = {
        "type": "urn:shiftboss:invalid_request",
        "title": "The request is not valid",
        "status": 422,
        "code": "invalid_request",
        "detail": detail,
        "field": member,
        "hint": None,
    }
    return FaultReply(422, json.dumps(problem).encode(), "application/problem+json")
