"""The text of a source file: where its lines and the nodes of its syntax tree are, and edits."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

BYTE_ORDER_MARK: Final = "\ufeff"
_NEWLINE: Final = re.compile(r"\r\n|\r|\n")


class TextEdit(NamedTuple):
    """Replaces the characters from `start` to `end`."""

    start: int
    end: int
    replacement: str


def apply_edits(text: str, edits: Iterable[TextEdit]) -> str:
    """Of several edits at the same place, the first in the list comes first in the text.

    Raises ValueError if two of them overlap.
    """
    parts: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at:
            raise ValueError(f"two edits overlap at character {edit.start}")
        parts += [text[at : edit.start], edit.replacement]
        at = edit.end
    return "".join([*parts, text[at:]])


def line_starts(text: str) -> list[int]:
    """Where each line starts, as Python and most other languages count lines."""
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]


class PythonPositions:
    """Positions in the text, from those in its syntax tree, whose columns are bytes of UTF-8 and do
    not count a byte order mark."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._is_ascii = text.isascii()
        self.line_starts = line_starts(text)
        # By line, for each byte the number of the character. A line can have very many nodes.
        self._characters: dict[int, list[int]] = {}

    def at(self, line: int | None, column: int | None) -> int:
        """Lines count from 1. Nodes that Python has parsed always have both."""
        assert line is not None
        assert column is not None
        start = self.line_starts[line - 1]
        if self._is_ascii:
            return start + column
        if line not in self._characters:
            self._characters[line] = _characters_of_bytes(self._line(line))
        mark = line == 1 and self._text.startswith(BYTE_ORDER_MARK)
        return start + mark + self._characters[line][column]

    def line_at(self, position: int) -> int:
        return bisect_right(self.line_starts, position)

    def _line(self, line: int) -> str:
        end = self.line_starts[line] if line < len(self.line_starts) else None
        text = self._text[self.line_starts[line - 1] : end]
        return text.removeprefix(BYTE_ORDER_MARK) if line == 1 else text


def _characters_of_bytes(line: str) -> list[int]:
    """The last entry is the end of the line."""
    return [at for at, letter in enumerate(line) for _ in letter.encode()] + [len(line)]
