"""Somebody between a worker and the real server, who can hold what is said and cut the line."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

ANSWER_SECONDS = 60.0


class Said(NamedTuple):
    """What went through. The key is that of the request."""

    operation: str
    key: str | None
    body: bytes


class CutError(Exception):
    """Hang up without a word."""


def _let_pass(_said: Said) -> None:
    pass


class Relay(ThreadingHTTPServer):
    """`before` sees a request that the server has not seen, `after` one that it has answered.

    Both may wait, and both may raise CutError.
    """

    daemon_threads = True

    def __init__(self, server_url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(server_url).netloc
        self.before: Callable[[Said], None] = _let_pass
        self.after: Callable[[Said], None] = _let_pass
        self.passed: list[Said] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def operations(self) -> list[str]:
        """What has reached the server, in order, without the background."""
        return [one.operation for one in self.passed if one.operation != "heartbeat"]


class _Handler(BaseHTTPRequestHandler):
    server: Relay

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        said = Said(self.path.rpartition("/")[2], self.headers["Idempotency-Key"], body)
        try:
            self.server.before(said)
            status, answer = self._forward(body)
            self.server.passed.append(said)
            self.server.after(said)
        except (CutError, OSError, http.client.HTTPException):
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _forward(self, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.server.target, timeout=ANSWER_SECONDS)
        try:
            key = self.headers["Idempotency-Key"]
            headers = {"Idempotency-Key": key} if key else {}
            connection.request("POST", self.path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


class Once:
    """Cuts the first request of an operation, and tells that it did."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self.cut = threading.Event()

    def __call__(self, said: Said) -> None:
        if said.operation == self._operation and not self.cut.is_set():
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
