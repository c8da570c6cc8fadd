"""The tokens of JavaScript and TypeScript: what is code, and what is comment, text or pattern.

The scanner gives up what it takes for a string or a regular expression at the end of the line,
since neither goes further: an apostrophe in the text of a JSX element costs one line, no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|\A\#![^\n]*)
  | (?P<word>[A-Za-z_$\u0080-\U0010ffff][\w$\u0080-\U0010ffff]*)
  | (?P<number>\d[\w.]*)
  | (?P<text>"(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z)|'(?:[^'\\\n]|\\.)*(?:'|(?=\n)|\Z))
  | (?P<mark>\.\.\.|.)
    """,
    re.VERBOSE | re.DOTALL,
)
# `/>` and `</` end a JSX element; `a </re/` without a space is written by nobody. The bounds keep a
# line of many slashes from being read again and again to its end.
_PATTERN = re.compile(
    r"(?<!<)/(?![*/>])(?:[^/\\\[\n]|\\[^\n]|\[(?:[^\]\\\n]|\\[^\n]){0,300}+\]){1,3000}+/[A-Za-z]*"
)
_TEMPLATE_PART = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_BEFORE_VALUE = frozenset(
    (
        "return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do",
        "instanceof", "yield", "await", "default",
    )
)  # fmt: skip
_BEFORE_CONDITION = frozenset(("if", "while", "for", "with"))
_TEMPLATE, _CONDITION = "`", "if("


class Token(NamedTuple):
    """`kind` is word, number, text, pattern or mark; a text is what stands between its quotes."""

    kind: str
    value: str


END = Token("end", "")


def tokens(text: str) -> list[Token]:
    return list(_Scanner(text).tokens())


class _Scanner:
    """`_open` holds the brackets that are open; a template counts while its `${` is."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._last = END
        self._expects_value = True
        self._open: list[str] = []

    def tokens(self) -> Iterator[Token]:
        while self._place < len(self._text):
            token = self._next()
            if token is not None:
                self._expects_value = self._value_follows(token)
                self._last = token
                yield token

    def _next(self) -> Token | None:
        start = self._place
        if self._expects_value and (pattern := _PATTERN.match(self._text, start)):
            self._place = pattern.end()
            return Token("pattern", "")
        match = _TOKEN.match(self._text, start)
        assert match is not None  # the last alternative takes any character
        self._place = match.end()
        kind, value = match.lastgroup or "mark", match.group()
        if kind == "space":
            return None
        if kind == "text":
            return Token("text", _ESCAPE.sub(r"\1", value[1:-1]))
        if value == "`" or (value == "}" and self._open[-1:] == [_TEMPLATE]):
            return self._template(is_start=value == "`")
        return Token(kind, value)

    def _template(self, *, is_start: bool) -> Token:
        if not is_start:
            self._open.pop()
        part = _TEMPLATE_PART.match(self._text, self._place)
        assert part is not None  # it may be empty
        self._place = part.end()
        if self._text.startswith("${", self._place):
            self._place += 2
            self._open.append(_TEMPLATE)
            return Token("mark", "${")
        self._place += 1
        # Without a hole in it, a template is a plain text.
        return Token("text" if is_start else "pattern", part.group())

    def _value_follows(self, token: Token) -> bool:
        """Whether a slash after this token begins a regular expression, or divides."""
        if token.kind == "word":
            return token.value in _BEFORE_VALUE and self._last.value != "."
        if token.kind != "mark":
            return False
        if token.value in "([{":
            is_condition = token.value == "(" and self._last.value in _BEFORE_CONDITION
            self._open.append(_CONDITION if is_condition else token.value)
            return True
        if token.value in ")]}":
            opened = self._open.pop() if self._open else token.value
            return token.value == "}" or opened == _CONDITION
        return True
