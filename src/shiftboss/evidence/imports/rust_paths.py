"""The paths that a Rust file names, and the module in which it names each."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from shiftboss.evidence.imports.rust_tokens import tokens

_WORD = re.compile(r"\w+")
SEGMENTS_MAX = 50
_PADDING = ["", "", ""]


class NamedPath(NamedTuple):
    """`segments` is a path as it is written; or one literal: a file, by a `path` attribute."""

    module: str
    segments: list[str]


def named_paths(text: str, module: str) -> list[NamedPath]:
    """`module` is that of the file; the modules that are written out in it are below it."""
    return list(_Reader([*tokens(text), *_PADDING], module).paths())


class _Reader:
    def __init__(self, said: list[str], module: str) -> None:
        self._said = said
        self._place = 0
        self._module = module
        self._outside: list[str] = []  # the module around each open brace
        self._file: str | None = None

    def paths(self) -> Iterator[NamedPath]:
        while self._place < len(self._said) - len(_PADDING):
            word, after = self._said[self._place : self._place + 2]
            if word == "mod":
                yield from self._mod()
            elif word == "use":
                yield from self._use()
            elif (word, after) == ("extern", "crate"):
                yield NamedPath(self._module, [self._said[self._place + 2]])
            elif word in ("{", "}"):
                self._brace(word)
            elif (word, after) == ("path", "=") and self._said[self._place - 1] == "[":
                self._file = self._said[self._place + 2]
            elif after == "::" and _WORD.match(word):
                yield from self._path()
            self._place += 1

    def _brace(self, mark: str) -> None:
        if mark == "{":
            self._outside.append(self._module)
        elif self._outside:
            self._module = self._outside.pop()

    def _mod(self) -> Iterator[NamedPath]:
        name, mark = self._said[self._place + 1 : self._place + 3]
        if mark == ";":
            yield NamedPath(self._module, [self._file] if self._file else ["self", name])
        elif mark == "{":
            self._brace(mark)
            self._module = posixpath.join(self._module, name)
        self._file = None
        self._place += 2

    def _path(self) -> Iterator[NamedPath]:
        segments = [self._said[self._place]]
        while self._said[self._place + 1] == "::" and _WORD.match(self._said[self._place + 2]):
            self._place += 2
            segments.append(self._said[self._place])
        yield NamedPath(self._module, segments[:SEGMENTS_MAX])

    def _use(self) -> Iterator[NamedPath]:
        """Each leaf of `use a::{b, c::{self, D as E}, f::*};` with all that stands before it."""
        prefixes: list[list[str]] = [[]]
        segments: list[str] = []
        while (word := self._said[self._place + 1]) not in ("", ";"):
            self._place += 1
            if word == "{":
                prefixes.append(segments)
            elif word in (",", "}"):
                yield from self._leaf(segments)
                if word == "}" and len(prefixes) > 1:
                    prefixes.pop()
                segments = [] if word == "}" else list(prefixes[-1])
            elif word == "as":
                self._place += 1
            elif _WORD.match(word):
                segments = [*segments, word][:SEGMENTS_MAX]
        yield from self._leaf(segments)

    def _leaf(self, segments: list[str]) -> Iterator[NamedPath]:
        if len(segments) > 1 and segments[-1] == "self":
            segments = segments[:-1]
        if segments:
            yield NamedPath(self._module, segments)
