"""The HTTP client of the commands.

It stands beside `shiftboss.client` for one reason: start-up time. A command makes one or two
requests and does not retry, and the standard library's client is loaded in a few milliseconds. Both
clients read problem documents with `shiftboss.client.errors`.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from shiftboss.client.addresses import Addresses, split_addresses
from shiftboss.client.errors import bad_authorities, is_problem, parse_json_object
from shiftboss.client.token_files import TokenSource
from shiftboss.defaults import ADDRESS, STATE_FOLDER, TOKEN_VARIABLE
from shiftboss.errors import ShiftbossError
from shiftboss.system.loopback import is_loopback
from shiftboss.system.tls import TlsProblem, open_connection, plain_http_problem, tls_problem
from shiftboss.system.token_files import BadToken, read_token_file

ANSWER_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 3.0
_DEFAULT_URL: Final = urlsplit(ADDRESS)

T = TypeVar("T")


class BadAddress(ShiftbossError):
    code = "bad_address"
    title = "Not the address of a server"


class NoServer(ShiftbossError):
    code = "no_server"
    title = "No server answers"


class NoSecureConnection(NoServer):
    """A certificate is not accepted, or one side does not speak TLS."""

    code = "tls_failed"
    title = "There is no secure connection"

    def __init__(self, problem: TlsProblem) -> None:
        super().__init__(problem.detail, hint=problem.hint)


class NotShiftboss(ShiftbossError):
    code = "not_shiftboss"
    title = "The reply is not from a Shiftboss server"

    def __init__(self, detail: str, http_status: int = 0) -> None:
        super().__init__(detail, hint="is --server right?")
        self.http_status = http_status


class RequestRefused(ShiftbossError):
    """The server's problem document: `document` as it was sent, `problem` parsed."""

    code = "refused"
    title = "The server refused"

    def __init__(self, document: bytes, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem["detail"]), hint=problem.get("hint"))
        self.document = document
        self.problem = problem
        self.http_status = int(problem.get("status", 0))


class TokenNotAccepted(RequestRefused):
    """Says whether a token was sent, and which: a wrong one and a missing one need different
    steps."""

    title = "The server does not accept the token"

    def __init__(
        self,
        document: bytes,
        problem: Mapping[str, Any],
        sent: TokenSource,
        operators: Path | None,
    ) -> None:
        super().__init__(document, problem)
        if sent.token is None:
            self.hint = f"no token was sent: set {TOKEN_VARIABLE}, or give --token-file"
            if operators is not None:
                self.hint += f"; as the operator: --token-file {shlex.quote(str(operators))}"
        else:
            self.hint = f"the token in {sent.name or 'use'} was sent; is it the current one?"


