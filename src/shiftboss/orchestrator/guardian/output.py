"""The output of an agent on its way through the guardian: to a log, and to the orchestrator.

Standard library only, like main.py.
"""

from __future__ import annotations

import os

from shiftboss.system.processes.descendants import CHUNK_BYTES

WAITING_BYTES_MAX = 4 * 2**20


class OutputLog:
    """A log file and its predecessor, together at most `bytes_max` long: the end of the output is
    always kept. If the disk is full or the folder is gone, log lines are lost; the agent is not
    affected."""

    def __init__(self, path: str, bytes_max: int) -> None:
        self._path = path
        self._part_bytes_max = bytes_max // 2
        self._descriptor: int | None = None
        self._open()
        if self._written:
            self.write(b"\n")  # an earlier process may have been killed within a line

    def write(self, chunk: bytes) -> None:
        if self._written + len(chunk) > self._part_bytes_max:
            self._rotate()
        if self._descriptor is None:
            return
        try:
            self._written += os.write(self._descriptor, chunk)
        except OSError:
            pass

    def _rotate(self) -> None:
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
    """Forwards output to a listener that may be slow. If too much is buffered, the oldest lines are
    dropped. A line that was partly sent is cut off."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self._buffer = bytearray()
        self._is_within_line = False
        self._is_skipping = False

    @property
    def is_waiting(self) -> bool:
        return bool(self._buffer)

    def put(self, chunk: bytes) -> None:
        self._buffer += chunk
        if len(self._buffer) > WAITING_BYTES_MAX:
            self._skip(len(self._buffer) - WAITING_BYTES_MAX // 2)
        elif self._is_skipping:
            self._skip(0)

    def _skip(self, count: int) -> None:
        """Drop at least `count` bytes, up to the end of a line. The line break is kept if the
        listener has the beginning of the line."""
        end = self._buffer.find(b"\n", count)
        self._is_skipping = end < 0
        if self._is_skipping:
            self._buffer.clear()
        else:
            del self._buffer[: end if self._is_within_line else end + 1]

    def send(self) -> None:
        """Send as much as the listener accepts now."""
        while self._buffer:
            chunk = self._buffer[:CHUNK_BYTES]
            try:
                sent = os.write(self.descriptor, chunk)
            except BlockingIOError:
                return
            except OSError:  # the listener is gone
                sent = len(chunk)
            self._is_within_line = not chunk.endswith(b"\n", 0, sent)
            del self._buffer[:sent]

    def send_all(self) -> None:
        os.set_blocking(self.descriptor, True)
        self.send()
