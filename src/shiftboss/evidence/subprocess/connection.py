"""The server's end of the line to its evidence process."""

from __future__ import annotations

import asyncio
import itertools
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from shiftboss.errors import EvidenceUnavailable
from shiftboss.evidence.subprocess.messages import (
    READY,
    Outcome,
    ProxyCall,
    ProxyCancel,
    ProxyFailure,
    ProxyResult,
    failure_of,
    receive,
    send,
)


class EvidenceConnection:
    """One process, from its start to its end."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(READY + 1)
        self._waiting: dict[int, asyncio.Future[Outcome]] = {}
        self.has_ended = False
        self._ready = self._outcome_of(READY)
        self._listening = asyncio.create_task(self._listen())

    async def make_sure(self) -> None:
        """Wait until the process can be asked; raises why it cannot."""
        await asyncio.wait((self._ready,))
        _value(self._ready.result())

    async def ask(self, name: str, *arguments: object) -> Any:
        """Whoever is cancelled here waits until the call has left nothing behind there."""
        if self.has_ended:
            raise _ended()
        number = next(self._numbers)
        outcome = self._outcome_of(number)
        send(self._writer, ProxyCall(number, name, arguments))
        try:
            await asyncio.wait((outcome,))
        except asyncio.CancelledError:
            if not self.has_ended:
                send(self._writer, ProxyCancel(number))
            await asyncio.wait((outcome,))
            raise
        return _value(outcome.result())

    async def close(self) -> None:
        """Without the line the process ends at once, and whatever it has started with it."""
        self._writer.close()
        await asyncio.wait((self._listening,))

    def _outcome_of(self, number: int) -> asyncio.Future[Outcome]:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting[number] = outcome
        return outcome

    async def _listen(self) -> None:
        try:
            while (message := await receive(self._reader)) is not None:
                assert isinstance(message, ProxyResult | ProxyFailure)
                self._waiting.pop(message.number).set_result(message)
        finally:
            self.has_ended = True
            for number, outcome in self._waiting.items():
                outcome.set_result(failure_of(number, _ended()))
            self._writer.close()
            await asyncio.to_thread(self._process.wait)


async def start_apart(folder: Path) -> EvidenceConnection:
    """Raises what keeps the process from looking at anything."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            # Not on the event loop, which would have to stand still for a fork of the server.
            process = await asyncio.to_thread(_start, theirs.fileno(), folder)
    except OSError as error:
        ours.close()
        raise EvidenceUnavailable(
            f"the process that looks at repositories cannot be started: {error.strerror}"
        ) from error
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    line = EvidenceConnection(process, reader, writer)
    await line.make_sure()
    return line


def _start(descriptor: int, folder: Path) -> subprocess.Popen[bytes]:
    """`-P` keeps modules of the folder that the server runs in out of it, for workers write there.

    What a terminal sends to the server's group is not meant for it: the server ends it. A session
    of its own would do the same, but then its niceness would count for nothing; see git.py.
    """
    module = "shiftboss.evidence.subprocess.main"
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(descriptor), str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        process_group=0,
    )


def _value(outcome: Outcome) -> Any:
    if isinstance(outcome, ProxyFailure):
        raise outcome.error()
    return outcome.value


def _ended() -> EvidenceUnavailable:
    return EvidenceUnavailable(
        "the process that looks at repositories was ended; nothing is known of what it looked at",
        hint="say it again: the next look starts it anew",
    )
