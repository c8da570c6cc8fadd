"""The answering half of a connection: a call is begun, and its reply written."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sized
from functools import partial
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shiftboss.coordinator.two_step_answer import TwoStepAnswer
from shiftboss.errors import ShiftbossError
from shiftboss.protocol.fields import Answer
from shiftboss.server.fast_path.exchange import FastExchange, Reply, problem_reply
from shiftboss.server.http.guard import Guard
from shiftboss.store.early_future import EarlyFuture

# How a connection writes and reads, where uvicorn does it otherwise.


class OneWriteTransport:
    """Gathers what is written in one turn of the loop: uvicorn writes head and body of an answer
    one after the other, and each write is a system call and a packet."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._gathered: list[bytes] = []
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append(data)

    def write_at_once(self, data: bytes) -> None:
        """For what is complete; behind what was gathered before."""
        self._flush()
        self._transport.write(data)

    @property
    def has_more(self) -> bool:
        """Something waits to be written, here or with the system."""
        return bool(self._gathered) or self._transport.get_write_buffer_size() > 0

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._gathered:
            gathered, self._gathered = self._gathered, []
            # Where the client has hung up, nobody is there to read it.
            if not self.is_closing():
                self._transport.write(b"".join(gathered))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class OneAfterTheOther(FlowControl):
    """Reads no further while a request waits for the one before it: a client that sends and does
    not read would fill the memory."""

    def __init__(self, transport: asyncio.Transport, waiting: Sized) -> None:
        super().__init__(transport)
        self._waiting = waiting

    def resume_reading(self) -> None:
        if not self._waiting:
            super().resume_reading()


# Held while a reply is written that the loop has not been told of: by a connection that is closed
# meanwhile, its descriptor would be another's.
_WRITTEN_AT_ONCE: Final = threading.Lock()


class ReplyingConnection(HttpToolsProtocol):
    transport: OneWriteTransport  # type: ignore[assignment]
    cycle: Any
    _lines_last: ClassVar[tuple[list[tuple[bytes, bytes]] | None, bytes]] = (None, b"")

    def __init__(self, guard: Guard, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._guard = guard
        self._short: FastExchange | None = None
        self._descriptor: int | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(OneWriteTransport(transport, self.loop))  # type: ignore[arg-type]
        self._descriptor = transport.get_extra_info("socket").fileno()
        self.flow = OneAfterTheOther(self.transport, self.pipeline)  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        with _WRITTEN_AT_ONCE:
            self._descriptor = None
        super().connection_lost(exc)
        short = self._short
        if short is not None:
            short.disconnected = True
            if short.call.waits and short.answer is not None:
                short.answer.cancel()

    def _begin(self, short: FastExchange) -> None:
        try:
            self._guard.check(short.path, short.headers)
        except ShiftbossError as error:
            self._send(short, problem_reply(error))
            return
        short.is_admitted = True
        try:
            answer = short.call.begin(short.headers, short.body)
        except Exception as error:  # noqa: BLE001 (whatever it is, the client is told)
            self._send(short, short.problem(error))
            return
        first = answer.first if isinstance(answer, TwoStepAnswer) else answer
        if not isinstance(first, EarlyFuture):
            self._wait(short, answer)
            return
        # A single change in the store, or one event: no task has to wait for it.
        if short.call.prompt:
            first.at_once = partial(self._send_at_once, short)
        more = answer.more if isinstance(answer, TwoStepAnswer) else None
        first.add_done_callback(partial(self._on_first, short, more))
        self._remember(short, first)

    def _remember(self, short: FastExchange, answer: asyncio.Future[Any]) -> None:
        """uvicorn lets them finish before the server ends."""
        short.answer = answer
        self.tasks.add(answer)  # type: ignore[arg-type]

    def _on_first(
        self,
        short: FastExchange,
        more: Callable[[Any], Awaitable[Answer]] | None,
        first: asyncio.Future[Any],
    ) -> None:
        self.tasks.discard(first)
        if first.cancelled():
            return  # nobody is there to hear it
        error = first.exception()
        if error is not None:
            self._send(short, short.problem(error))
        elif short.disconnected:
            return
        elif more is not None and not isinstance(first.result(), Answer):
            self._wait(short, more(first.result()))
        elif short.left is None:
            self._send(short, short.reply(first.result()))
        else:
            self._end_what_was_sent(short)

    def _send_at_once(self, short: FastExchange, answer: object) -> None:
        """On any thread: ahead of the loop, to which all is left that is not as usual."""
        if not isinstance(answer, Answer):
            return
        reply = short.reply(answer).to_bytes(self._usual_lines())
        with _WRITTEN_AT_ONCE:
            if self._descriptor is None or not short.keep_alive or self.transport.has_more:
                return
            try:
                written = os.write(self._descriptor, reply)
            except OSError:
                return  # the client reads nothing, or has hung up
            short.left = reply[written:]

    def _end_what_was_sent(self, short: FastExchange) -> None:
        with _WRITTEN_AT_ONCE:
            was_sent = short.left is not None
        if was_sent and not short.response_complete:
            self._end(short)

    def _wait(self, short: FastExchange, answer: Awaitable[Answer]) -> None:
        self._remember(short, self.loop.create_task(self._wait_for(short, answer)))

    async def _wait_for(self, short: FastExchange, answer: Awaitable[Answer]) -> None:
        try:
            reply = short.reply(await answer)
        except Exception as error:  # noqa: BLE001 (whatever it is, the client is told)
            reply = short.problem(error)
        finally:
            self.tasks.discard(short.answer)
        self._send(short, reply)

    def _send(self, short: FastExchange, reply: Reply) -> None:
        if self.flow.write_paused and not short.disconnected:
            # A client that sends and does not read; its next request waits behind this one.
            asyncio.ensure_future(self.flow.drain()).add_done_callback(
                lambda _drained: self._send(short, reply)
            )
            return
        last = b"" if short.keep_alive else b"connection: close\r\n"
        short.left = reply.to_bytes(self._usual_lines() + last)
        self._end(short)

    def _end(self, short: FastExchange) -> None:
        self._short = None
        if short.disconnected:
            return
        short.response_complete = True
        if short.left:
            self.transport.write_at_once(short.left)
        if not short.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _usual_lines(self) -> bytes:
        """Of every answer; uvicorn makes a new list when the second changes."""
        headers = self.server_state.default_headers
        headers_last, lines = ReplyingConnection._lines_last
        if headers is not headers_last:
            lines = b"".join([b"%b: %b\r\n" % header for header in headers])
            ReplyingConnection._lines_last = (headers, lines)
        return lines
