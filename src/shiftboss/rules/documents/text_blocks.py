"""A block of lines between two markers, in a file that belongs to somebody else; and seals.

A block at the end of a file has one newline in front of it and one behind it. If the file did not
end with a newline, there are two in front of the block and none behind it. This way a removal can
restore the file as it was.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass


class BrokenBlock(Exception):
    """The markers do not enclose one block. `line` counts from 1."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True)
class Markers:
    begin: str
    end: str


HASH = Markers("# shiftboss:begin", "# shiftboss:end")
HTML = Markers("<!-- shiftboss:begin -->", "<!-- shiftboss:end -->")


def with_block(text: str | None, lines: Sequence[str], markers: Markers) -> str:
    """Add the block at the end, or replace an older one. Raises BrokenBlock."""
    span = None if text is None else find_block(text, markers)
    newline = _newline(text or "", span, markers)
    block = newline.join([markers.begin, *lines, markers.end])
    if text is None:
        return block + newline
    if span is not None:
        return text[: span[0]] + block + text[span[1] :]
    if text and not text.endswith("\n"):
        return text + newline * 2 + block
    return text + newline + block + newline


def without_block(text: str, markers: Markers) -> str | None:
    """Remove the block. None: nothing is left, the file was created for it. Raises BrokenBlock."""
    span = find_block(text, markers)
    if span is None:
        return text
    before, after = text[: span[0]], text[span[1] :]
    newline = _newline(text, span, markers)
    if after:
        if not before and after == newline:
            return None
        if before == newline or before.endswith(f"\n{newline}"):
            before = before.removesuffix(newline)
        return before + after.removeprefix(newline)
    return before.removesuffix(newline).removesuffix(newline) if before else None


def _newline(text: str, span: tuple[int, int] | None, markers: Markers) -> str:
    """That of an existing block, because the file may have both kinds; else that of the file."""
    if span is not None:
        return "\r\n" if text.startswith("\r\n", span[0] + len(markers.begin)) else "\n"
    return "\r\n" if "\r\n" in text else "\n"


def find_block(text: str, markers: Markers) -> tuple[int, int] | None:
    """Where the block starts and ends, with its markers. Raises BrokenBlock."""
    begins = _lines_with(text, markers.begin)
    ends = _lines_with(text, markers.end)
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0] < begins[0]:
        line = text.count("\n", 0, (begins or ends)[0]) + 1
        raise BrokenBlock(
            f"must have one line {markers.begin!r} and after it one line {markers.end!r}", line
        )
    return begins[0], ends[0] + len(markers.end)


def _lines_with(text: str, marker: str) -> list[int]:
    pattern = rf"^{re.escape(marker)}(?=[ \t]*\r?$)"
    return [match.start() for match in re.finditer(pattern, text, re.MULTILINE)]


def sealed(text: str, comment: str) -> str:
    """Add a last line with a digest of the text, as a comment that starts with `comment`."""
    note = "`shiftboss init --remove` deletes this file unless it was changed"
    return f"{text}{comment} init {_digest(text)}: {note}\n"


def is_untouched(text: str, comment: str) -> bool:
    """Whether the text has a seal and was not changed since."""
    text = text.replace("\r\n", "\n")  # git may convert line endings
    seal = re.search(rf"^{re.escape(comment)} init ([0-9a-f]{{16}}): .*\n", text, re.MULTILINE)
    return seal is not None and seal[1] == _digest(text[: seal.start()] + text[seal.end() :])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
