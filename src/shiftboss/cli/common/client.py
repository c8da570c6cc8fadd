"""The HTTP client of the commands. The standard library's: it starts faster than any other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import typer

from shiftboss.cli.common.output import print_json
from shiftboss.cli.common.tokens import read_token
from shiftboss.errors import ShiftbossError

ANSWER_SECONDS: Final = 30.0
# The server says something every 15 seconds: three times nothing is a dead connection.
SILENCE_SECONDS: Final = 45.0


class BadAddress(ShiftbossError):
    code = "bad_address"
    title = "Not the address of a server"


class NoServer(ShiftbossError):
    code = "no_server"
    title = "Nobody answers"


class NotShiftboss(ShiftbossError):
    code = "not_shiftboss"
    title = "Somebody else answers"

    def __init__(self, detail: str, http_status: int = 0) -> None:
        super().__init__(detail, hint="is --server right?")
        self.http_status = http_status


class RequestRefused(ShiftbossError):
    """The server's problem document, in its own words."""

    code = "refused"
    title = "The server refused"

    def __init__(self, document: bytes, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem["detail"]), hint=problem.get("hint"))
        self.document = document
        self.problem = problem
        self.http_status = int(problem.get("status", 0))


class Client:
    """One server. A connection per request: a command makes one or two."""

    def __init__(
        self, address: str, token: str | None = None, operator_token: str | None = None
    ) -> None:
        self._url = _parsed(address)
        self.address = address.rstrip("/")
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
        """`key` names the request: said again under it, it counts once."""
        with self.translated(seconds):
            response = self._send("POST", path, seconds, json.dumps(body).encode(), key)
        return self._read(response)

    def open(
        self,
        path: str,
        query: Mapping[str, object] | None = None,
        silence_seconds: float = ANSWER_SECONDS,
    ) -> HTTPResponse:
        """An answer that is not read yet."""
        target = f"{path}?{urlencode(query)}" if query else path
        with self.translated():
            return self._send("GET", target, silence_seconds)

    def _read(self, response: HTTPResponse) -> bytes:
        with self.translated(), response:
            return response.read()

    def _send(
        self,
        method: str,
        target: str,
        silence_seconds: float,
        body: bytes | None = None,
        key: str | None = None,
    ) -> HTTPResponse:
        kind = HTTPSConnection if self._url.scheme == "https" else HTTPConnection
        assert self._url.hostname is not None, "checked when the address was parsed"
        connection = kind(self._url.hostname, self._url.port, timeout=silence_seconds)
        headers = self._headers | ({"Content-Type": "application/json"} if body else {})
        headers |= {"Idempotency-Key": key} if key else {}
        connection.request(method, self._url.path.rstrip("/") + target, body, headers)
        response = connection.getresponse()
        if response.status >= 300:
            with response:
                raise self._refusal(response.status, response.read())
        return response

    def _refusal(self, status: int, body: bytes) -> ShiftbossError:
        try:
            return RequestRefused(body, json.loads(body))
        except (ValueError, KeyError, TypeError):
            return NotShiftboss(
                f"{self.address} answered {status}, but not as a Shiftboss server does", status
            )

    @contextmanager
    def translated(self, seconds: float = ANSWER_SECONDS) -> Iterator[None]:
        """Errors of the connection as ours."""
        try:
            yield
        except TimeoutError as error:
            raise NoServer(
                f"the server at {self.address} does not answer",
                hint=f"waited {seconds:.0f} seconds; see its log",
            ) from error
        except (ConnectionError, IncompleteRead) as error:
            if isinstance(error, ConnectionRefusedError):
                raise self._nobody() from error
            raise NoServer(
                f"the server at {self.address} hung up", hint="see its log, then try again"
            ) from error
        except OSError as error:
            raise self._nobody() from error
        except HTTPException as error:
            raise NotShiftboss(
                f"what answers at {self.address} is not a Shiftboss server"
            ) from error

    def _nobody(self) -> NoServer:
        return NoServer(f"no server at {self.address}", hint="start one with: shiftboss serve")


def swarm_path(swarm_id: str, what: str) -> str:
    return f"/swarm/{quote(swarm_id, safe='')}/{what}"


def parsed(document: bytes, member: str) -> dict[str, Any]:
    """The members of an answer, among them the one that tells it from other people's JSON."""
    try:
        members = json.loads(document)
    except ValueError as error:
        raise NotShiftboss("the answer is not JSON") from error
    if not isinstance(members, dict) or member not in members:
        raise NotShiftboss("the answer is not one of a Shiftboss server")
    return members


def _parsed(address: str) -> SplitResult:
    try:
        url = urlsplit(address)
        usable = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:
        usable = False
    if not usable or url.query or url.fragment or url.username or not address.isprintable():
        shown = "one with a user name" if "@" in address else address
        raise BadAddress(
            f"not the address of a server: {shown}", hint="it looks like http://127.0.0.1:7432"
        )
    return url


# The connection of one command to the server.


@contextmanager
def connected(
    server: str, token_file: Path | None, *, as_json: bool, operator_token: str | None = None
) -> Iterator[Client]:
    """A client. What the server refuses is printed as its JSON, for those who asked for JSON."""
    try:
        yield Client(server, read_token(token_file), operator_token)
    except RequestRefused as refusal:
        if not as_json:
            raise
        print_json(refusal.document)
        raise typer.Exit(1) from None
