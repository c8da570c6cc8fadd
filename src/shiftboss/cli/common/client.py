"""The HTTP client of the commands.

It stands beside `shiftboss.client` for one reason: start-up time. A command makes one or two
requests and does not retry, and the standard library's client is loaded in a few milliseconds. Both
clients read problem documents with `shiftboss.client.errors`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from shiftboss.client.errors import bad_authorities, is_problem, parse_json_object
from shiftboss.defaults import ADDRESS, STATE_FOLDER
from shiftboss.errors import ShiftbossError
from shiftboss.system.loopback import is_loopback
from shiftboss.system.tls import TlsProblem, open_connection, plain_http_problem, tls_problem

ANSWER_SECONDS: Final = 30.0
_DEFAULT_URL: Final = urlsplit(ADDRESS)


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


class Client:
    """Requests to one server. Each opens a connection of its own: a command makes one or two.

    `looked_in`: nobody named the address, and this folder did not lead to a server.
    """

    def __init__(
        self,
        address: str = ADDRESS,
        token: str | None = None,
        operator_token: str | None = None,
        looked_in: Path | None = None,
    ) -> None:
        self._url = _parse_address(address)
        self.address = address.rstrip("/")
        self._looked_in = looked_in
        self._headers = {"Accept": "application/json", "Connection": "close"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        if operator_token is not None:
            self._headers["Shiftboss-Operator"] = operator_token

    def get(self, path: str, query: Mapping[str, object] | None = None) -> bytes:
        return self._read(self.open(path, query))

    def post(
        self,
        path: str,
        body: Mapping[str, object],
        key: str | None = None,
        seconds: float = ANSWER_SECONDS,
    ) -> bytes:
        """`key` is an idempotency key: a request that is repeated under it counts once."""
        with self.connection_errors(seconds):
            response = self._send("POST", path, seconds, json.dumps(body).encode(), key)
        return self._read(response)

    def call_bus(self, operation: str, swarm_id: str, /, **members: object) -> bytes:
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
        with self.connection_errors():
            return self._send("GET", target, silence_seconds)

    def _read(self, response: HTTPResponse) -> bytes:
        with self.connection_errors(), response:
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
        try:
            connection = open_connection(self._url, silence_seconds)
        except OSError as error:
            raise bad_authorities(None, error) from error
        connection.request(method, self._url.path.rstrip("/") + target, body, headers)
        return connection.getresponse()

    def close(self) -> None:
        """Release what the requests have opened: nothing, with a server."""

    def _refusal(self, status: int, body: bytes) -> ShiftbossError:
        plain_http = plain_http_problem(status, body)
        if plain_http is not None:
            return NoSecureConnection(plain_http)
        problem = parse_json_object(body)
        if problem is not None and is_problem(problem) and "detail" in problem:
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
        is_plain = self._url.scheme == "http"
        return f"{hint}; if it speaks TLS, use https://" if is_plain else hint

    def _nobody_listens(self) -> NoServer:
        detail = f"no server at {self.address}"
        if self._looked_in is not None:
            detail += f", and no {STATE_FOLDER} with a database in {self._looked_in} or above it"
        return NoServer(detail, hint=_start_hint(self._url))


def _start_hint(url: SplitResult) -> str | None:
    """The command that starts a server at this address. None if that is not on this machine."""
    host = url.hostname or ""
    if not is_loopback(host) or url.scheme != "http" or url.path.strip("/"):
        return None
    command = "start one with: shiftboss serve"
    command += f" --host {host}" if host != _DEFAULT_URL.hostname else ""
    return command + (f" --port {url.port or 80}" if url.port != _DEFAULT_URL.port else "")


def body_of(swarm_id: str, members: Mapping[str, object]) -> dict[str, object]:
    """The body of a request, without the members that are None: the server has its defaults."""
    given = {name: value for name, value in members.items() if value is not None}
    return {"swarm_id": swarm_id, **given}


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
