"""The code blocks of docs/operations.md, by the headings above them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[3]
EXAMPLES: Final = ROOT / "examples" / "operations"
PAGE: Final = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
# A block may belong to an item of a list, and is indented then.
_PART: Final = re.compile(
    r"^#{2,3} ([^\n]+)$|^( *)```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    heading: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    heading = ""
    for part in _PART.finditer(PAGE):
        if part[1]:
            heading = part[1]
        else:
            text = re.sub(rf"^{part[2]}", "", part[4], flags=re.MULTILINE)
            yield Block(heading, part[3], text)
