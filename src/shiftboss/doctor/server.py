"""The server and its store: reachable, healthy, of our version."""

from __future__ import annotations

import json
from typing import Any, Protocol

from shiftboss import __version__
from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.errors import ShiftbossError


class DoctorClient(Protocol):
    """The line to the server. What it refuses or cannot do it raises as a ShiftbossError."""

    address: str

    def get(self, path: str) -> bytes: ...

    def post(self, path: str, body: dict[str, object]) -> bytes: ...


def asked(line: DoctorClient, operation: str, **members: object) -> dict[str, Any]:
    """The answer of an operation of the bus."""
    answer: dict[str, Any] = json.loads(line.post(f"/bus/{operation}", members))
    return answer


def look_at_server(line: DoctorClient) -> list[Finding]:
    """Without a problem among them, the server can be asked further things."""
    try:
        health = json.loads(line.get("/health"))
    except ShiftbossError as error:
        return [_unwell(error)]
    except ValueError:
        return [problem("server", f"what answers at {line.address} is no Shiftboss", _WHERE)]
    findings = [
        ok("server", f"Shiftboss {health['version']} at {line.address} is {health['status']}"),
        ok("store", f"{health['store']} reads and writes"),
    ]
    if health["version"] != __version__:
        findings[0] = warning(
            "server",
            f"the server is of version {health['version']}, this command of {__version__}",
            "use the same on both sides: install it again, then start the server again",
        )
    return findings + _token(line)


_WHERE = "is --server right? Start a server with: shiftboss serve"


def _unwell(error: ShiftbossError) -> Finding:
    """A server that answers 503 is there, and its store is not."""
    if getattr(error, "http_status", None) == 503:
        todo = "look at the disk and the database; reports wait with their workers until it heals"
        return problem("store", f"the store does not work: {error.detail}", todo)
    return problem("server", error.detail, error.hint or _WHERE)


def _token(line: DoctorClient) -> list[Finding]:
    """The health of a server is told without a token; all else is not."""
    try:
        asked(line, "get_status")
    except ShiftbossError as error:
        return [problem("server", f"it refuses us: {error.detail}", error.hint or _WHERE)]
    return []
