"""How many tokens a text has, on the safe side.

Every model counts otherwise, and their vocabularies are large. So this counts the pieces that no
vocabulary would cut much finer. It comes out about a third above a real count for prose and code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

CountTokens = Callable[[str], int]

_WORD_LETTERS: Final = 5
_PIECE: Final = re.compile(
    r"(?P<word>[A-Z]?[a-z]+)|(?P<capitals>[A-Z]+)|(?P<digits>[0-9]{1,2})"
    r"|(?P<foreign>[^\x00-\x7f]+)|(?P<mark>[^\sA-Za-z0-9])|(?P<space>\n+|[ \t]{2,})"
)


def estimate_tokens(text: str) -> int:
    return sum(_tokens(piece) for piece in _PIECE.finditer(text))


def _tokens(piece: re.Match[str]) -> int:
    length = len(piece[0])
    match piece.lastgroup:
        case "word":
            return 1 + (length - 1) // _WORD_LETTERS
        case "capitals":
            return (length + 1) // 2
        case "foreign":
            return len(piece[0].encode(errors="replace"))
        case _:
            return 1
