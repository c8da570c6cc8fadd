"""A fake server: it answers with errors, too late, or not at all."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    path: str
    key: str | None
    authorization: str | None
    body: dict[str, Any]


class Reply(NamedTuple):
    """`body` is sent as JSON, bytes as they are."""

    status: int
    body: object = {}
    retry_after: str | None = None


# None leaves the connection open without a reply until the fake server stops.
Behaviour = Callable[[Received], Reply | None]


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, behaviour: Behaviour) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = behaviour
        self.received: list[Received] = []
        self.stopped = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Some tests are about a caller that does not wait for a late answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeServer

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: dict[str, Any]) -> None:
        headers = self.headers
        received = Received(self.path, headers["Idempotency-Key"], headers["Authorization"], body)
        reply = self.server.behaviour(received)
        self.server.received.append(received)
        if reply is None:
            self.server.stopped.wait()
            return
        reply_body = reply.body
        content = reply_body if isinstance(reply_body, bytes) else json.dumps(reply_body).encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if reply.retry_after is not None:
            self.send_header("Retry-After", reply.retry_after)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


@contextmanager
def running_fake_server(behaviour: Behaviour) -> Iterator[FakeServer]:
    fake_server = FakeServer(behaviour)
    thread = threading.Thread(target=fake_server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake_server
    finally:
        fake_server.stopped.set()
        fake_server.shutdown()
        thread.join()
        fake_server.server_close()
