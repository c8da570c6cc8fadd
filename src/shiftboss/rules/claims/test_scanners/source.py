"""Masks comments and strings in source code, so that the rest can be searched.

They are replaced by blanks of the same length. In what is left, a word is code and brackets match.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Final, NamedTuple

_BRACKET: Final = re.compile(r"[()\[\]{}]")
_NOT_NEWLINE: Final = re.compile(r"[^\n]")
_COMMENT: Final = r"//[^\n]*|/\*.*?(?:\*/|\Z)"
_QUOTED: Final = r'"(?:\\.|[^"\\\n])*"'

_GO: Final = re.compile(rf"{_COMMENT}|{_QUOTED}|`[^`]*`|'(?:\\.[^'\n]*|[^'\\\n])'", re.DOTALL)
_RUST: Final = re.compile(
    rf'{_COMMENT}|b?r(?P<hashes>#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|\'(?:\\.[^\'\n]*|[^\'\\\n])\'',
    re.DOTALL,
)
_JAVASCRIPT: Final = re.compile(rf"{_COMMENT}|{_QUOTED}|'(?:\\.|[^'\\\n])*'|[`/]", re.DOTALL)
_REGULAR_EXPRESSION: Final = re.compile(
    r"/(?:\\.|\[(?:\\.|[^\]\\\n]){0,100}\]|[^/\\\[\n]){1,1000}/[a-z]*"
)
_STRING: Final = re.compile(rf"{_QUOTED}|'(?:\\.|[^'\\\n])*'")
_IN_TEMPLATE: Final = re.compile(r"\\.|[`'\"{}]|\$\{", re.DOTALL)
# A slash after one of these starts a regular expression; after a value it is a division.
_BEFORE_EXPRESSION: Final = re.compile(
    r"(?:[(,=:\[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|in|of|delete|void|throw|new|else|do)|\A)\s*\Z"
)


def masked_go(text: str) -> str:
    return _GO.sub(_blank, text)


def masked_rust(text: str) -> str:
    return _RUST.sub(_blank, text)


def masked_javascript(text: str) -> str:
    parts: list[str] = []
    at = 0
    while match := _JAVASCRIPT.search(text, at):
        parts.append(text[at : match.start()])
        end = match.end()
        if match[0] == "`":
            end = _template_end(text, match.start())
        elif match[0] == "/":
            end = _expression_end(text, match.start(), "".join(parts[-2:])[-40:])
        parts.append(_blanked(text[match.start() : end]))
        at = end
    return "".join(parts) + text[at:]


def closings(masked: str) -> dict[int, int]:
    """The position of the closing bracket for each opening one that is closed."""
    closed_at: dict[int, int] = {}
    opened: list[int] = []
    for match in _BRACKET.finditer(masked):
        if match[0] in "([{":
            opened.append(match.start())
        elif opened:
            closed_at[opened.pop()] = match.start()
    return closed_at


class Brackets:
    """Which brackets belong together, and which are around a position.

    Raises ValueError if they do not match: then some comment or string was not recognised.
    """

    def __init__(self, masked: str) -> None:
        self.closing: dict[int, int] = {}
        self.opening: dict[int, int] = {}
        self._positions: list[int] = []
        self._around: list[int | None] = [None]
        opened: list[int] = []
        for match in _BRACKET.finditer(masked):
            if match[0] in "([{":
                opened.append(match.start())
            elif not opened or masked[opened[-1]] + match[0] not in ("()", "[]", "{}"):
                raise ValueError("brackets do not match")
            else:
                self.closing[opened[-1]] = match.start()
                self.opening[match.start()] = opened.pop()
            self._positions.append(match.start())
            self._around.append(opened[-1] if opened else None)
        if opened:
            raise ValueError("a bracket is not closed")

    def around(self, position: int) -> int | None:
        """The innermost bracket that is open at the position."""
        return self._around[bisect_left(self._positions, position)]


def _template_end(text: str, start: int) -> int:
    """The position after the closing backtick. Templates can be nested in braces."""
    braces = [0]  # open braces in each nested template
    at = start + 1
    while token := _IN_TEMPLATE.search(text, at):
        at = token.end()
        if token[0] == "`":
            if braces[-1]:
                braces.append(0)
            else:
                braces.pop()
                if not braces:
                    return at
        elif token[0] == "${" or (token[0] == "{" and braces[-1]):
            braces[-1] += 1
        elif token[0] == "}" and braces[-1]:
            braces[-1] -= 1
        elif token[0] in ("'", '"') and braces[-1]:
            string = _STRING.match(text, token.start())
            at = string.end() if string else at
    return len(text)


def _expression_end(text: str, start: int, before: str) -> int:
    match = _REGULAR_EXPRESSION.match(text, start)
    if match is None or not _BEFORE_EXPRESSION.search(before):
        return start + 1
    return match.end()


def _blank(match: re.Match[str]) -> str:
    return _blanked(match[0])


def _blanked(token: str) -> str:
    """Quotes are kept, so that a string can be located and read from the original text."""
    if len(token) == 1:
        return token  # a division
    if token[0] not in "\"'`" or token[-1] != token[0]:
        return _NOT_NEWLINE.sub(" ", token)
    return token[0] + _NOT_NEWLINE.sub(" ", token[1:-1]) + token[-1]


# Per file, so that a file that was written to waste time cannot.
TESTS_MAX: Final = 5000
# Bodies are compared by this many characters.
BODY_CHARACTERS_MAX: Final = 20_000


class ScannedTest(NamedTuple):
    """A test of a source file. `off` are the reasons why it does not run, or why its failure does
    not count. `body` identifies a test that was renamed. `line` is that of its definition, where
    the scanner knows it."""

    name: str
    body: str
    off: frozenset[str] = frozenset()
    line: int = 0


def body_of(text: str, start: int, end: int) -> str:
    """The text without differences in white space."""
    return " ".join(text[start : min(end, start + BODY_CHARACTERS_MAX)].split())
