"""The running server of a state folder, if there is one.

Imports only the standard library and what commands load anyway: start-up counts.
"""

from __future__ import annotations

from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from shiftboss.client.errors import is_problem, parse_json_object
from shiftboss.system.state_folder import ServerRecord, read_server_file

HEALTH_SECONDS: Final = 2.0


def find_live_server(folder: Path) -> ServerRecord | None:
    """The server that `server.json` names. None if it is gone, or another one has its port."""
    record = read_server_file(folder)
    return record if record is not None and _is_up(record) else None


def _is_up(record: ServerRecord) -> bool:
    try:
        status, answer = _get_health(record.address)
    except TimeoutError:
        return True  # it runs, but is busy
    except (OSError, ValueError, HTTPException):
        return False
    if status != 200:
        return is_problem(answer)  # it runs, but reports an error
    return bool(answer.get("started_at") == record.started_at)


def _get_health(address: str) -> tuple[int, dict[str, Any]]:
    url = urlsplit(address)
    connection = HTTPConnection(url.hostname or "", url.port, timeout=HEALTH_SECONDS)
    try:
        connection.request("GET", "/health", headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, parse_json_object(response.read()) or {}
    finally:
        connection.close()
