"""Calls of the kit itself: plain HTTP, the bus, and MCP tools, with a record of every exchange."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Any, Final, NamedTuple

import httpx2

from shiftboss.client.server_address import Server
from shiftboss.conformance.checks import Broken
from shiftboss.conformance.exchanges import Exchange, answer_document, answer_of, exchange_of
from shiftboss.errors import ShiftbossError

CALL_SECONDS: Final = 30.0
PAGES_MAX: Final = 50
ANSWER_BYTES_MAX: Final = 16 * 2**20
REVISION: Final = "2025-06-18"
_MCP_HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": REVISION,
}

# The client's own timeouts come first: they say more.
GRACE_SECONDS: Final = 0.5


class OwnCallRefused(ShiftbossError):
    """A mistake of the kit, and not of the worker: the checks end here."""

    code = "own_call_refused"


class Answered(NamedTuple):
    """`is_error`: an HTTP error, or an MCP result that says so."""

    status: int
    document: dict[str, Any]
    is_error: bool
    headers: Mapping[str, str]


class ServerCalls:
    """Raises Broken if there is no answer at all."""

    def __init__(self, server: Server) -> None:
        self.address = server.address
        self.exchanges: list[Exchange] = []
        self._http = server.client()
        self._numbers = itertools.count(1)
        self._session: dict[str, str] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        self._http.close()

    def get(self, path: str) -> Answered:
        return self._send("GET", path, b"", {})

    def post(
        self, path: str, body: object, *, key: str | None = None, seconds: float = CALL_SECONDS
    ) -> Answered:
        """`body` is sent as JSON, or as it is if it is bytes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        return self._send("POST", path, content, headers, seconds)

    def bus(self, operation: str, /, **members: object) -> dict[str, Any]:
        """An operation of the kit's own server, which must succeed."""
        answered = self.post(f"/bus/{operation}", members)
        if answered.is_error:
            detail = f"{operation}: {json.dumps(answered.document)[:300]}"
            raise OwnCallRefused(f"the kit's own call was refused: {detail}")
        return answered.document

    def tool(self, name: str, arguments: Mapping[str, object], seconds: float) -> Answered:
        """An MCP tool."""
        return self._rpc("tools/call", {"name": name, "arguments": dict(arguments)}, seconds)

    def tools(self) -> dict[str, dict[str, Any]]:
        """The tools that the server offers, by name."""
        self._initialize()
        tools: dict[str, dict[str, Any]] = {}
        cursor: dict[str, Any] = {}
        for _ in range(PAGES_MAX):
            result = self._rpc("tools/list", cursor, CALL_SECONDS).document
            tools |= {str(tool.get("name")): tool for tool in result.get("tools") or ()}
            if not result.get("nextCursor"):
                break
            cursor = {"cursor": result["nextCursor"]}
        return tools

    @contextmanager
    def stream(
        self, path: str, headers: Mapping[str, str], seconds: float
    ) -> Iterator[httpx2.Response]:
        """An answer that is read while it comes. Raises Broken if there is none."""
        exchange = exchange_of("GET", path, headers, b"")
        self.exchanges.append(exchange)
        request = self._http.build_request("GET", path, headers=headers, timeout=seconds)
        try:
            response = within(seconds, lambda: self._http.send(request, stream=True))
            with closing(response):
                exchange.status, exchange.is_delivered = response.status_code, True
                exchange.answered_at = time.monotonic()
                yield response
        except httpx2.HTTPError as error:
            raise Broken(f"no answer to GET {path}: {error}") from None

    def _initialize(self) -> None:
        client = {"name": "shiftboss-conformance", "version": "1"}
        params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        answered = self._rpc("initialize", params, CALL_SECONDS)
        session = answered.headers.get("mcp-session-id")
        self._session = {"Mcp-Session-Id": session} if session else {}
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self._mcp(note, CALL_SECONDS)

    def _rpc(self, method: str, params: dict[str, Any], seconds: float) -> Answered:
        with self._lock:
            number = next(self._numbers)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        return self._mcp(request, seconds)

    def _mcp(self, request: dict[str, Any], seconds: float) -> Answered:
        headers = {"Content-Type": "application/json", **_MCP_HEADERS, **self._session}
        return self._send("POST", "/mcp", json.dumps(request).encode(), headers, seconds)

    def _receive(self, request: httpx2.Request, seconds: float) -> tuple[httpx2.Response, bytes]:
        response = within(seconds, lambda: self._http.send(request, stream=True))
        with closing(response):
            return response, _bounded(response.iter_bytes(), seconds)

    def _send(
        self,
        method: str,
        path: str,
        content: bytes,
        headers: dict[str, str],
        seconds: float = CALL_SECONDS,
    ) -> Answered:
        exchange = exchange_of(method, path, headers, content)
        self.exchanges.append(exchange)
        request = self._http.build_request(
            method, path, content=content or None, headers=headers, timeout=seconds
        )
        try:
            response, answer = self._receive(request, seconds)
        except httpx2.HTTPError as error:
            detail = str(error) or type(error).__name__
            raise Broken(f"no answer to {method} {path} ({exchange.operation}): {detail}") from None
        finally:
            exchange.answered_at = time.monotonic()
        content_type = response.headers.get("content-type", "")
        document = answer_of(path, content_type, answer) or {}
        exchange.status, exchange.answer, exchange.is_delivered = (
            response.status_code,
            document,
            True,
        )
        is_error = not response.is_success or _is_tool_error(content_type, answer)
        return Answered(response.status_code, document, is_error, response.headers)


def _bounded(chunks: Iterator[bytes], seconds: float) -> bytes:
    """A server that sends a byte now and then, or without end, does not stop the kit."""
    deadline = time.monotonic() + seconds
    received = bytearray()
    for chunk in chunks:
        received += chunk
        if time.monotonic() > deadline or len(received) > ANSWER_BYTES_MAX:
            raise Broken(f"an answer of {len(received)} bytes has no end within {seconds:g} s")
    return bytes(received)


def _is_tool_error(content_type: str, body: bytes) -> bool:
    document = answer_document(content_type, body)
    result = document.get("result")
    return "error" in document or (isinstance(result, dict) and bool(result.get("isError")))


def within(seconds: float, send: Callable[[], httpx2.Response]) -> httpx2.Response:
    """Raises Broken. Every byte starts the client's timeouts again, so a server that drips its
    headers, or sends interim answers without end, would stop the kit."""
    answered: Future[httpx2.Response] = Future()

    def run() -> None:
        try:
            answered.set_result(send())
        except Exception as error:  # noqa: BLE001 (raised below)
            answered.set_exception(error)

    threading.Thread(target=run, name="conformance-call", daemon=True).start()
    try:
        return answered.result(seconds + GRACE_SECONDS)
    except TimeoutError:
        answered.add_done_callback(_close)
        raise Broken(f"the head of an answer has no end within {seconds:g} s") from None


def _close(answered: Future[httpx2.Response]) -> None:
    if answered.exception() is None:
        answered.result().close()
