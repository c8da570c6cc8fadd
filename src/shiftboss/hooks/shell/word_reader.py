"""Reads the words of a shell script: quotes, variables, substitutions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Self

from shiftboss.hooks.shell.words import MEANING, Unclear, WordBuilder, escaped

ENDS_WORD: Final = frozenset(" \t\r\n;&|<>()")
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RUN: Final = re.compile(r"""[^\s;&|<>()'"\\$`{},*?\[~]+""")
_DEPTH_MAX: Final = 20
# More than a system allows in one argument of a program.
_LETTERS_MAX: Final = 200_000

Variables = dict[str, str | None]


class WordReader:
    """`run_inner` is called with a reader for every substitution. It has to read it to the end, and
    returns what the substitution would print, if that is known. `variables` may change between two
    commands; None is a value that only the shell knows."""

    def __init__(
        self,
        text: str,
        variables: Variables,
        run_inner: Callable[[Any], str | None],
        depth: int = 0,
    ) -> None:
        if depth > _DEPTH_MAX:
            raise Unclear("is nested too deeply")
        if len(text) > _LETTERS_MAX:
            raise Unclear("is too long")
        if depth == 0 and ("\0" in text or any(mark in text for mark in MEANING.values())):
            raise Unclear("has characters that are not allowed in text")
        self.depth = depth
        self.variables = variables
        self._text = text
        self.at = 0
        self.until_closed = False
        self._run_inner = run_inner

    def expand_all(self) -> None:
        """Read a text in which only substitutions have a meaning."""
        word = WordBuilder()
        while self.at < len(self._text):
            self._in_double_quotes(word)

    def _word(self) -> WordBuilder:
        word = WordBuilder()
        text = self._text
        while self.at < len(text):
            run = _RUN.match(text, self.at)
            if run:
                word.literal(run[0])
                self.at = run.end()
                continue
            letter = text[self.at]
            if text.startswith(("<(", ">("), self.at):
                self.at += 2
                self._inner_to_parenthesis()
                word.unknown()
            elif letter in ENDS_WORD:
                break
            else:
                self._part(word, letter)
        return word

    def _part(self, word: WordBuilder, letter: str) -> None:
        text = self._text
        if letter == "\\":
            if not text.startswith("\\\n", self.at):
                word.literal(text[self.at + 1 : self.at + 2])
            self.at += 2
        elif letter == "'":
            word.literal(self._up_to("'"))
        elif letter == '"':
            self.at += 1
            word.literal("")
            while self._quote_continues():
                self._in_double_quotes(word)
        elif letter in "$`":
            self._expansion(word, in_quotes=False)
        elif letter == "~":
            self.at += 1
            at_start = not word.started or word.text.endswith("=")
            is_home = at_start and text[self.at : self.at + 1] in ("", "/", *ENDS_WORD)
            if is_home:
                word.variable(self.variables.get("HOME"), in_quotes=True)
            elif at_start:
                word.unknown()
            else:
                word.literal("~")
        else:
            self.at += 1
            word.unquoted(letter)

    def _quote_continues(self) -> bool:
        if self.at >= len(self._text):
            raise Unclear("has a quote that is not closed")
        if self._text[self.at] == '"':
            self.at += 1
            return False
        return True

    def _in_double_quotes(self, word: WordBuilder) -> None:
        letter = self._text[self.at]
        if letter == "\\":
            after = self._text[self.at + 1 : self.at + 2]
            word.literal(after if after in '$`"\\' else "" if after == "\n" else f"\\{after}")
            self.at += 2
        elif letter in "$`":
            self._expansion(word, in_quotes=True)
        else:
            ends = [self._text.find(mark, self.at + 1) for mark in '\\$`"']
            end = min((end for end in ends if end >= 0), default=len(self._text))
            word.literal(self._text[self.at : end])
            self.at = end

    def _up_to(self, quote: str) -> str:
        end = self._text.find(quote, self.at + 1)
        if end < 0:
            raise Unclear("has a quote that is not closed")
        quoted = self._text[self.at + 1 : end]
        self.at = end + 1
        return quoted

    def _expansion(self, word: WordBuilder, *, in_quotes: bool) -> None:
        text = self._text
        if text.startswith("`", self.at):
            word.variable(self._backticks(), in_quotes=in_quotes)
        elif text.startswith("$((", self.at):
            self._skip_arithmetic(self.at + 3)
            word.unknown()
        elif text.startswith("$(", self.at):
            self.at += 2
            word.variable(self._inner_to_parenthesis(), in_quotes=in_quotes)
        elif text.startswith("${", self.at):
            self._in_braces(word, in_quotes=in_quotes)
        elif text.startswith("$'", self.at) and not in_quotes:
            self._escaped_quote(word)
        elif text.startswith('$"', self.at) and not in_quotes:
            self.at += 1
        else:
            self._variable(word, in_quotes=in_quotes)

    def _variable(self, word: WordBuilder, *, in_quotes: bool) -> None:
        name = NAME.match(self._text, self.at + 1)
        if name:
            word.variable(self.variables.get(name[0]), in_quotes=in_quotes)
            self.at = name.end()
        elif self._text[self.at + 1 : self.at + 2] in tuple("?$!#@*-0123456789"):
            word.unknown()
            self.at += 2
        else:
            word.literal("$")
            self.at += 1

    def _in_braces(self, word: WordBuilder, *, in_quotes: bool) -> None:
        name = NAME.match(self._text, self.at + 2)
        if name and self._text.startswith("}", name.end()):
            word.variable(self.variables.get(name[0]), in_quotes=in_quotes)
            self.at = name.end() + 1
            return
        self.at += 2
        rest = WordBuilder()
        while not self._text.startswith("}", self.at):
            if self.at >= len(self._text):
                raise Unclear("has a brace that is not closed")
            letter = self._text[self.at]
            if letter in ENDS_WORD:
                self.at += 1
            else:
                self._part(rest, letter)
        self.at += 1
        word.unknown()

    def _escaped_quote(self, word: WordBuilder) -> None:
        self.at += 2
        letters = []
        while not self._text.startswith("'", self.at):
            if self.at >= len(self._text):
                raise Unclear("has a quote that is not closed")
            if self._text[self.at] == "\\":
                letter, self.at = escaped(self._text, self.at + 1)
                letters.append(letter)
            else:
                letters.append(self._text[self.at])
                self.at += 1
        self.at += 1
        word.literal("".join(letters))

    def _skip_arithmetic(self, start: int) -> None:
        depth, at = 2, start
        while depth:
            if at >= len(self._text):
                raise Unclear("has a parenthesis that is not closed")
            depth += {"(": 1, ")": -1}.get(self._text[at], 0)
            at += 1
        self.at = at

    def _backticks(self) -> str | None:
        at = self.at + 1
        while not self._text.startswith("`", at):
            if at >= len(self._text):
                raise Unclear("has a backtick that is not closed")
            at += 2 if self._text[at] == "\\" else 1
        inside = self._text[self.at + 1 : at].replace("\\`", "`").replace("\\\\", "\\")
        self.at = at + 1
        return self._run_inner(self._inner(inside))

    def _inner_to_parenthesis(self) -> str | None:
        inner = self._inner(self._text)
        inner.at = self.at
        inner.until_closed = True
        printed = self._run_inner(inner)
        self.at = inner.at
        return printed

    def _inner(self, text: str) -> Self:
        return type(self)(text, self.variables, self._run_inner, self.depth + 1)
