"""A proxy before a real server that changes one kind of answer."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from shiftboss.conformance.exchanges import exchange_of

Document = dict[str, Any]
# (operation, arguments, status, answer) -> status, answer
Lie = Callable[[str, Document, int, Document], tuple[int, Document]]


class LyingProxy(ThreadingHTTPServer):
    # Closing the proxy waits for its threads, so that no connection is left open.
    daemon_threads = False

    def __init__(self, server_url: str, lie: Lie) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(server_url).netloc
        self.lie = lie
        self.open: set[http.client.HTTPConnection] = set()

    def end_streams(self) -> None:
        for connection in list(self.open):
            if connection.sock is not None:
                connection.sock.shutdown(socket.SHUT_RDWR)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: LyingProxy

    def do_GET(self) -> None:
        self._relay(b"")

    def do_POST(self) -> None:
        self._relay(self.rfile.read(int(self.headers["Content-Length"])))

    def _relay(self, body: bytes) -> None:
        connection = http.client.HTTPConnection(self.server.target, timeout=60)
        self.server.open.add(connection)
        try:
            self._answer(connection, body)
        finally:
            connection.close()
            self.server.open.discard(connection)

    def _answer(self, connection: http.client.HTTPConnection, body: bytes) -> None:
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        connection.request(self.command, self.path, body or None, headers)
        response = connection.getresponse()
        content_type = response.getheader("Content-Type", "")
        if content_type.startswith("text/event-stream") and self.command == "GET":
            self._stream(response, content_type)
            return
        content = response.read()
        if content_type.startswith("text/event-stream"):
            lines = [line for line in content.splitlines() if line.startswith(b"data:")]
            content, content_type = lines[-1].removeprefix(b"data:"), "application/json"
        status, content = self._lied(body, response.status, content)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _lied(self, body: bytes, status: int, content: bytes) -> tuple[int, bytes]:
        exchange = exchange_of(self.command, self.path, self.headers, body)  # type: ignore[arg-type]
        try:
            document = json.loads(content)
        except ValueError:
            return status, content
        if exchange.path != "/mcp":
            status, document = self.server.lie(
                exchange.operation, exchange.arguments, status, document
            )
        elif "structuredContent" in document.get("result", {}):
            result = document["result"]
            _, lied = self.server.lie(
                exchange.operation, exchange.arguments, status, result["structuredContent"]
            )
            result["structuredContent"] = lied
            result["isError"] = "error" in lied
        else:
            _, lied = self.server.lie(exchange.operation, exchange.arguments, status, document)
            document = lied
        return status, json.dumps(document).encode()

    def _stream(self, response: http.client.HTTPResponse, content_type: str) -> None:
        """Events are passed on; `lie` may change their lines."""
        self.send_response(response.status)
        self.send_header("Content-Type", content_type)
        self.end_headers()
        try:
            for line in response:
                _, lied = self.server.lie("event line", {}, 200, {"line": line.decode()})
                self.wfile.write(lied["line"].encode())
                self.wfile.flush()
        except (OSError, http.client.HTTPException):
            pass

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


@contextmanager
def lying(server_url: str, lie: Lie) -> Iterator[LyingProxy]:
    proxy = LyingProxy(server_url, lie)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        thread.join()
        proxy.end_streams()
        proxy.server_close()
