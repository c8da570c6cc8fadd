"""A network between two processes that can freeze: connections stay open, and no byte moves."""

from __future__ import annotations

import selectors
import socket
import threading
from types import TracebackType
from typing import Self

CHUNK_BYTES = 65_536


class ByteRelay:
    """Listens on a port of this machine and passes everything on to a Unix socket."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._flows = threading.Event()
        self._flows.set()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._selector.register(self._listening, selectors.EVENT_READ, None)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_closed = True
        self.thaw()
        self._waker.send(b".")
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            self._close(key.fileobj)
        self._selector.close()
        self._waker.close()

    def freeze(self) -> None:
        self._flows.clear()

    def thaw(self) -> None:
        self._flows.set()

    def _run(self) -> None:
        while not self._is_closed:
            for key, _ in self._selector.select():
                self._flows.wait()
                if key.fileobj is self._listening:
                    self._connect()
                elif key.data is not None:
                    self._pass_on(key.fileobj, key.data)
                elif key.fileobj is self._woken:
                    self._woken.recv(1)

    def _connect(self) -> None:
        client, _ = self._listening.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._target)
        except OSError:
            client.close()
            server.close()
            return
        self._selector.register(client, selectors.EVENT_READ, server)
        self._selector.register(server, selectors.EVENT_READ, client)

    def _pass_on(self, source: object, target: socket.socket) -> None:
        assert isinstance(source, socket.socket)
        if source.fileno() < 0:
            return  # closed with its other end, a moment ago
        try:
            content = source.recv(CHUNK_BYTES)
            target.sendall(content)
        except OSError:
            content = b""
        if not content:
            self._close(source)
            self._close(target)

    def _close(self, end: object) -> None:
        assert isinstance(end, socket.socket)
        if end.fileno() >= 0:
            try:
                self._selector.unregister(end)
            except KeyError:
                pass
            end.close()
