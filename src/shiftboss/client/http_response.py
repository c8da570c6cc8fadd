"""Requests and responses of HTTP/1.1 as bytes, for the calls that a client makes all the time.

Only what a Shiftboss server and the proxies in front of one use: a body with a length, in chunks,
or up to the end of the connection. Anything else is no response.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
BODY_BYTES_MAX: Final = 256 * 2**20
_CHUNK_LINE_MAX: Final = 1024


class BadResponseError(Exception):
    """The bytes are not a response that this client reads."""


def request_bytes(
    path: str, host: str, headers: Mapping[str, str], body: Mapping[str, object] | None
) -> bytes:
    """A POST of the body as JSON, or a GET without one."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if body is None:
        return f"GET {path} HTTP/1.1\r\nhost: {host}\r\n{lines}\r\n".encode()
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {host}\r\n{lines}content-type: application/json\r\n"
        f"content-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


class Response:
    """A response, as it arrives. It has what `read_reply` asks of one."""

    def __init__(self) -> None:
        self.status_code = 0
        self.headers: dict[str, str] = {}
        self.content = b""
        self.is_complete = False
        # Whether another request may follow on the connection.
        self.keeps_open = False
        # What was received and not read yet. Nothing is copied again with every piece.
        self._buffer = bytearray()
        self._chunks = bytearray()
        self._length: int | None = None
        self._in_chunks = False
        self._has_head = False

    @property
    def is_success(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def has_begun(self) -> bool:
        return self._has_head or bool(self._buffer)

    def feed(self, data: bytes) -> None:
        """`data` is what was received, empty at the end of the connection."""
        self._buffer += data
        if not self._has_head:
            self._read_head()
        if self._has_head:
            self._read_body(at_end=not data)
        if not data and not self.is_complete:
            raise BadResponseError("the connection was closed without a complete reply")

    def _read_head(self) -> None:
        while not self._has_head:
            end = self._buffer.find(b"\r\n\r\n")
            if (len(self._buffer) if end < 0 else end) > HEAD_BYTES_MAX:
                raise BadResponseError("the head of the reply is too long")
            if end < 0:
                return
            head = self._buffer[:end].decode("latin-1")
            del self._buffer[: end + 4]
            self._parse_head(head)

    def _parse_head(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        status = rest[:3]
        is_number = len(status) == 3 and status.isascii() and status.isdigit()
        if version not in ("HTTP/1.1", "HTTP/1.0") or not is_number:
            raise BadResponseError("the reply is not HTTP/1.1")
        self.status_code = int(status)
        if 100 <= self.status_code < 200:
            return  # the response itself follows
        headers: dict[str, str] = {}
        for line in lines:
            name, separator, value = line.partition(":")
            name, value = name.lower(), value.strip()
            if not separator or not name or name != name.strip():
                raise BadResponseError("a header of the reply is malformed")
            if name == "content-length" and headers.get(name, value) != value:
                raise BadResponseError("the reply has two lengths")
            is_repeated = name in headers and name != "content-length"
            headers[name] = f"{headers[name]}, {value}" if is_repeated else value
        self.headers = headers
        self._has_head = True
        self._understand(version)

    def _understand(self, version: str) -> None:
        headers = self.headers
        coding = headers.get("transfer-encoding", "").lower()
        if (
            coding not in ("", "chunked")
            or headers.get("content-encoding", "identity") != "identity"
        ):
            raise BadResponseError("the reply has an unknown encoding")
        self._in_chunks = coding == "chunked"
        length = headers.get("content-length")
        if self.status_code in (204, 304):
            self._length = 0
        elif length is not None and not self._in_chunks:
            self._length = _length_of(length)
        has_end = self._in_chunks or self._length is not None
        closes = "close" in headers.get("connection", "").lower()
        # With two ends, a proxy may take what is left of one reply for the next.
        has_two_ends = self._in_chunks and length is not None
        self.keeps_open = version == "HTTP/1.1" and has_end and not closes and not has_two_ends

    def _read_body(self, *, at_end: bool) -> None:
        if self._in_chunks:
            self._read_chunks()
        elif self._length is None:
            self.is_complete = at_end
        else:
            self.is_complete = len(self._buffer) >= self._length
            # Bytes that nobody asked for: the connection cannot be used again.
            self.keeps_open &= len(self._buffer) <= self._length
        if len(self._buffer) + len(self._chunks) > BODY_BYTES_MAX:
            raise BadResponseError("the reply is too long")
        if self.is_complete:
            self.content = bytes(self._chunks if self._in_chunks else self._buffer[: self._length])

    def _read_chunks(self) -> None:
        buffer = self._buffer
        position = 0
        while (end := buffer.find(b"\r\n", position)) >= 0:
            size = _size_of(bytes(buffer[position:end]))
            if size == 0:
                self._read_trailers(bytes(buffer[end + 2 :]))
                break
            chunk_end = end + 2 + size
            if len(buffer) < chunk_end + 2:
                break
            if buffer[chunk_end : chunk_end + 2] != b"\r\n":
                raise BadResponseError("a chunk of the reply is malformed")
            self._chunks += buffer[end + 2 : chunk_end]
            position = chunk_end + 2
        del buffer[:position]
        if end < 0 and len(buffer) > _CHUNK_LINE_MAX:
            raise BadResponseError("a chunk of the reply is malformed")

    def _read_trailers(self, rest: bytes) -> None:
        """They say nothing that is needed here."""
        self.is_complete = rest.startswith(b"\r\n") or b"\r\n\r\n" in rest
        if self.is_complete:
            self.keeps_open &= rest == b"\r\n"
        if len(rest) > HEAD_BYTES_MAX:
            raise BadResponseError("the trailers of the reply are too long")


def _length_of(digits: str) -> int:
    # Python refuses to convert thousands of digits.
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 20
    if not is_number or int(digits) > BODY_BYTES_MAX:
        raise BadResponseError("the length of the reply is not possible")
    return int(digits)


def _size_of(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 8 or digits.strip(b"0123456789abcdefABCDEF"):
        raise BadResponseError("a chunk of the reply is malformed")
    return int(digits, 16)
