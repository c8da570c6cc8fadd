"""The address of a server, and the socket that it listens on."""

from __future__ import annotations

import errno
import logging
import resource
import socket
from pathlib import Path
from urllib.parse import urlsplit

from shiftboss.defaults import (
    ADDRESS,
    HOST,
)
from shiftboss.server.http.certificates import Certificates
from shiftboss.server.settings import CannotStart, ServerSettings
from shiftboss.system.loopback import is_loopback
from shiftboss.system.state_folder import SERVER_FILE, ServerRecord, write_server_file

log = logging.getLogger(__name__)

BACKLOG = 2048


def refuse_without_token(settings: ServerSettings) -> None:
    """Raises CannotStart if others can reach the server, and there is no token."""
    if settings.token is not None or settings.requires_tokens:
        return
    hint = (
        "add --require-tokens and give everybody a token with `shiftboss token create`; or set "
        "SHIFTBOSS_TOKEN or --token-file to one that all share"
    )
    if not is_loopback(settings.host):
        raise CannotStart(
            f"{settings.host} can be reached from other machines, so a token is needed",
            field="host",
            hint=f"{hint}; or serve on 127.0.0.1",
        )
    if settings.behind_proxy:
        raise CannotStart(
            "other machines can reach the server through the proxy, so a token is needed",
            field="behind_proxy",
            hint=hint,
        )
    if not is_loopback(urlsplit(settings.public_url or ADDRESS).hostname or ""):
        raise CannotStart(
            f"{settings.public_url} is for other machines, so a token is needed",
            field="public_url",
            hint=hint,
        )


def address_of(host: str, port: int, certificates: Certificates | None) -> str:
    scheme = "http" if certificates is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def local_address_of(host: str, port: int, certificates: Certificates | None) -> str:
    """For commands on this machine: nothing is sent to the address that means all addresses."""
    local = {"0.0.0.0": HOST, "::": "::1"}.get(host, host)  # noqa: S104
    if certificates is not None:
        local = certificates.local_name(local)
    return address_of(local, port, certificates)


def note_record(folder: Path, record: ServerRecord) -> None:
    """A full disk must not keep the server from starting."""
    try:
        write_server_file(folder, record)
    except OSError as error:
        log.warning("cannot write %s: %s", folder / SERVER_FILE, error.strerror)


def listen(settings: ServerSettings) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        try:
            listening = _bind(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not settings.any_port_if_taken:
                raise
            listening = _bind(host, 0)
    except OSError as error:
        raise CannotStart(
            f"cannot listen on {host}:{port}: {error.strerror}",
            field="port",
            hint="another program may use it; choose another --port",
        ) from error
    listening.listen(BACKLOG)
    listening.set_inheritable(False)
    return listening


def listen_again(settings: ServerSettings, count: int) -> list[socket.socket]:
    """So many sockets on one port. The system shares out the connections among them."""
    with listen(settings) as first:  # refused if another program listens there
        host, port = first.getsockname()[:2]
    sockets = [_bind(host, port, reuse_port=True) for _ in range(count)]
    for each in sockets:
        each.listen(BACKLOG)
        each.set_inheritable(False)
    return sockets


def listen_beside(settings: ServerSettings, shared: socket.socket, number: int) -> socket.socket:
    """On the port that follows by `number`; on any free one if the shared port was any."""
    port = shared.getsockname()[1] + number if settings.port else 0
    return listen(settings._replace(port=port, any_port_if_taken=False))


def _bind(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, proto)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if reuse_port:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind(address)
    except OSError:
        listening.close()
        raise
    return listening


def allow_many_connections() -> None:
    """A thousand event streams need more open files than many systems allow at first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
