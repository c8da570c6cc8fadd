"""Output of the commands: JSON as the server sent it, and text without control characters."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shiftboss.errors import ShiftbossError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def printable(value: object) -> str:
    """The value as text, with control characters and line breaks made visible."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _visible(char) for char in text)


def _visible(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


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


def console() -> Console:
    # rich takes 50 ms to import, which --json does not need.
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


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
