"""A proxy between a worker and the real server that can delay requests and drop connections."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

from shiftboss.errors import InvalidRequest
from shiftboss.protocol.problems import problem_of

ANSWER_SECONDS = 60.0
NEWER_MEMBERS = frozenset({"poll", "ack", "lease_seconds", "submit"})


class Said(NamedTuple):
    """A request that was relayed. `key` is its Idempotency-Key."""

    operation: str
    key: str | None
    body: bytes


class CutError(Exception):
    """Close the connection without a response."""


def _let_pass(_request: Said) -> None:
    pass


class Relay(ThreadingHTTPServer):
    """`before` is called before a request is forwarded, `after` once the server has answered it.

    Both may block, and both may raise CutError.
    """

    daemon_threads = True

    def __init__(self, server_url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(server_url).netloc
        self.before: Callable[[Said], None] = _let_pass
        self.after: Callable[[Said], None] = _let_pass
        self.passed: list[Said] = []
        # Whether it refuses the members of combined calls, as servers did that had none.
        self.is_older = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def operations(self) -> list[str]:
        """The operations that reached the server, in order, without heartbeats."""
        return [request.operation for request in self.passed if request.operation != "heartbeat"]


class _Handler(BaseHTTPRequestHandler):
    server: Relay

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = Said(self.path.rpartition("/")[2], self.headers["Idempotency-Key"], body)
        try:
            self.server.before(request)
            status, answer = self._refusal(request) or self._forward(body)
            self.server.passed.append(request)
            self.server.after(request)
        except (CutError, OSError, http.client.HTTPException):
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _refusal(self, request: Said) -> tuple[int, bytes] | None:
        unknown = NEWER_MEMBERS if request.operation != "heartbeat" else frozenset()
        field = next((name for name in json.loads(request.body) if name in unknown), None)
        if not self.server.is_older or field is None:
            return None
        error = InvalidRequest(f"{field}: Extra inputs are not permitted", field=field)
        return error.status, json.dumps(problem_of(error)).encode()

    def _forward(self, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.server.target, timeout=ANSWER_SECONDS)
        try:
            key = self.headers["Idempotency-Key"]
            headers = {"Content-Type": self.headers["Content-Type"]}
            headers |= {"Idempotency-Key": key} if key else {}
            connection.request("POST", self.path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


class Once:
    """Drops the first request of an operation and sets `cut`."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self.cut = threading.Event()

    def __call__(self, request: Said) -> None:
        if request.operation == self._operation and not self.cut.is_set():
            self.cut.set()
            raise CutError


@contextmanager
def relaying(server_url: str) -> Iterator[Relay]:
    relay = Relay(server_url)
    thread = threading.Thread(target=relay.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield relay
    finally:
        relay.shutdown()
        thread.join()
        relay.server_close()
