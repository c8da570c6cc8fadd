"""The server as a client knows it: its addresses, of which one is in use, and the token.

Several servers on one database count as one: see `shiftboss.client.addresses`. A token that comes
from a file is read again when a server refuses it, because tokens are rotated while clients run.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from shiftboss.client.addresses import Addresses, checked_addresses
from shiftboss.client.errors import ServerUnreachable, TokenRefused
from shiftboss.client.server_address import Server
from shiftboss.client.token_files import TokenSource, find_token
from shiftboss.defaults import ADDRESS
from shiftboss.errors import Unauthorized
from shiftboss.system.token_files import BadToken, read_token_file

log = logging.getLogger(__name__)


class Servers:
    """One server, or several on one database. Shared by the event loops and threads of a client."""

    def __init__(self, servers: Sequence[Server], source: TokenSource | None = None) -> None:
        self._servers = {server.address: server for server in servers}
        self.addresses = Addresses(list(self._servers))
        self._source = source or TokenSource(servers[0].token, None, "")
        self._was_accepted = False
        self._is_refusal_told = False
        self._lock = threading.Lock()

    @classmethod
    def at(
        cls,
        address: str | Sequence[str] | Server | Servers | None = None,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        ca: str | os.PathLike[str] | None = None,
    ) -> Servers:
        """The defaults come from SHIFTBOSS_URL, from SHIFTBOSS_TOKEN or SHIFTBOSS_TOKEN_FILE, and
        from SHIFTBOSS_CA.

        Raises InvalidRequest for an address or a file of authorities, and BadToken for a file of
        the token, that cannot be used.
        """
        if isinstance(address, Servers):
            return address
        if isinstance(address, Server):
            return cls([address])
        given = token or ""
        if given:
            source = TokenSource(given, None, "the token that was given")
        else:
            source = find_token(None if token_file is None else Path(token_file))
        addresses = checked_addresses(address or os.environ.get("SHIFTBOSS_URL") or ADDRESS)
        return cls([Server.at(one, source.token, ca) for one in addresses], source)

    @property
    def current(self) -> Server:
        return self._servers[self.addresses.current]

    @property
    def address(self) -> str:
        """The one in use."""
        return self.addresses.current

    @property
    def token(self) -> str | None:
        return self.current.token

    @property
    def token_file(self) -> Path | None:
        return self._source.file

    def note_accepted(self) -> None:
        """A server has answered a request that needs the token."""
        self._was_accepted = True
        self._is_refusal_told = False

    def note_refused(self, server: Server, refusal: Unauthorized) -> None:
        """Read the token again. If it is still the same, raises TokenRefused where waiting may
        help: the token comes from a file, or has been accepted before. Else raises the refusal."""
        if self._renew_token(server.token):
            return
        if self._source.file is None and not self._was_accepted:
            raise refusal
        waits_for = (
            f"a token in {self._source.file} that it accepts"
            if self._source.file
            else "it to accept the token again"
        )
        raise TokenRefused(
            f"{server.address} does not accept the token of this client ({refusal.detail}); "
            f"waiting for {waits_for}",
            hint=refusal.hint,
        ) from refusal

    def tell_refusal_once(self, error: ServerUnreachable) -> None:
        """Log that the client waits for another token, once until a token is accepted."""
        if isinstance(error, TokenRefused) and not self._is_refusal_told:
            self._is_refusal_told = True
            log.warning("%s", error.detail)

    def _renew_token(self, refused: str | None) -> bool:
        """Whether there is another token than the refused one."""
        with self._lock:
            if self.token != refused:
                return True  # another thread has read it
            if self._source.file is None:
                return False
            try:
                token = read_token_file(self._source.file)
            except BadToken as error:
                log.info("%s", error.detail)
                return False
            if token == refused:
                return False
            for address, server in self._servers.items():
                self._servers[address] = replace(server, token=token)
            return True


class Attempts:
    """The attempts of one exchange: at each address once, and again with a token that is new.

        for server in (attempts := Attempts(servers, is_repeatable=True)):
            try:
                return exchange(server)
            except (ServerUnreachable, Unauthorized) as error:
                attempts.note_failure(server, error)

    `is_repeatable`: the request may be sent again although its outcome is unknown. Iterating ends
    with the error of the last attempt.
    """

    def __init__(self, servers: Servers, *, is_repeatable: bool) -> None:
        self._servers = servers
        self._is_repeatable = is_repeatable
        self._error: Exception | None = None

    def __iter__(self) -> Iterator[Server]:
        tried: set[Server] = set()
        while (server := self._servers.current) not in tried:
            tried.add(server)
            yield server
        assert self._error is not None, "the caller notes every failure"
        raise self._error

    def note_failure(self, server: Server, error: ServerUnreachable | Unauthorized) -> None:
        """Choose the address and the token of the next attempt. Raises if there must be none."""
        if isinstance(error, Unauthorized):
            try:
                self._servers.note_refused(server, error)
            except TokenRefused as refused:
                self._move_on(server, refused)
            return
        if not error.is_of_this_server:
            raise error
        self._move_on(server, error)
        if not (self._is_repeatable or error.is_unchanged):
            raise error

    def _move_on(self, server: Server, error: ServerUnreachable) -> None:
        self._error = error
        self._servers.addresses.move_on(server.address)
        following = self._servers.address
        if following != server.address:
            log.info("%s; trying %s", error.detail, following)
