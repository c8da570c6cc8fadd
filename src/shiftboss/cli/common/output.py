"""Output of the commands: JSON as the server sent it, and text without control characters."""

from __future__ import annotations

import re
import sys
from typing import IO, TYPE_CHECKING, Any, Final, cast

from shiftboss.errors import ShiftbossError
from shiftboss.rules.documents.printable import printable, printable_lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

__all__ = [
    "CannotWrite",
    "console",
    "is_terminal",
    "print_error",
    "print_json",
    "print_line",
    "print_text",
    "printable",
    "printable_lines",
    "show",
]

# Wider than any line: output to a file or a pipe is neither wrapped nor cut off.
_PIPE_COLUMNS: Final = 100_000
_TRAILING_SPACES: Final = re.compile(r" +$", re.MULTILINE)


def print_json(document: bytes) -> None:
    sys.stdout.buffer.write(document + b"\n")
    # Flushed, so that a closed pipe raises here and not when the interpreter exits.
    sys.stdout.buffer.flush()


def print_line(text: str) -> None:
    """Print one line, however long, so that paths and addresses can be copied."""
    print(printable(text), flush=True)


def print_text(text: str) -> None:
    """Print the text unchanged to a file or a pipe; on a terminal, without control characters."""
    if not sys.stdout.isatty():
        print(text, end="" if text.endswith("\n") else "\n", flush=True)
        return
    for line in text.splitlines():
        print_line(line)


def is_terminal() -> bool:
    return sys.stdout.isatty()


class _WithoutPadding:
    """Standard output without the spaces that tables put at the ends of lines."""

    def write(self, text: str) -> int:
        return sys.stdout.write(_TRAILING_SPACES.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)


def console() -> Console:
    """The screen; or a file or a pipe, which gets plain lines of any length. Without colours if
    NO_COLOR is set."""
    # rich takes 50 ms to import, which --json does not need.
    from rich.console import Console

    if is_terminal():
        return Console(markup=False, emoji=False, highlight=False)
    file = cast("IO[str]", _WithoutPadding())
    return Console(markup=False, emoji=False, highlight=False, file=file, width=_PIPE_COLUMNS)


def show(*renderables: RenderableType) -> None:
    screen = console()
    for renderable in renderables:
        screen.print(renderable)


def print_error(error: ShiftbossError) -> None:
    """Print what is wrong and what to do about it, in one line on stderr."""
    parts = [printable(error.detail)] + ([printable(error.hint)] if error.hint else [])
    print("; ".join(parts), file=sys.stderr, flush=True)


class CannotWrite(ShiftbossError):
    code = "cannot_write"
    title = "The file cannot be written"
