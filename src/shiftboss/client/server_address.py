"""One address of the server, its token, and how connections to it are opened."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from shiftboss.client.addresses import checked_addresses
from shiftboss.defaults import ADDRESS, TOKEN_VARIABLE
from shiftboss.errors import InvalidRequest
from shiftboss.system.loopback import is_loopback

TIMEOUT: Final = httpx2.Timeout(10.0, connect=2.0)


@dataclass(frozen=True, slots=True)
class Server:
    address: str
    token: str | None = field(repr=False)

    @classmethod
    def at(cls, address: str | None = None, token: str | None = None) -> Server:
        """The defaults come from SHIFTBOSS_URL and SHIFTBOSS_TOKEN."""
        address = address or os.environ.get("SHIFTBOSS_URL") or ADDRESS
        token = (token or os.environ.get(TOKEN_VARIABLE) or "").strip()
        address, *others = checked_addresses(address)
        if others:
            raise InvalidRequest("server: only one address can be used here", field="server")
        if not (token.isascii() and token.isprintable()):
            raise InvalidRequest("token: must be printable ASCII characters", field="token")
        return cls(address, token or None)

    def client(self) -> httpx2.Client:
        return httpx2.Client(**self._options())

    def async_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(**self._options())

    def _options(self) -> dict[str, Any]:
        local = is_loopback(urlsplit(self.address).hostname or "")
        return {
            "base_url": self.address,
            "headers": {"Authorization": f"Bearer {self.token}"} if self.token else {},
            "timeout": TIMEOUT,
            # A proxy that the environment names cannot reach this machine's loopback address.
            "trust_env": not local,
            "verify": _tls_context(local and self.address.startswith("http:")),
        }


@cache
def _tls_context(unused: bool) -> ssl.SSLContext:
    """Loading the certificate authorities takes 20 ms, which plain HTTP does not need. A context
    without them trusts no server."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if unused else httpx2.create_ssl_context()
