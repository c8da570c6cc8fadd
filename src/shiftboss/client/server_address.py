"""One address of the server, its token, and how connections to it are opened."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2

from shiftboss.client.addresses import checked_addresses
from shiftboss.client.errors import bad_authorities
from shiftboss.defaults import ADDRESS, TOKEN_VARIABLE
from shiftboss.errors import InvalidRequest
from shiftboss.system.loopback import is_loopback
from shiftboss.system.tls import client_context

TIMEOUT: Final = httpx2.Timeout(10.0, connect=2.0)
# Anything else has to be encoded first: a space in the path would end it.
_SENT_AS_IT_IS: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Server:
    """`ca` is a file with the only authorities to trust; None: see `system.tls`."""

    address: str
    token: str | None = field(repr=False)
    ca: str | None = None

    @classmethod
    def at(
        cls,
        address: str | None = None,
        token: str | None = None,
        ca: str | os.PathLike[str] | None = None,
    ) -> Server:
        """The defaults come from SHIFTBOSS_URL, SHIFTBOSS_TOKEN and SHIFTBOSS_CA."""
        address = address or os.environ.get("SHIFTBOSS_URL") or ADDRESS
        token = (token or os.environ.get(TOKEN_VARIABLE) or "").strip()
        address, *others = checked_addresses(address)
        if others:
            raise InvalidRequest("server: only one address can be used here", field="server")
        if not (token.isascii() and token.isprintable()):
            raise InvalidRequest("token: must be printable ASCII characters", field="token")
        # A courier may need it in another folder.
        file = None if ca is None else str(Path(ca).absolute())
        server = cls(address, token or None, file)
        server.tls_context()  # an unusable file is said at once
        return server

    def tls_context(self) -> ssl.SSLContext:
        """Raises InvalidRequest, with the field, if the file of authorities cannot be used."""
        if self.address.startswith("http:") and self._is_local:
            return _unused_context()
        try:
            return client_context(self.ca)
        except OSError as error:
            raise bad_authorities(self.ca, error) from error

    @property
    def is_plain(self) -> bool:
        """Whether requests go to the address itself, unencrypted: no proxy stands between."""
        address = urlsplit(self.address)
        has_user = address.username is not None or address.password is not None
        can_be_sent = _SENT_AS_IT_IS.fullmatch(self.address) is not None and not has_user
        return address.scheme == "http" and can_be_sent and (self._is_local or not getproxies())

    def client(self) -> httpx2.Client:
        return httpx2.Client(**self._options())

    def async_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(**self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "base_url": self.address,
            "headers": {"Authorization": f"Bearer {self.token}"} if self.token else {},
            "timeout": TIMEOUT,
            # A proxy that the environment names cannot reach this machine's loopback address.
            "trust_env": not self._is_local,
            "verify": self.tls_context(),
        }

    @property
    def _is_local(self) -> bool:
        return is_loopback(urlsplit(self.address).hostname or "")


@cache
def _unused_context() -> ssl.SSLContext:
    """Loading the authorities takes 20 ms, which plain HTTP does not need. A context without them
    trusts no server."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