class Client:
    """Requests to the server. Each opens a connection of its own: a command makes one or two.

    `address` may name several servers on one database: a request that fails at one of them goes to
    the next. `looked_in`: the address was not given, and this folder did not lead to a server.
    `operators`: the file with the operator's token, for a hint.
    """

    def __init__(
        self,
        address: str = ADDRESS,
        token: str | TokenSource | None = None,
        operator_token: str | None = None,
        looked_in: Path | None = None,
        operators: Path | None = None,
    ) -> None:
        given = split_addresses(address) or [address]
        self._urls = {url.rstrip("/"): _parse_address(url) for url in given}
        self._addresses = Addresses(list(self._urls))
        self._looked_in = looked_in
        self._operators = operators
        self._token = token if isinstance(token, TokenSource) else TokenSource(token, None, "")
        self._headers = {"Accept": "application/json", "Connection": "close"}
        if operator_token is not None:
            self._headers["Shiftboss-Operator"] = operator_token

    @property
    def address(self) -> str:
        """The one in use."""
        return self._addresses.current

    def move_on(self) -> None:
        """Use the next address, because the one in use has become silent."""
        self._addresses.move_on(self.address)

    def get(self, path: str, query: Mapping[str, object] | None = None) -> bytes:
        target = f"{path}?{urlencode(query)}" if query else path
        return self._at_each_address(lambda: self._read(self._send("GET", target, ANSWER_SECONDS)))

    def post(
        self,
        path: str,
        body: Mapping[str, object],
        key: str | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> bytes:
        """`key` is an idempotency key: a request that is repeated under it counts once."""
        # Without a second address nothing is repeated, so that no key is needed.
        key = key or (os.urandom(16).hex() if len(self._addresses) > 1 else None)
        return self._at_each_address(
            lambda: self._read(
                self._send("POST", path, seconds, json.dumps(body).encode(), key), seconds
            )
        )

    def call_bus(self, operation: str, swarm_id: str | None, /, **members: object) -> bytes:
        """An operation of the bus. Members that are None are not sent."""
        return self.post(f"/bus/{operation}", body_of(swarm_id, members))

    def open(
        self,
        path: str,
        query: Mapping[str, object] | None = None,
        silence_seconds: float = ANSWER_SECONDS,
    ) -> HTTPResponse:
        """A response whose body is not read yet."""
        target = f"{path}?{urlencode(query)}" if query else path
        return self._at_each_address(lambda: self._send("GET", target, silence_seconds))

    def _at_each_address(self, exchange: Callable[[], T]) -> T:
        """Each once, until one answers. Raises the error of the last."""
        for _ in range(len(self._addresses) - 1):
            address = self.address
            try:
                return exchange()
            except (NoServer, NotShiftboss, RequestRefused) as error:
                if isinstance(error, RequestRefused) and error.http_status < 500:
                    raise
                self._addresses.move_on(address)
        return exchange()

    def _read(self, response: HTTPResponse, seconds: float = ANSWER_SECONDS) -> bytes:
        with self.connection_errors(seconds), response:
            return response.read()

    def _send(
        self,
        method: str,
        target: str,
        silence_seconds: float,
        body: bytes | None = None,
        key: str | None = None,
    ) -> HTTPResponse:
        headers = self._headers | ({"Content-Type": "application/json"} if body else {})
        headers |= {"Idempotency-Key": key} if key else {}
        headers |= {"Authorization": f"Bearer {self._token.token}"} if self._token.token else {}
        with self.connection_errors(silence_seconds):
            response = self._exchange(method, target, silence_seconds, body, headers)
            if response.status >= 300:
                with response:
                    raise self._refusal(response.status, response.read())
        return response

    def _exchange(
        self,
        method: str,
        target: str,
        silence_seconds: float,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> HTTPResponse:
        url = self._urls[self.address]
        try:
            connection = open_connection(url, silence_seconds)
        except OSError as error:
            raise bad_authorities(None, error) from error
        try:
            if len(self._addresses) > 1:
                # A machine that is gone does not even refuse, and another may answer at once.
                connection.timeout = min(silence_seconds, CONNECT_SECONDS)
                connection.connect()
                connection.sock.settimeout(silence_seconds)
            connection.request(method, url.path.rstrip("/") + target, body, headers)
            return connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def renew_token(self) -> bool:
        """Whether the file of the token holds another one than before."""
        if self._token.file is None:
            return False
        try:
            token = read_token_file(self._token.file)
        except BadToken:
            return False
        is_new = token != self._token.token
        self._token = self._token._replace(token=token)
        return is_new

    def close(self) -> None:
        """Release what the requests have opened: nothing, with a server."""

    def _refusal(self, status: int, body: bytes) -> ShiftbossError:
        plain_http = plain_http_problem(status, body)
        if plain_http is not None:
            return NoSecureConnection(plain_http)
        problem = parse_json_object(body)
        if problem is not None and is_problem(problem) and "detail" in problem:
            if status == HTTPStatus.UNAUTHORIZED:
                return TokenNotAccepted(body, problem, self._token, self._operators)
            return RequestRefused(body, problem)
        return NotShiftboss(
            f"{self.address} answered {status}, but not as a Shiftboss server does", status
        )

    @contextmanager
    def connection_errors(self, seconds: float = ANSWER_SECONDS) -> Iterator[None]:
        """Raises errors of the connection as NoServer or NotShiftboss."""
        try:
            yield
        except TimeoutError as error:
            raise NoServer(
                f"the server at {self.address} does not answer",
                hint=f"waited {seconds:.0f} seconds; see its log",
            ) from error
        except (ConnectionError, IncompleteRead) as error:
            if isinstance(error, ConnectionRefusedError):
                raise self._nobody_listens() from error
            raise NoServer(
                f"the server at {self.address} closed the connection",
                hint=self._closed_hint(),
            ) from error
        except OSError as error:
            problem = tls_problem(error, self.address)
            raise NoSecureConnection(problem) if problem else self._nobody_listens() from error
        except HTTPException as error:
            raise NotShiftboss(f"the server at {self.address} is not a Shiftboss server") from error

    def _closed_hint(self) -> str:
        hint = "see its log, then try again"
        is_plain = self._urls[self.address].scheme == "http"
        return f"{hint}; if it speaks TLS, use https://" if is_plain else hint

    def _nobody_listens(self) -> NoServer:
        detail = f"no server at {self._addresses}"
        if self._looked_in is not None:
            detail += f", and no {STATE_FOLDER} with a database in {self._looked_in} or above it"
        return NoServer(detail, hint=_start_hint(self._urls[self.address]))


def _start_hint(url: SplitResult) -> str | None:
    """The command that starts a server at this address. None if that is not on this machine."""
    host = url.hostname or ""
    if not is_loopback(host) or url.scheme != "http" or url.path.strip("/"):
        return None
    command = "start one with: shiftboss serve"
    command += f" --host {host}" if host != _DEFAULT_URL.hostname else ""
    return command + (f" --port {url.port or 80}" if url.port != _DEFAULT_URL.port else "")


def body_of(swarm_id: str | None, members: Mapping[str, object]) -> dict[str, object]:
    """The body of a request, without the members that are None: the server has its defaults. That
    of the swarm is the one that the token is limited to."""
    named = {"swarm_id": swarm_id, **members}
    return {name: value for name, value in named.items() if value is not None}


def swarm_path(swarm_id: str, operation: str) -> str:
    return f"/swarm/{quote(swarm_id, safe='')}/{operation}"


def parse_answer(document: bytes, member: str) -> dict[str, Any]:
    """The answer as a dictionary; `member` tells it from other JSON. Raises NotShiftboss."""
    try:
        answer = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise NotShiftboss("the answer is not JSON") from error
    if not isinstance(answer, dict) or member not in answer:
        raise NotShiftboss("the answer is not from a Shiftboss server")
    return answer


def _parse_address(address: str) -> SplitResult:
    try:
        url = urlsplit(address)
        usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        usable = False
    if not usable or url.query or url.fragment or url.username or not address.isprintable():
        shown = "it has a user name" if "@" in address else address
        raise BadAddress(
            f"not the address of a server: {shown}",
            hint=f"an address looks like {ADDRESS}",
        )
    return url
