"""The orchestrator's end of the pipes to a guardian: nothing here asks, it is all told."""

from __future__ import annotations

import asyncio
import json
import time
from asyncio.transports import BaseTransport, ReadTransport, SubprocessTransport, WriteTransport
from typing import Any, Final, cast

from shiftboss.system.processes import CHUNK_BYTES

LINE_BYTES_MAX: Final = 2**20
# What waits here for a slow listener. The guardian keeps some more, then lets go of the oldest.
WAITING_BYTES_MAX: Final = 2**20

_STDIN, _STDOUT, _STDERR, _PROCESS = range(4)


class GuardianConnection(asyncio.SubprocessProtocol):
    """`gone` is done when the guardian is, with its last report: None if it was killed."""

    def __init__(self) -> None:
        self.gone: asyncio.Future[dict[str, Any] | None] = asyncio.Future()
        self.last_output_at = time.monotonic()
        self._transport: SubprocessTransport | None = None
        self._news = asyncio.Event()
        self._waiting = bytearray()
        self._paused = False
        self._reports = b""
        self._last_report: dict[str, Any] | None = None
        self._open = {_STDOUT, _STDERR, _PROCESS}

    def connection_made(self, transport: BaseTransport) -> None:
        self._transport = cast(SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            self._hear(data)
            return
        self.last_output_at = time.monotonic()
        self._waiting += data
        self._balance()
        self._news.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002
        self._close(fd)
        self._news.set()

    def process_exited(self) -> None:
        self._close(_PROCESS)

    async def read(self) -> bytes:
        """What was printed; nothing at the end."""
        while not self._waiting:
            if _STDOUT not in self._open:
                return b""
            self._news.clear()
            await self._news.wait()
        chunk = bytes(self._waiting[:CHUNK_BYTES])
        del self._waiting[:CHUNK_BYTES]
        self._balance()
        return chunk

    def say(self, order: dict[str, Any]) -> None:
        """Kept until it can be written. To a guardian that is gone it does not matter."""
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

    def _hear(self, data: bytes) -> None:
        *lines, self._reports = (self._reports + data).split(b"\n")
        for line in lines:
            try:
                report = json.loads(line)
            except ValueError:  # the last words of a guardian that fell over
                continue
            self.last_output_at = time.monotonic()
            if "cause" in report:
                self._last_report = report
                self._balance()

    def _balance(self) -> None:
        """Read on or not. Once the agent has ended everything is taken: the guardian waits to be
        rid of the rest, which it has kept small."""
        assert self._transport is not None
        ended = self._last_report is not None or _PROCESS not in self._open
        too_much = len(self._waiting) > WAITING_BYTES_MAX and not ended
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
        self._balance()
        if not self._open and not self.gone.done():
            assert self._transport is not None
            self._transport.close()
            self.gone.set_result(self._last_report)


class LineSplitter:
    """Makes lines of chunks. Of a line that is too long the beginning is kept."""

    def __init__(self) -> None:
        self._begun = bytearray()

    def cut(self, chunk: bytes) -> list[str]:
        first, *others = chunk.split(b"\n")
        self._take(first)
        lines = []
        for piece in others:
            lines.append(self.rest())
            self._take(piece)
        return lines

    def rest(self) -> str:
        """The line that has begun, which ends here."""
        line = self._begun.decode(errors="replace")
        self._begun.clear()
        return line

    def _take(self, piece: bytes) -> None:
        self._begun += piece[: LINE_BYTES_MAX - len(self._begun)]
