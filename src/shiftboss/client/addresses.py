"""The addresses under which a client finds the server, and the choice among them.

Several servers may share one database, and any of them can answer any request. A client is given
all their addresses. It stays with the one that works, and moves on to the next when that fails.

Imports only the standard library and `shiftboss.errors`: commands use it, and start-up counts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from shiftboss.defaults import ADDRESS
from shiftboss.errors import InvalidRequest

SEPARATOR = ","


class Addresses:
    """Shared by the event loops and threads of a process: what one of them has learned about a
    server counts for all."""

    def __init__(self, addresses: Sequence[str]) -> None:
        if not addresses:
            raise ValueError("a client needs at least one address")
        self._addresses = tuple(dict.fromkeys(addresses))
        self._index = 0
        self._lock = threading.Lock()

    @property
    def current(self) -> str:
        return self._addresses[self._index]

    def move_on(self, failed: str) -> None:
        """Use the next address, unless another thread has already moved on from this one."""
        with self._lock:
            if self.current == failed:
                self._index = (self._index + 1) % len(self._addresses)

    def __iter__(self) -> Iterator[str]:
        """Beginning with the one that is used."""
        index = self._index
        return iter(self._addresses[index:] + self._addresses[:index])

    def __len__(self) -> int:
        return len(self._addresses)

    def __str__(self) -> str:
        """As users write them."""
        return SEPARATOR.join(self)


def split_addresses(given: str | Sequence[str]) -> list[str]:
    """The addresses of a list, or of a string that separates them by commas."""
    parts = [given] if isinstance(given, str) else given
    addresses = [address.strip() for part in parts for address in part.split(SEPARATOR)]
    return [address for address in addresses if address]


def checked_addresses(given: str | Sequence[str]) -> list[str]:
    """Raises InvalidRequest for what is not the address of a server."""
    addresses = split_addresses(given)
    for address in addresses or [str(given)]:
        _check(address)
    return [address.rstrip("/") for address in addresses]


def _check(address: str) -> None:
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidRequest(
            f"server: {address!r} is not the address of a server",
            field="server",
            hint=f"give it as {ADDRESS}, or set SHIFTBOSS_URL",
        )
