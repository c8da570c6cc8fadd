"""What a proxy in front of the server says about its clients, and where they reach the server.

X-Forwarded-For, -Proto and -Host are believed only if the connection comes from a proxy that the
operator has named, and only the last value of each: a client can send the earlier ones itself. The
header `Forwarded` is not read: a proxy that sets one kind passes on the other one from its clients.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from shiftboss.errors import InvalidRequest
from shiftboss.server.http.requests import Headers

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_FOR: Final = b"x-forwarded-for"
_PROTO: Final = b"x-forwarded-proto"
_HOST: Final = b"x-forwarded-host"
# A name or an address, with or without a port.
_HOST_PATTERN: Final = re.compile(
    r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?", re.ASCII
)
_CHAIN_MAX: Final = 32


class Forwarding:
    """`proxies` are addresses or networks. `public_url` is where clients reach the server, if they
    cannot tell from their own requests."""

    def __init__(self, proxies: Sequence[str] = (), public_url: str | None = None) -> None:
        self._networks = [_network(proxy) for proxy in proxies]
        self.public_url = None if public_url is None else _checked_url(public_url)
        self.has_proxies = bool(self._networks)
        self.is_proxy = lru_cache(maxsize=1000)(self._is_proxy)

    def _is_proxy(self, peer: str) -> bool:
        if not self._networks:
            return False
        address = _parse(peer)
        return address is not None and any(address in network for network in self._networks)

    def client(self, peer: str, headers: Headers) -> str:
        """The address of the client: the last one in the chain that is not a proxy of ours."""
        if not self.is_proxy(peer):
            return peer
        values = [value for name, value in headers if name == _FOR]
        chain = str(b",".join(values), "latin-1").split(",")
        client = peer
        for item in reversed(chain[-_CHAIN_MAX:]):
            address = _parse(_without_port(item.strip()))
            if address is None:
                break  # what came before it may be anything
            client = str(address)
            if not self.is_proxy(client):
                break
        return client

    def address(self, scope: Mapping[str, Any]) -> str:
        """Where the client of a request reaches the server: scheme, host and port."""
        if self.public_url is not None:
            return self.public_url
        scheme, host = str(scope["scheme"]), _last(scope["headers"], b"host")
        peer = scope.get("shiftboss.peer") or scope.get("client")
        if peer is not None and self.is_proxy(peer[0]):
            proto = _last(scope["headers"], _PROTO)
            scheme = proto if proto in ("http", "https") else scheme
            given = _last(scope["headers"], _HOST)
            host = given if given and _HOST_PATTERN.fullmatch(given) else host
        if not host:
            name, port = scope.get("server") or ("", None)
            host = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
        return f"{scheme}://{host}"

    def note_client(self, scope: Any) -> None:
        """Put the client of a request in place of the proxy that sent it."""
        peer = scope.get("client")
        if peer is None or not self.is_proxy(peer[0]):
            return
        scope["shiftboss.peer"] = peer
        scope["client"] = (self.client(peer[0], scope["headers"]), 0)


def _last(headers: Headers, name: bytes) -> str:
    values = [value for given, value in headers if given == name]
    return str(values[-1], "latin-1").rpartition(",")[2].strip() if values else ""


def _parse(text: str) -> _Address | None:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _without_port(text: str) -> str:
    """Some proxies send the port as well."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _network(text: str) -> _Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidRequest(
            f"behind_proxy: {text!r} is not an address or a network",
            field="behind_proxy",
            hint="give addresses such as 127.0.0.1, or networks such as 10.1.0.0/16",
        ) from error


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if (
        not is_valid
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
        or not url.isprintable()
    ):
        raise InvalidRequest(
            "public_url: must be an address such as https://shiftboss.example.org",
            field="public_url",
        )
    return url.rstrip("/")
