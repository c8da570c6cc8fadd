"""The code blocks of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(*languages: str, page: str | None = None) -> list[Block]:
    """Those of all pages, or of one, in their order."""
    return [
        block
        for path in pages()
        if page in (None, str(path.relative_to(ROOT)))
        for block in _blocks_of(path)
        if block.language in languages
    ]


def _blocks_of(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(str(path.relative_to(ROOT)), line, found[1], found[2])
