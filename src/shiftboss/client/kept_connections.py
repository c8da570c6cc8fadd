"""Connections that are kept between the requests of a client, for plain HTTP without a proxy.

One request is one write and mostly one read on a socket. A connection belongs to the process that
opened it, and is in use by one request at a time; a request that finds none free opens another. One
that was given up closes its connection, because its reply may still come.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import httpx2

from shiftboss.client.http_response import BadResponseError, Response, request_bytes

# More than these are closed when they are no longer in use.
IDLE_CONNECTIONS_MAX: Final = 8
_RECEIVED_AT_ONCE: Final = 64 * 1024
# A name that cannot be one in the DNS is a UnicodeError.
_NO_ADDRESS: Final = (OSError, UnicodeError)


class _Socket(socket.socket):
    """Closed with its client, which needs no notice that its event loop has ended."""

    def __del__(self) -> None:
        self.close()


class _Connection:
    def __init__(self, opened: _Socket) -> None:
        self.socket = opened
        self._process = os.getpid()

    def is_usable(self) -> bool:
        """A server closes what was idle for long; a fork has copies of what its parent uses."""
        if self._process != os.getpid():
            return False
        self.socket.setblocking(False)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        self.socket.close()


class KeptConnections:
    """To one address. Used from event loops and from threads; `deque` needs no lock."""

    def __init__(self, address: str, token: str | None) -> None:
        parts = urlsplit(address)
        self._place = (parts.hostname or "", parts.port or 80)
        self._prefix = parts.path.rstrip("/")
        self._host = parts.netloc
        self._headers = {
            "accept": "application/json",
            "user-agent": "shiftboss",
            **({"authorization": f"Bearer {token}"} if token else {}),
        }
        self._idle: deque[_Connection] = deque()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _message(
        self, path: str, headers: Mapping[str, str], body: Mapping[str, object] | None
    ) -> bytes:
        # Names of headers have no case, so that a request's own replace those of every request.
        own = {name.lower(): value for name, value in headers.items()}
        return request_bytes(self._prefix + path, self._host, {**self._headers, **own}, body)

    def _take(self) -> _Connection | None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_usable():
                return connection
            connection.close()

    def _put_back(self, connection: _Connection, response: Response) -> None:
        if response.keeps_open and len(self._idle) < IDLE_CONNECTIONS_MAX:
            self._idle.append(connection)
        else:
            connection.close()

    # -- on an event loop

    async def exchange(
        self,
        path: str,
        headers: Mapping[str, str],
        body: Mapping[str, object] | None,
        limits: httpx2.Timeout,
        *,
        is_repeatable: bool,
    ) -> Response:
        """Raises the errors of httpx2. A kept connection that turns out to be closed is replaced
        once, if the request counts once however often it is sent."""
        message = self._message(path, headers, body)
        kept = self._take()
        if kept is not None:
            response = await self._on_kept(kept, message, limits, is_repeatable=is_repeatable)
            if response is not None:
                return response
        connection = await self._open(limits)
        return await self._on(connection, message, limits, Response())

    async def _on_kept(
        self, kept: _Connection, message: bytes, limits: httpx2.Timeout, *, is_repeatable: bool
    ) -> Response | None:
        response = Response()
        try:
            return await self._on(kept, message, limits, response)
        except (httpx2.ReadError, httpx2.RemoteProtocolError):
            if response.has_begun or not is_repeatable:
                raise
            return None

    async def _open(self, limits: httpx2.Timeout) -> _Connection:
        loop = asyncio.get_running_loop()
        error: OSError = OSError("no address")
        try:
            async with asyncio.timeout(limits.connect):
                for family, kind, protocol, _, place in await loop.getaddrinfo(
                    *self._place, type=socket.SOCK_STREAM
                ):
                    connection = _Connection(_new_socket(family, kind, protocol))
                    try:
                        await loop.sock_connect(connection.socket, place)
                    except OSError as failed:
                        error = failed
                        connection.close()
                    else:
                        return connection
        except TimeoutError as late:
            raise httpx2.ConnectTimeout("") from late
        except _NO_ADDRESS as failed:
            raise httpx2.ConnectError(str(failed)) from failed
        raise httpx2.ConnectError(str(error)) from error

    async def _on(
        self, connection: _Connection, message: bytes, limits: httpx2.Timeout, response: Response
    ) -> Response:
        loop = asyncio.get_running_loop()
        try:
            await self._write(connection, message, limits)
            while not response.is_complete:
                try:
                    async with asyncio.timeout(limits.read):
                        received = await loop.sock_recv(connection.socket, _RECEIVED_AT_ONCE)
                except TimeoutError as late:
                    raise httpx2.ReadTimeout("") from late
                except OSError as failed:
                    raise httpx2.ReadError(str(failed)) from failed
                _feed(response, received)
        except BaseException:
            connection.close()
            raise
        self._put_back(connection, response)
        return response

    async def _write(self, connection: _Connection, message: bytes, limits: httpx2.Timeout) -> None:
        """A server that does not want all of a request may have said why before it closed the
        connection. If it has not, reading fails as well."""
        try:
            sent = connection.socket.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:
            return
        if sent == len(message):
            return
        try:
            async with asyncio.timeout(limits.write):
                await asyncio.get_running_loop().sock_sendall(connection.socket, message[sent:])
        except TimeoutError as late:
            raise httpx2.WriteTimeout("") from late
        except OSError:
            return

    # -- on a thread

    def exchange_blocking(
        self,
        path: str,
        headers: Mapping[str, str],
        body: Mapping[str, object] | None,
        limits: httpx2.Timeout,
        *,
        is_repeatable: bool,
    ) -> Response:
        message = self._message(path, headers, body)
        kept = self._take()
        if kept is not None:
            response = Response()
            try:
                return self._on_blocking(kept, message, limits, response)
            except (httpx2.ReadError, httpx2.RemoteProtocolError):
                if response.has_begun or not is_repeatable:
                    raise
        try:
            opened = socket.create_connection(self._place, limits.connect)
        except TimeoutError as late:
            raise httpx2.ConnectTimeout("") from late
        except _NO_ADDRESS as failed:
            raise httpx2.ConnectError(str(failed)) from failed
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(_Socket(fileno=opened.detach()))
        return self._on_blocking(connection, message, limits, Response())

    def _on_blocking(
        self, connection: _Connection, message: bytes, limits: httpx2.Timeout, response: Response
    ) -> Response:
        try:
            connection.socket.settimeout(limits.write)
            try:
                connection.socket.sendall(message)
            except TimeoutError as late:
                raise httpx2.WriteTimeout("") from late
            except OSError:
                pass  # as in `_write`
            connection.socket.settimeout(limits.read)
            while not response.is_complete:
                try:
                    received = connection.socket.recv(_RECEIVED_AT_ONCE)
                except TimeoutError as late:
                    raise httpx2.ReadTimeout("") from late
                except OSError as failed:
                    raise httpx2.ReadError(str(failed)) from failed
                _feed(response, received)
        except BaseException:
            connection.close()
            raise
        self._put_back(connection, response)
        return response


def _new_socket(family: int, kind: int, protocol: int) -> _Socket:
    opened = _Socket(family, kind, protocol)
    opened.setblocking(False)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


def _feed(response: Response, received: bytes) -> None:
    try:
        response.feed(received)
    except BadResponseError as bad:
        raise httpx2.RemoteProtocolError(str(bad)) from bad
