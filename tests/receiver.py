"""A receiver of webhooks on 127.0.0.1 that does what a test tells it to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

Reaction = int | Literal["hang", "redirect", "endless"]
SECRET = "a secret of the tests, long enough"


class Received(NamedTuple):
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def message_id(self) -> str:
        return self.headers["webhook-id"]

    def is_signed(self, secret: str = SECRET) -> bool:
        """By the words of the standard, and not with our own code."""
        content = f"{self.message_id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        digest = base64.b64encode(hmac.digest(secret.encode(), content, hashlib.sha256)).decode()
        return self.headers["webhook-signature"].split(" ") == [f"v1,{digest}"]


class Receiver:
    """`reactions` are taken one by one; after them every request is answered with 204."""

    def __init__(self, *reactions: Reaction) -> None:
        self.reactions = list(reactions)
        self.received: list[Received] = []
        self._released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.received.append(Received(self.path, headers, self.rfile.read(length)))
                receiver._react(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/hook"

    @property
    def ids(self) -> list[str]:
        return [each.message_id for each in self.received]

    def release(self) -> None:
        """Let go of the requests that hang."""
        self._released.set()

    def _react(self, request: BaseHTTPRequestHandler) -> None:
        reaction = self.reactions.pop(0) if self.reactions else 204
        if reaction == "hang":
            self._released.wait(60)
            return
        request.send_response(302 if reaction == "redirect" else _status(reaction))
        if reaction == "redirect":
            request.send_header("location", f"{self.url}/elsewhere")
        request.end_headers()
        try:
            while reaction == "endless" and not self._released.is_set():
                request.wfile.write(b"x" * 65_536)
        except OSError:
            pass


def _status(reaction: Reaction) -> int:
    return reaction if isinstance(reaction, int) else 200
