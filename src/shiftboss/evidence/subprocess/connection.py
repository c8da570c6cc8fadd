"""The server's end of the connection to its evidence process."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from shiftboss.errors import EvidenceUnavailable, ShiftbossError
from shiftboss.evidence.subprocess.messages import (
    HIDDEN,
    READY,
    Outcome,
    ProxyCall,
    ProxyCancel,
    ProxyEnvironment,
    ProxyFailure,
    ProxyResult,
    failure_of,
    receive,
    send,
)
from shiftboss.system.private_environment import starting_environment
from shiftboss.system.processes.child_process import prepare_start


class EvidenceConnection:
    """One evidence process, from its start to its end."""

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
        self._outcomes: dict[int, asyncio.Future[Outcome]] = {}
        self.has_ended = False
        self._hidden = self._expect_outcome(HIDDEN)
        self._ready = self._expect_outcome(READY)
        self._reading = asyncio.create_task(self._read())

    async def wait_until_ready(self) -> None:
        """Raises the reason if the process cannot answer calls."""
        await asyncio.wait((self._hidden,))
        _value(self._hidden.result())
        send(self._writer, ProxyEnvironment(dict(os.environ)))
        await asyncio.wait((self._ready,))
        _value(self._ready.result())

    async def call(self, name: str, *args: object, **kwargs: object) -> Any:
        """Call a method of the Inspector. If the caller is cancelled, this waits until the call has
        left nothing behind in the process."""
        if self.has_ended:
            raise _ended()
        number = next(self._numbers)
        outcome = self._expect_outcome(number)
        send(self._writer, ProxyCall(number, name, args, kwargs))
        try:
            await asyncio.wait((outcome,))
        except asyncio.CancelledError:
            if not self.has_ended:
                send(self._writer, ProxyCancel(number))
            await asyncio.wait((outcome,))
            raise
        return _value(outcome.result())

    async def close(self) -> None:
        """Close the connection: the process ends at once, with everything that it has started."""
        self._writer.close()
        await asyncio.wait((self._reading,))

    def _expect_outcome(self, number: int) -> asyncio.Future[Outcome]:
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._outcomes[number] = outcome
        return outcome

    async def _read(self) -> None:
        try:
            while (message := await receive(self._reader)) is not None:
                assert isinstance(message, ProxyResult | ProxyFailure)
                self._outcomes.pop(message.number).set_result(message)
        finally:
            self.has_ended = True
            for number, outcome in self._outcomes.items():
                outcome.set_result(failure_of(number, _ended()))
            self._writer.close()
            await asyncio.to_thread(self._process.wait)


async def start_evidence_process(folder: Path, secret: Path | None = None) -> EvidenceConnection:
    """Commands do not see the file `secret`. Raises the reason if the process cannot start, or
    cannot use the folder."""
    server_end, process_end = socket.socketpair()
    try:
        with process_end:
            # In a thread: a fork of the server would block the event loop.
            process = await asyncio.to_thread(_start, process_end.fileno(), folder, secret)
    except OSError as error:
        server_end.close()
        raise EvidenceUnavailable(
            f"the evidence process cannot be started: {error.strerror}"
        ) from error
    reader, writer = await asyncio.open_unix_connection(sock=server_end)
    connection = EvidenceConnection(process, reader, writer)
    try:
        await connection.wait_until_ready()
    except ShiftbossError:
        await connection.close()  # or the end of the process would not be awaited
        raise
    return connection


def _start(descriptor: int, folder: Path, secret: Path | None) -> subprocess.Popen[bytes]:
    """`-P` keeps modules in the current folder from being imported: workers write there.

    The process has a group of its own, because the server ends it and signals that a terminal sends
    to the server's group must not. A session would do the same, but then its niceness would have no
    effect; see git.py.
    """
    module = "shiftboss.evidence.subprocess.main"
    prepare_start()
    paths = [str(folder)] if secret is None else [str(folder), str(secret)]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(descriptor), *paths],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[descriptor],
        env=starting_environment(),
        process_group=0,
    )


def _value(outcome: Outcome) -> Any:
    if isinstance(outcome, ProxyFailure):
        raise outcome.error()
    return outcome.value


def _ended() -> EvidenceUnavailable:
    return EvidenceUnavailable(
        "the evidence process was killed before it answered",
        hint="repeat the request: the process is started again",
    )
