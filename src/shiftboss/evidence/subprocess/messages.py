"""What the server and its evidence process say to each other.

Each message is pickled, with its length in front. The line is a pair of sockets that nobody but
these two can open, and both run the same program.
"""

from __future__ import annotations

import asyncio
import pickle
import struct
import traceback
from typing import Any, Final, NamedTuple

from shiftboss.errors import ShiftbossError

# The number of the first answer, which nobody asked for: the process is ready, or why it is not.
READY: Final = 0

_LENGTH: Final = struct.Struct(">Q")


class ProxyCall(NamedTuple):
    """Of a method of the observer."""

    number: int
    name: str
    arguments: tuple[object, ...]


class ProxyCancel(NamedTuple):
    """Nobody waits for the answer any more; it comes when nothing of the call is left."""

    number: int


class ProxyResult(NamedTuple):
    number: int
    value: Any


class ProxyFailure(NamedTuple):
    """An error in parts: each class has a constructor of its own, which pickle does not know."""

    number: int
    kind: type[Exception]
    arguments: tuple[Any, ...]
    members: dict[str, Any]

    def error(self) -> Exception:
        error = self.kind.__new__(self.kind, *self.arguments)
        vars(error).update(self.members)
        return error


Outcome = ProxyResult | ProxyFailure
Message = ProxyCall | ProxyCancel | Outcome


def failure_of(number: int, error: BaseException) -> ProxyFailure:
    """A mistake of ours has a class that the other side may not know; its traceback is a note."""
    if isinstance(error, ShiftbossError):
        return ProxyFailure(number, type(error), error.args, vars(error))
    told = "".join(traceback.format_exception(error))
    return ProxyFailure(number, RuntimeError, (repr(error),), {"__notes__": [told]})


def send(writer: asyncio.StreamWriter, message: Message) -> None:
    content = pickle.dumps(message)
    writer.write(_LENGTH.pack(len(content)) + content)


async def receive(reader: asyncio.StreamReader) -> Message | None:
    """None when the other side is gone."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        content = await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    message: Message = pickle.loads(content)  # noqa: S301 - of our own other half
    return message
