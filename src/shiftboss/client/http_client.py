"""The one HTTP client for the server that retries.

One exchange ends in one of three ways:

* the server's answer, a JSON object;
* its refusal, raised as the error of `shiftboss.errors` that its problem document names;
* no usable reply, raised as ServerUnreachable: no connection, a server that is busy, or a reply
  that is not from a Shiftboss server.

Only ServerUnreachable is retried. An idempotency key makes a retry safe: the server runs a request
once per key and answers a repeat with the first answer. So do other servers on the same database:
with several addresses, an exchange that fails at one of them is repeated at the next.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar
from uuid import uuid4

import httpx2
from pydantic import ValidationError

from shiftboss.client.backoff import backoff_delays, delay_after
from shiftboss.client.errors import (
    ServerBusy,
    ServerUnreachable,
    TlsFailed,
    UnrecognizedReply,
    error_from_problem,
    is_problem,
    is_retryable_status,
    parse_json_object,
    retry_after,
)
from shiftboss.client.http_response import Response
from shiftboss.client.kept_connections import KeptConnections
from shiftboss.client.server_address import TIMEOUT, Server
from shiftboss.client.servers import Attempts, Servers
from shiftboss.errors import InvalidRequest, ShiftbossError, Unauthorized
from shiftboss.protocol.fields import SWARM_ID_PATTERN, Request, is_swarm_id
from shiftboss.protocol.problems import invalid_request
from shiftboss.system.tls import plain_http_problem, tls_problem

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Request)

AnyResponse = httpx2.Response | Response

_PLAIN_PATH: Final = re.compile(r"/[\w/.~-]*", re.ASCII)


def validated(model: type[R], **members: object) -> R:
    """The request. Raises the InvalidRequest that the server would answer, with the field."""
    try:
        return model.model_validate(members)
    except ValidationError as error:
        raise invalid_request(error) from None


def swarm_path(swarm_id: str, operation: str) -> str:
    if not is_swarm_id(swarm_id):
        raise InvalidRequest(
            f"swarm_id: {swarm_id!r} does not match {SWARM_ID_PATTERN}", field="swarm_id"
        )
    return f"/swarm/{swarm_id}/{operation}"


def new_idempotency_key() -> str:
    """A key belongs to one report: the report counts once, however often it is sent."""
    return uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """A POST of `body`, or a GET without one. `members` tell the answer from other JSON.
    `timeout` is called before each attempt, if it depends on the time that is left."""

    path: str
    body: Mapping[str, object] | None = None
    key: str | None = None
    members: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: httpx2.Timeout | Callable[[], httpx2.Timeout] = field(default_factory=lambda: TIMEOUT)

    @property
    def is_repeatable(self) -> bool:
        """Whether it counts once, however often it is sent."""
        return self.body is None or self.key is not None

    @property
    def is_plain(self) -> bool:
        """Whether its path and its headers can be sent as they are."""
        return _PLAIN_PATH.fullmatch(self.path) is not None and all(
            value.isascii() and value.isprintable() for value in self.own_headers().values()
        )

    def own_headers(self) -> Mapping[str, str]:
        return {**self.headers, "idempotency-key": self.key} if self.key else self.headers

    def timeout_now(self) -> httpx2.Timeout:
        return self.timeout() if callable(self.timeout) else self.timeout

    def arguments(self) -> dict[str, Any]:
        """Of `httpx2.Client.request`."""
        arguments = {
            "url": self.path,
            "headers": self.own_headers(),
            "timeout": self.timeout_now(),
        }
        if self.body is None:
            return arguments | {"method": "GET"}
        return arguments | {"method": "POST", "json": self.body}


class ServerReply(NamedTuple):
    """The server's answer, and the bytes that it was parsed from."""

    answer: dict[str, Any]
    content: bytes


# Answers without a token, so that its answer says nothing about the token.
_OPEN_PATH: Final = "/health"


