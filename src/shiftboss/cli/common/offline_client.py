"""The client of a command that answers from the database, because no server is running."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from http.client import HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

from shiftboss.cli.common.client import ANSWER_SECONDS, Client, NoServer
from shiftboss.cli.common.discovery import serve_command
from shiftboss.cli.common.output import printable
from shiftboss.cli.common.tokens import is_agent

if TYPE_CHECKING:
    from shiftboss.server.offline import OfflineServer


class OfflineClient(Client):
    """Answers requests like a server would, as the operator; for an agent, it only reads. Loading
    the server's code takes as long as starting a server, so only the first request does it."""

    def __init__(self, database: Path) -> None:
        super().__init__()
        self._database = database
        self._server: OfflineServer | None = None
        self._has_answered = False

    @property
    def address(self) -> str:
        """The file."""
        return os.path.relpath(self._database)

    def open(
        self,
        path: str,
        query: Mapping[str, object] | None = None,
        silence_seconds: float = ANSWER_SECONDS,
    ) -> HTTPResponse:
        if query is not None and query.get("follow") == "true":
            raise self._no_server("nothing new can come")
        return super().open(path, query, silence_seconds)

    def _exchange(
        self,
        method: str,
        target: str,
        silence_seconds: float,  # noqa: ARG002 - nobody else is asked
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> HTTPResponse:
        server = self._open_server()
        path, mark, query = target.partition("?")
        if server.needs_server(method, path):
            raise self._no_server("this needs one")
        raw_headers = [
            (name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()
        ]
        reply = server.request(method, f"{unquote(path)}{mark}{query}", raw_headers, body or b"")
        self._has_answered = True
        return cast(HTTPResponse, _OfflineResponse(reply.status, reply.body))

    def _open_server(self) -> OfflineServer:
        if self._server is None:
            from shiftboss.server.offline import OfflineServer

            self._server = OfflineServer(self._database, writes=not is_agent())
        return self._server

    def _no_server(self, why: str) -> NoServer:
        return NoServer(
            f"no server is running for {self.address}, and {why}",
            hint=f"start one with: {serve_command()}",
        )

    def close(self) -> None:
        """Release the database, and say where the answer came from."""
        if self._server is None:
            return
        verb = "changed" if self._server.has_written else "answered from"
        self._server.close()
        self._server = None
        if self._has_answered:
            note = f"no server is running; {verb} {self.address}"
            print(printable(note), file=sys.stderr, flush=True)


class _OfflineResponse(io.BytesIO):
    """The part of HTTPResponse that clients use."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(body)
        self.status = status
