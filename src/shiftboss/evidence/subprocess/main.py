"""The evidence process of a server, started by apart_line.py with the line and the folder.

When the line is cut the server is gone, or wants no more: the process ends at once. Its gits and
commands end with it; see git_watch.py and supervisor.py.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Any

from shiftboss.errors import EvidenceUnavailable, ShiftbossError
from shiftboss.evidence.inspector import Inspector
from shiftboss.evidence.subprocess.messages import (
    READY,
    Outcome,
    ProxyCall,
    ProxyCancel,
    ProxyResult,
    failure_of,
    receive,
    send,
)
from shiftboss.system.processes import stand_back, take_long_turns


class RequestDispatcher:
    """Every call is a task, so that they run beside each other and each can be cancelled."""

    def __init__(self, observer: Inspector, writer: asyncio.StreamWriter) -> None:
        self._observer = observer
        self._writer = writer
        self._calls: dict[int, asyncio.Task[Any]] = {}

    def begin(self, call: ProxyCall) -> None:
        task = asyncio.create_task(self._look(call))
        self._calls[call.number] = task
        task.add_done_callback(partial(self._end, call.number))

    def cancel(self, number: int) -> None:
        """One that has ended meanwhile has been answered."""
        if number in self._calls:
            self._calls[number].cancel()

    async def _look(self, call: ProxyCall) -> object:
        return await getattr(self._observer, call.name)(*call.arguments)

    def _end(self, number: int, task: asyncio.Task[Any]) -> None:
        del self._calls[number]
        send(self._writer, _outcome(number, task))


def _outcome(number: int, task: asyncio.Task[Any]) -> Outcome:
    if task.cancelled():
        return failure_of(number, EvidenceUnavailable("it was called off"))
    error = task.exception()
    return ProxyResult(number, task.result()) if error is None else failure_of(number, error)


async def serve(line: socket.socket, folder: Path) -> None:
    """Until the line is cut."""
    reader, writer = await asyncio.open_unix_connection(sock=line)
    try:
        observer = _observer(folder)
    except ShiftbossError as error:
        send(writer, failure_of(READY, error))
        writer.close()
        await writer.wait_closed()
        return
    send(writer, ProxyResult(READY, None))
    switchboard = RequestDispatcher(observer, writer)
    while (message := await receive(reader)) is not None:
        if isinstance(message, ProxyCall):
            switchboard.begin(message)
        elif isinstance(message, ProxyCancel):
            switchboard.cancel(message.number)
    # Nobody is left to wait for an orderly end, and the next process wants the folder.
    os._exit(0)


def _observer(folder: Path) -> Inspector:
    try:
        return Inspector(folder)
    except OSError as error:
        raise EvidenceUnavailable(
            f"cannot use the folder {folder}: {error.strerror}",
            hint="make it writable, or choose another --state",
        ) from error


def main() -> None:
    line, folder = socket.socket(fileno=int(sys.argv[1])), Path(sys.argv[2])
    line.set_inheritable(False)
    # Who stops a service often tells all of its processes; when this one ends is the server's
    # matter. Not ignored, for that would be inherited by the gits.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    # A terminal may stop whoever writes to it from another group than its own.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    stand_back()
    take_long_turns()
    asyncio.run(serve(line, folder))


if __name__ == "__main__":
    main()
