"""Load on MCP: heartbeats over many connections, each of which waits for its response.

`python -m bench.mcp_load http|plain|sdk URL CONNECTIONS CALLS` prints the calls per second. `http`
sends the same operation to `/bus/heartbeat`. `sdk` ranks the forms of a response, which leaves
the call to the SDK; otherwise it is the same as `plain`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any, cast
from urllib.parse import urlsplit

import uvloop

_ACCEPT = "application/json, text/event-stream"
_ACCEPT_RANKED = "application/json;q=1, text/event-stream"


def http_request(url: str, path: str, body: dict[str, Any], headers: str = "") -> bytes:
    content = json.dumps(body)
    return (
        f"POST {path} HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
        f"Content-Type: application/json\r\n{headers}"
        f"Content-Length: {len(content)}\r\n\r\n{content}"
    ).encode()


def call_request(url: str, tool: str, arguments: dict[str, Any], *, plain: bool = True) -> bytes:
    params = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    accept = _ACCEPT if plain else _ACCEPT_RANKED
    headers = f"Accept: {accept}\r\nMCP-Protocol-Version: 2025-11-25\r\n"
    return http_request(url, "/mcp", body, headers)


class Connection(asyncio.Protocol):
    """`send` returns the future of the response, which may be chunked."""

    def __init__(self) -> None:
        self._buffer = b""
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, body = self._buffer.partition(b"\r\n\r\n")
        if separator and self._answer is not None and _is_complete(head.lower(), body):
            answer, self._answer, self._buffer = self._answer, None, b""
            if head.startswith(b"HTTP/1.1 200"):
                answer.set_result(body)
            else:
                answer.set_exception(RuntimeError(f"{head!r} {body!r}"))


def _is_complete(head: bytes, body: bytes) -> bool:
    if b"content-length:" in head:
        return len(body) >= int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
    return body.endswith(b"0\r\n\r\n")


async def connect(url: str) -> Connection:
    address = urlsplit(url)
    _, connection = await asyncio.get_running_loop().create_connection(
        Connection, address.hostname or "", address.port or 0
    )
    return connection


def heartbeat(kind: str, url: str, name: str) -> bytes:
    if kind == "http":
        return http_request(url, "/bus/heartbeat", {"name": name})
    return call_request(url, "heartbeat", {"name": name}, plain=kind == "plain")


async def _repeat(connection: Connection, request: bytes, calls: int) -> None:
    for _ in range(calls):
        await connection.send(request)


async def rate(kind: str, url: str, connections: int, calls: int) -> float:
    """Calls per second."""
    opened = [await connect(url) for _ in range(connections)]
    requests = [heartbeat(kind, url, f"w-{number}") for number in range(connections)]
    for number, connection in enumerate(opened):
        await connection.send(http_request(url, "/bus/register_worker", {"name": f"w-{number}"}))
        await connection.send(requests[number])
    each = calls // connections
    started_at = time.perf_counter()
    await asyncio.gather(
        *(
            _repeat(connection, request, each)
            for connection, request in zip(opened, requests, strict=True)
        )
    )
    seconds = time.perf_counter() - started_at
    return each * connections / seconds


def main() -> None:
    kind, url, connections, calls = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(runner.run(rate(kind, url, int(connections), int(calls))))


if __name__ == "__main__":
    main()
