"""The messages between a server and its evidence process.

Each message is pickled, preceded by its length. The connection is a pair of sockets that only these
two processes can open, and both run the same program.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
import traceback
from typing import Any, Final, NamedTuple

from shiftboss.errors import ShiftbossError

# The numbers of the first outcomes, which belong to no call: the process is closed to others and
# may get our environment; then, it is ready, or why it is not.
HIDDEN: Final = 0
READY: Final = 1

_LENGTH: Final = struct.Struct(">Q")


class ProxyCall(NamedTuple):
    """A call of a method of the Inspector."""

    number: int
    name: str
    args: tuple[object, ...]
    kwargs: dict[str, object]


class ProxyCancel(NamedTuple):
    """Cancels a call. Its outcome is sent when nothing of the call is left."""

    number: int


class ProxyEnvironment(NamedTuple):
    """The environment of the server: the process is started without it; see
    private_environment.py."""

    variables: dict[str, str]


class ProxyResult(NamedTuple):
    number: int
    value: Any


class ProxyFailure(NamedTuple):
    """An error in parts: pickle cannot call the constructors of our error classes."""

    number: int
    kind: type[Exception]
    arguments: tuple[Any, ...]
    members: dict[str, Any]

    def error(self) -> Exception:
        error = self.kind.__new__(self.kind, *self.arguments)
        vars(error).update(self.members)
        return error


Outcome = ProxyResult | ProxyFailure
Message = ProxyEnvironment | ProxyCall | ProxyCancel | Outcome


def failure_of(number: int, error: BaseException) -> ProxyFailure:
    """An unexpected error may have a class that the server has not loaded, so it becomes a
    RuntimeError with the traceback as a note."""
    if isinstance(error, ShiftbossError):
        return ProxyFailure(number, type(error), error.args, vars(error))
    note = "".join(traceback.format_exception(error))
    return ProxyFailure(number, RuntimeError, (repr(error),), {"__notes__": [note]})


def send(writer: asyncio.StreamWriter, message: Message) -> None:
    content = pickle.dumps(message)
    writer.write(_LENGTH.pack(len(content)) + content)


async def receive(reader: asyncio.StreamReader) -> Message | None:
    """None when the other process has closed the connection."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        content = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    message: Message = pickle.loads(content)  # noqa: S301 - from our own process
    return message
