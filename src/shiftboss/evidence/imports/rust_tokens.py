"""The tokens of Rust: words, `::` and marks, without comments and literals."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<comment>/\*)
  | (?P<text>b?c?r(?P<hashes>\#*)".*?(?:"(?P=hashes)|\Z)|[bc]?"(?:[^"\\]|\\.)*(?:"|\Z))
  | (?P<letter>b?'(?:[^'\\\n]|\\[^\n][^'\n]*)')
  | (?P<lifetime>'\w+)
  | (?P<word>(?:r\#)?\w+)
  | (?P<mark>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


def tokens(text: str) -> list[str]:
    """A literal text keeps its quotes, so that it cannot be taken for code."""
    found: list[str] = []
    place = 0
    while match := _TOKEN.match(text, place):
        place = match.end()
        if match.lastgroup == "comment":
            place = _after_comment(text, place)
        elif match.group("word"):
            found.append(match.group().removeprefix("r#"))
        elif match.group("text") or match.group("mark"):
            found.append(match.group())
    return found


def _after_comment(text: str, place: int) -> int:
    """Comments of Rust may hold comments."""
    depth = 1
    while depth and (mark := _COMMENT_MARK.search(text, place)):
        depth += 1 if mark.group() == "/*" else -1
        place = mark.end()
    return len(text) if depth else place
