"""The running server of a state folder, if there is one.

Commands send their tokens to the server that they find here, so a file that came with a cloned
repository must not be able to name another one: the server is on this machine, and its process is
one of this user.

Imports only the standard library and what commands load anyway: start-up counts.
"""

from __future__ import annotations

import os
import socket
import ssl
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from shiftboss.client.errors import is_problem, parse_json_object
from shiftboss.system.loopback import is_loopback
from shiftboss.system.state_folder import ServerRecord, read_server_file
from shiftboss.system.tls import open_connection

HEALTH_SECONDS: Final = 2.0


def find_live_server(folder: Path) -> ServerRecord | None:
    """The server that `server.json` names. None if it is gone, another one has its port, or it may
    not be ours."""
    record = read_server_file(folder)
    if record is None or not _is_ours(record):
        return None
    return record if _is_up(record) else None


def _is_ours(record: ServerRecord) -> bool:
    try:
        url = urlsplit(record.address)
        is_plain = url.scheme in ("http", "https") and url.username is None and not url.path
        host = url.hostname or ""
    except ValueError:
        return False
    return is_plain and is_this_machine(host) and _is_own_process(record.pid)


def is_this_machine(host: str) -> bool:
    """A server on an address of this machine that others can reach counts too. The source address
    of a packet to such an address is the address itself; nothing is sent to find that out."""
    if is_loopback(host):
        return True
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            socket.inet_pton(family, host)  # a name could mean another machine a moment later
            probe.connect((host, 9))
            return bool(probe.getsockname()[0] == host)
    except (OSError, ValueError):
        return False


def _is_own_process(pid: int) -> bool:
    """Whether it is alive, and one of this user. Its folder in /proc does not tell: that of a
    process which denies inspection belongs to root."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except FileNotFoundError:
        return not Path("/proc/self").exists()
    except (OSError, OverflowError):
        return False
    users = [line.split()[1] for line in status.splitlines() if line.startswith("Uid:")]
    return users == [str(os.getuid())]


def _is_up(record: ServerRecord) -> bool:
    try:
        status, answer = _get_health(record.address)
    except TimeoutError:
        return True  # it runs, but is busy
    except ssl.SSLCertVerificationError:
        return True  # the command itself will say what is wrong with the certificate
    except (OSError, ValueError, HTTPException):
        return False
    if status != 200:
        return is_problem(answer)  # it runs, but reports an error
    return bool(answer.get("started_at") == record.started_at)


def _get_health(address: str) -> tuple[int, dict[str, Any]]:
    url = urlsplit(address)
    connection = open_connection(url, HEALTH_SECONDS)
    try:
        connection.request("GET", "/health", headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, parse_json_object(response.read()) or {}
    finally:
        connection.close()
