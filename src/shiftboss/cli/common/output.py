"""What goes to the terminal: JSON as it came, and text that cannot play tricks on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from shiftboss.errors import ShiftbossError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


def plain(value: object) -> str:
    """The value as text, with control characters and line breaks made visible."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _visible(one) for one in text)


def _visible(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def print_json(document: bytes) -> None:
    sys.stdout.buffer.write(document + b"\n")
    # A reader that has gone away is noticed here and not at the end of the interpreter.
    sys.stdout.buffer.flush()


def say(text: str) -> None:
    """One line, however long: paths and addresses are there to be copied."""
    print(plain(text), flush=True)


def print_text(text: str) -> None:
    """Word for word for a file or a pipe; on a terminal, line by line as plain text."""
    if not sys.stdout.isatty():
        print(text, end="" if text.endswith("\n") else "\n", flush=True)
        return
    for line in text.splitlines():
        say(line)


def console() -> Console:
    # rich costs 50 ms, which a command with --json need not pay.
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


def show(*renderables: RenderableType) -> None:
    screen = console()
    for renderable in renderables:
        screen.print(renderable)


def complain(error: ShiftbossError) -> None:
    """One line on stderr: what is wrong, and what to do about it."""
    parts = [plain(error.detail)] + ([plain(error.hint)] if error.hint else [])
    print("; ".join(parts), file=sys.stderr, flush=True)