class HttpClient:
    """Requests to the server, from event loops and from threads.

    Over plain HTTP, connections are kept. Otherwise every request opens and closes a connection of
    its own, so that nothing stays open when an event loop ends; between `with` or `async with`,
    requests share their connections.
    """

    def __init__(self, server: Server | Servers) -> None:
        self.servers = Servers.at(server)
        self._kept: dict[Server, KeptConnections] = {}
        self._shared: dict[Server, httpx2.Client] | None = None
        self._shared_async: dict[Server, httpx2.AsyncClient] | None = None

    async def send(self, request: ServerRequest) -> ServerReply:
        """One exchange, at each address once if need be."""
        attempts = Attempts(self.servers, is_repeatable=request.is_repeatable)
        for server in attempts:
            try:
                with connection_errors(server.address, server.ca):
                    response = await self._request_async(server, request)
                return self._read(response, request)
            except (ServerUnreachable, Unauthorized) as error:
                attempts.note_failure(server, error)
        raise AssertionError("attempts end with an error")

    async def _request_async(self, server: Server, request: ServerRequest) -> AnyResponse:
        kept = self._kept_connections(server, request)
        if kept is not None:
            return await kept.exchange(
                request.path,
                request.own_headers(),
                request.body,
                request.timeout_now(),
                is_repeatable=request.is_repeatable,
            )
        if self._shared_async is None:
            async with server.async_client() as client:
                return await client.request(**request.arguments())
        if server not in self._shared_async:
            self._shared_async[server] = server.async_client()
        return await self._shared_async[server].request(**request.arguments())

    def _kept_connections(self, server: Server, request: ServerRequest) -> KeptConnections | None:
        """None for what needs the full client: TLS, a proxy, an unusual path or header."""
        kept = self._kept.get(server)
        if kept is None and server.is_plain:
            self._close_kept(server.address)  # they have a token that was replaced
            kept = self._kept.setdefault(server, KeptConnections(server.address, server.token))
        return kept if request.is_plain else None

    def _close_kept(self, address: str | None = None) -> None:
        """Those to one address, or all."""
        for server in list(self._kept):
            if address in (None, server.address):
                kept = self._kept.pop(server, None)
                if kept is not None:
                    kept.close()

    def _read(self, response: AnyResponse, request: ServerRequest) -> ServerReply:
        reply = read_reply(response, *request.members)
        if request.path != _OPEN_PATH:
            self.servers.note_accepted()
        return reply

    async def send_until_answered(
        self,
        request: ServerRequest,
        on_failure: Callable[[ServerUnreachable], None] | None = None,
    ) -> ServerReply:
        """Retries forever. `on_failure` is called after each attempt that failed."""
        delays, is_first = backoff_delays(), True
        while True:
            try:
                return await self.send(request)
            except ServerUnreachable as error:
                # Only a person can fix a certificate; this is logged once.
                level = logging.WARNING if isinstance(error, TlsFailed) else logging.INFO
                log.log(level if is_first else logging.INFO, "%s: %s", request.path, error.detail)
                is_first = False
                if on_failure is not None:
                    on_failure(error)
                else:
                    self.servers.tell_refusal_once(error)
                delay = delay_after(error, delays)
            await asyncio.sleep(delay)

    def send_blocking(self, request: ServerRequest) -> ServerReply:
        """As `send`, from a thread."""
        attempts = Attempts(self.servers, is_repeatable=request.is_repeatable)
        for server in attempts:
            try:
                with connection_errors(server.address, server.ca):
                    response = self._request_blocking(server, request)
                return self._read(response, request)
            except (ServerUnreachable, Unauthorized) as error:
                attempts.note_failure(server, error)
        raise AssertionError("attempts end with an error")

    def _request_blocking(self, server: Server, request: ServerRequest) -> AnyResponse:
        kept = self._kept_connections(server, request)
        if kept is not None:
            return kept.exchange_blocking(
                request.path,
                request.own_headers(),
                request.body,
                request.timeout_now(),
                is_repeatable=request.is_repeatable,
            )
        if self._shared is None:
            with server.client() as client:
                return client.request(**request.arguments())
        if server not in self._shared:
            self._shared[server] = server.client()
        return self._shared[server].request(**request.arguments())

    def send_blocking_within(self, seconds: float, request: ServerRequest) -> ServerReply:
        """Retries from a thread. Raises ServerUnreachable when the next attempt would be late."""
        deadline = time.monotonic() + seconds
        delays = backoff_delays()
        while True:
            try:
                return self.send_blocking(request)
            except ServerUnreachable as error:
                delay = delay_after(error, delays)
                if time.monotonic() + delay > deadline:
                    raise
            time.sleep(delay)

    def __enter__(self) -> Self:
        self._shared = {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shared, self._shared = self._shared or {}, None
        self._close_kept()
        for client in shared.values():
            client.close()

    async def __aenter__(self) -> Self:
        self._shared_async = {}
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shared, self._shared_async = self._shared_async or {}, None
        self._close_kept()
        for client in shared.values():
            await client.aclose()


@contextmanager
def connection_errors(address: str, ca: str | None = None) -> Iterator[None]:
    """Raises errors of the connection as ServerUnreachable."""
    try:
        yield
    except httpx2.RequestError as error:
        problem = tls_problem(error, address, ca)
        if problem is not None:
            raise TlsFailed(problem) from error
        unreachable = ServerUnreachable(
            f"no answer from {address}: {str(error) or type(error).__name__}",
            hint="is the server running? `shiftboss serve` starts one; SHIFTBOSS_URL names it",
        )
        unreachable.is_unchanged = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
        raise unreachable from error


def read_reply(response: AnyResponse, *members: str) -> ServerReply:
    """The answer in a response whose body was read. Raises what the server refused, or
    ServerUnreachable."""
    document = parse_json_object(response.content)
    if response.is_success and document is not None and document.keys() >= set(members):
        return ServerReply(document, response.content)
    raise _error_of(response, document)


def _error_of(response: AnyResponse, document: dict[str, Any] | None) -> ShiftbossError:
    plain_http = plain_http_problem(response.status_code, response.content)
    if plain_http is not None:
        return TlsFailed(plain_http)
    is_retryable = is_retryable_status(response.status_code)
    error: ServerUnreachable
    if not response.is_success and document is not None and is_problem(document):
        problem = error_from_problem(response.status_code, document)
        if not is_retryable:
            return problem
        error = ServerBusy(problem)
    else:
        error_class = ServerUnreachable if is_retryable else UnrecognizedReply
        error = error_class(f"the reply ({response.status_code}) is not from a Shiftboss server")
    error.retry_after_seconds = retry_after(response.headers.get("retry-after"))
    return error
