"""A patch of git as hunks. Only the numbers in the head of a hunk say where it ends: a line of a
file can look like anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from shiftboss.protocol.claims.diffs import DiffHunk
from shiftboss.rules.documents.printable import printable_source

LINE_CHARACTERS_MAX: Final = 2000
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# How many lines of the old and of the new file a line stands for.
_SIDES: Final = {b" ": (1, 1), b"-": (1, 0), b"+": (0, 1)}


def parse_patch(patch: bytes, lines_max: int) -> list[list[DiffHunk]]:
    """The hunks of each file, in the order of the files; after `lines_max` lines, none."""
    files: list[list[DiffHunk]] = []
    lines = iter(patch.split(b"\n"))
    for line in lines:
        if line.startswith(b"diff --git "):
            files.append([])
        elif files and (head := _HUNK.match(line)):
            hunk = _hunk(line, head, lines)
            lines_max -= len(hunk.lines)
            if lines_max >= 0:
                files[-1].append(hunk)
    return files


def _hunk(line: bytes, head: re.Match[bytes], lines: Iterator[bytes]) -> DiffHunk:
    old_left, new_left = int(head[2] or 1), int(head[4] or 1)
    content: list[tuple[str, str]] = []
    while old_left > 0 or new_left > 0:
        text = next(lines, None)
        if text is None:
            break
        sides = _SIDES.get(text[:1])
        if sides is None:  # such as "\ No newline at end of file"
            continue
        old_left, new_left = old_left - sides[0], new_left - sides[1]
        content.append((text[:1].decode(), _shown(text[1:])))
    return DiffHunk(
        header=_shown(line), old_start=int(head[1]), new_start=int(head[3]), lines=content
    )


def _shown(text: bytes) -> str:
    line = text.decode(errors="replace").removesuffix("\r")
    more = "..." if len(line) > LINE_CHARACTERS_MAX else ""
    return printable_source(line[:LINE_CHARACTERS_MAX]) + more
