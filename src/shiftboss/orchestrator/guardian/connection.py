"""The orchestrator's end of the pipes to a guardian. Everything is pushed; nothing is polled."""

from __future__ import annotations

import asyncio
import json
import time
from asyncio.transports import BaseTransport, ReadTransport, SubprocessTransport, WriteTransport
from typing import Any, Final, cast

from shiftboss.system.processes.descendants import CHUNK_BYTES

LINE_BYTES_MAX: Final = 2**20
# The buffer for a slow reader. The guardian buffers some more, then drops the oldest lines.
WAITING_BYTES_MAX: Final = 2**20

_STDIN, _STDOUT, _STDERR, _PROCESS = range(4)


class GuardianConnection(asyncio.SubprocessProtocol):
    """`gone` is set when the guardian has exited, to its last report, or to None if it was
    killed."""

    def __init__(self) -> None:
        self.gone: asyncio.Future[dict[str, Any] | None] = asyncio.Future()
        self.last_output_at = time.monotonic()
        self._transport: SubprocessTransport | None = None
        self._changed = asyncio.Event()
        self._buffer = bytearray()
        self._paused = False
        self._reports = b""
        self._last_report: dict[str, Any] | None = None
        self._open = {_STDOUT, _STDERR, _PROCESS}

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            self._read_reports(data)
            return
        self.last_output_at = time.monotonic()
        self._buffer += data
        self._update_flow()
        self._changed.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        self._close(fd)
        self._changed.set()

    def process_exited(self) -> None:
        self._close(_PROCESS)

    async def read(self) -> bytes:
        """The next output of the agent; empty at the end."""
        while not self._buffer:
            if _STDOUT not in self._open:
                return b""
            self._changed.clear()
            await self._changed.wait()
        chunk = bytes(self._buffer[:CHUNK_BYTES])
        del self._buffer[:CHUNK_BYTES]
        self._update_flow()
        return chunk

    def send(self, order: dict[str, Any]) -> None:
        """The order is buffered until it can be written. It is dropped if the guardian is gone."""
        assert self._transport is not None
        stdin = cast(WriteTransport, self._transport.get_pipe_transport(_STDIN))
        if not stdin.is_closing():
            stdin.write(json.dumps(order).encode() + b"\n")

    def kill(self) -> None:
        assert self._transport is not None
        try:
            self._transport.kill()
        except ProcessLookupError:
            pass

    def _read_reports(self, data: bytes) -> None:
        *lines, self._reports = (self._reports + data).split(b"\n")
        for line in lines:
            try:
                report = json.loads(line)
            except ValueError:  # a traceback of a guardian that crashed
                continue
            self.last_output_at = time.monotonic()
            if "cause" in report:
                self._last_report = report
                self._update_flow()

    def _update_flow(self) -> None:
        """Pause or resume reading. Once the agent has exited, everything is read: the guardian
        waits until the rest, which is small, has been taken."""
        assert self._transport is not None
        ended = self._last_report is not None or _PROCESS not in self._open
        too_much = len(self._buffer) > WAITING_BYTES_MAX and not ended
        if too_much == self._paused or _STDOUT not in self._open:
            return
        self._paused = too_much
        stdout = cast(ReadTransport, self._transport.get_pipe_transport(_STDOUT))
        if too_much:
            stdout.pause_reading()
        else:
            stdout.resume_reading()

    def _close(self, what: int) -> None:
        self._open.discard(what)
        self._update_flow()
        if not self._open and not self.gone.done():
            assert self._transport is not None
            self._transport.close()
            self.gone.set_result(self._last_report)


class LineSplitter:
    """Splits chunks into lines. Only the beginning of a line that is too long is kept."""

    def __init__(self) -> None:
        self._partial = bytearray()

    def cut(self, chunk: bytes) -> list[str]:
        first, *others = chunk.split(b"\n")
        self._take(first)
        lines = []
        for piece in others:
            lines.append(self.rest())
            self._take(piece)
        return lines

    def rest(self) -> str:
        """The incomplete last line."""
        line = self._partial.decode(errors="replace")
        self._partial.clear()
        return line

    def _take(self, piece: bytes) -> None:
        self._partial += piece[: LINE_BYTES_MAX - len(self._partial)]
