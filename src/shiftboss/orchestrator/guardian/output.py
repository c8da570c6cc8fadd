"""What an agent prints, on its way through the guardian: to a log, and to whoever listens.

The standard library alone, like guardian.py.
"""

from __future__ import annotations

import os

from shiftboss.system.processes import CHUNK_BYTES

WAITING_BYTES_MAX = 4 * 2**20


class OutputLog:
    """A file and the one before it, both together no larger than `bytes_max`: the end is always
    there. A disk that is full, or a folder that is gone, costs the log and not the agent."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._path = path
        self._part_bytes_max = bytes_max // 2
        self._descriptor: int | None = None
        self._open()
        if self._written:
            self.write(b"\n")  # an earlier one may have been ended within a line

    def write(self, chunk: bytes) -> None:
        if self._written + len(chunk) > self._part_bytes_max:
            self._begin_anew()
        if self._descriptor is None:
            return
        try:
            self._written += os.write(self._descriptor, chunk)
        except OSError:
            pass

    def _begin_anew(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        try:
            os.replace(self._path, f"{self._path}.1")  # noqa: PTH105 - a guardian is small
        except OSError:
            return
        self._open()

    def _open(self) -> None:
        self._written = 0
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._path, flags, 0o600)
            self._written = os.fstat(self._descriptor).st_size
        except OSError:
            self._descriptor = None


class OutputRelay:
    """To a listener that may be slow. When too much waits, the oldest goes, in whole lines: one of
    which a part has left already ends there."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._waiting = bytearray()
        self._within_line = False
        self._skipping = False

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def put(self, chunk: bytes) -> None:
        self._waiting += chunk
        if len(self._waiting) > WAITING_BYTES_MAX:
            self._skip(len(self._waiting) - WAITING_BYTES_MAX // 2)
        elif self._skipping:
            self._skip(0)

    def _skip(self, count: int) -> None:
        """At least so much, and on to the end of that line; its end is kept where the listener has
        the beginning."""
        end = self._waiting.find(b"\n", count)
        self._skipping = end < 0
        if self._skipping:
            self._waiting.clear()
        else:
            del self._waiting[: end if self._within_line else end + 1]

    def send(self) -> None:
        """As much as goes."""
        while self._waiting:
            chunk = self._waiting[:CHUNK_BYTES]
            try:
                sent = os.write(self.descriptor, chunk)
            except BlockingIOError:
                return
            except OSError:  # nobody listens any more
                sent = len(chunk)
            self._within_line = not chunk.endswith(b"\n", 0, sent)
            del self._waiting[:sent]

    def send_all(self) -> None:
        os.set_blocking(self.descriptor, True)
        self.send()
