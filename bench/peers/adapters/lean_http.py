"""A connection to the server with nothing around it: what a call costs a client at the least."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit


class LeanConnection:
    """Calls, one after the other. Raises RuntimeError when the server refuses one."""

    def __init__(self, url: str, headers: str = "") -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._headers = f"Host: {address.netloc}\r\nContent-Type: application/json\r\n{headers}"

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        content = json.dumps(body)
        self._socket.sendall(
            f"POST {path} HTTP/1.1\r\n{self._headers}"
            f"Content-Length: {len(content)}\r\n\r\n{content}".encode()
        )
        head, answer = self._response()
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{path}: {head!r} {answer!r}")
        decoded: dict[str, Any] = json.loads(answer)
        return decoded

    def _response(self) -> tuple[bytes, bytes]:
        head, body = b"", self._received()
        while b"\r\n\r\n" not in body:
            body += self._received()
        head, _, body = body.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        while len(body) < length:
            body += self._received()
        return head, body

    def _received(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise RuntimeError("the server closed the connection")
        return data
