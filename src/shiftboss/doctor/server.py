"""Checks that the server can be reached, works, and has the version of this command."""

from __future__ import annotations

import json
from typing import Any, Protocol

from shiftboss import __version__
from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.errors import ShiftbossError


class DoctorClient(Protocol):
    """The client that the doctor uses. It raises ShiftbossError."""

    @property
    def address(self) -> str: ...

    def get(self, path: str) -> bytes: ...

    def post(self, path: str, body: dict[str, object]) -> bytes: ...


def call_bus(client: DoctorClient, operation: str, **members: object) -> dict[str, Any]:
    """Call an operation of the bus."""
    answer: dict[str, Any] = json.loads(client.post(f"/bus/{operation}", members))
    return answer


def check_server(client: DoctorClient, *, is_offline: bool = False) -> list[Finding]:
    """If there is no problem among the findings, the server can be used. `is_offline`: there is
    none, and the database answers."""
    try:
        health = json.loads(client.get("/health"))
    except ShiftbossError as error:
        return [_failure(error)]
    except (ValueError, RecursionError):
        health = None
    if not isinstance(health, dict) or not health.keys() >= {"version", "status", "store"}:
        return [problem("server", f"{client.address} does not answer like Shiftboss", _WHERE)]
    if is_offline:
        text = f"no server is running; this command has checked the database {client.address}"
        return [ok("server", text), ok("store", f"{health['store']} can be read and written")]
    findings = [
        ok("server", f"Shiftboss {health['version']} at {client.address} is {health['status']}"),
        ok("store", f"{health['store']} can be read and written"),
    ]
    if health["version"] != __version__:
        findings[0] = warning(
            "server",
            f"the server has version {health['version']}, this command has {__version__}",
            "install the same version on both sides, then restart the server",
        )
    return findings + _token(client)


_WHERE = "check --server and SHIFTBOSS_URL"


def _failure(error: ShiftbossError) -> Finding:
    """A server that answers 503 is running, but its store does not work."""
    if getattr(error, "http_status", None) == 503:
        todo = error.hint or "check the disk and the database"
        todo += "; workers keep their reports until it works again"
        return problem("store", f"the store does not work: {error.detail}", todo)
    return problem("server", error.detail, error.hint or _WHERE)


def _token(client: DoctorClient) -> list[Finding]:
    """Only the health of a server can be read without a token."""
    try:
        call_bus(client, "get_status")
    except ShiftbossError as error:
        return [
            problem(
                "server", f"the server refuses this command: {error.detail}", error.hint or _WHERE
            )
        ]
    return []
