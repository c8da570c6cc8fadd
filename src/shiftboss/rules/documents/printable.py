"""Text from tasks, agents and files made safe to show: on a terminal, in a log, on the page.

Nothing in it controls what shows it. Control characters, escape sequences, and the marks that turn
the direction of writing around are shown as what they are.
"""

from __future__ import annotations


def printable(value: object) -> str:
    """The value as text, with control characters and line breaks made visible."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _visible(char) for char in text)


def _visible(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def printable_lines(value: object) -> str:
    """Like `printable`, but line breaks stay line breaks."""
    return "\n".join(printable(line) for line in str(value).splitlines())


def printable_source(line: str) -> str:
    """Like `printable`, but tabs stay tabs: for a line of a file."""
    return "\t".join(printable(part) for part in line.split("\t"))
