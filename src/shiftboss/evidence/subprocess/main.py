"""The evidence process of a server; connection.py starts it.

Its arguments are the descriptor of the connection, the folder, and secrets elsewhere. When the
connection is closed, the server is gone or needs no more evidence: the process ends at once. Its
git processes and commands end with it; see git_reaper.py and supervisor.py.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shiftboss.errors import EvidenceUnavailable, ShiftbossError
from shiftboss.evidence.inspector import Inspector
from shiftboss.evidence.subprocess.messages import (
    HIDDEN,
    READY,
    Outcome,
    ProxyCall,
    ProxyCancel,
    ProxyEnvironment,
    ProxyResult,
    failure_of,
    receive,
    send,
)
from shiftboss.system.private_environment import hide_secrets, replace_environment
from shiftboss.system.processes.niceness import lengthen_time_slices, lower_priority
from shiftboss.system.processes.orphans import ORPHANS


class RequestDispatcher:
    """Each call is a task, so that calls run concurrently and each can be cancelled."""

    def __init__(self, inspector: Inspector, writer: asyncio.StreamWriter) -> None:
        self._inspector = inspector
        self._writer = writer
        self._calls: dict[int, asyncio.Task[Any]] = {}

    def begin(self, call: ProxyCall) -> None:
        task = asyncio.create_task(self._run(call))
        self._calls[call.number] = task
        task.add_done_callback(partial(self._end, call.number))

    def cancel(self, number: int) -> None:
        """A call that has ended in the meantime has been answered."""
        if number in self._calls:
            self._calls[number].cancel()

    async def _run(self, call: ProxyCall) -> object:
        return await getattr(self._inspector, call.name)(*call.args, **call.kwargs)

    def _end(self, number: int, task: asyncio.Task[Any]) -> None:
        del self._calls[number]
        send(self._writer, _outcome(number, task))


def _outcome(number: int, task: asyncio.Task[Any]) -> Outcome:
    if task.cancelled():
        return failure_of(number, EvidenceUnavailable("the call was cancelled"))
    error = task.exception()
    return ProxyResult(number, task.result()) if error is None else failure_of(number, error)


async def serve(connection: socket.socket, folder: Path, secrets: Sequence[Path] = ()) -> None:
    """Answer calls until the connection is closed."""
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    send(writer, ProxyResult(HIDDEN, None))
    environment = await receive(reader)
    if not isinstance(environment, ProxyEnvironment):
        return  # the server is gone
    replace_environment(environment.variables)
    try:
        inspector = _inspector(folder, secrets)
    except ShiftbossError as error:
        send(writer, failure_of(READY, error))
        writer.close()
        await writer.wait_closed()
        return
    send(writer, ProxyResult(READY, None))
    dispatcher = RequestDispatcher(inspector, writer)
    while (message := await receive(reader)) is not None:
        if isinstance(message, ProxyCall):
            dispatcher.begin(message)
        elif isinstance(message, ProxyCancel):
            dispatcher.cancel(message.number)
    # No caller waits for an orderly end, and the next process needs the folder.
    os._exit(0)


def _inspector(folder: Path, secrets: Sequence[Path]) -> Inspector:
    try:
        return Inspector(folder, secrets)
    except OSError as error:
        raise EvidenceUnavailable(
            f"cannot use the folder {folder}: {error.strerror}",
            hint="make it writable, or choose another --state",
        ) from error


def main() -> None:
    connection, folder = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    connection.set_inheritable(False)
    hide_secrets()
    # A service manager often signals all processes of a service, but the server decides when this
    # one ends. The signals are not ignored, because its git processes would inherit that.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    # A terminal may stop a process of another group that writes to it.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    lower_priority()
    lengthen_time_slices()
    ORPHANS.adopt()
    asyncio.run(serve(connection, folder, [Path(name) for name in sys.argv[3:]]))


if __name__ == "__main__":
    main()
