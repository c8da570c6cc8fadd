"""Imports of Rust files: their modules, and paths into their crate and those of the workspace."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from shiftboss.evidence.survey.imports.cargo import Crate, crate_of, libraries, library_of
from shiftboss.evidence.survey.imports.repo_view import RepoView, joined

SUFFIXES = (".rs",)
_WORD = re.compile(r"\w+")
SEGMENTS_MAX = 50
_PADDING = ["", "", ""]

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


class NamedPath(NamedTuple):
    """A path, and the module in which it is named. `segments` is the path as it is written, or one
    literal: the file of a `path` attribute."""

    module: str
    segments: list[str]


def imported_by(path: str, text: str, repo: RepoView) -> set[str]:
    """The deepest module of each path: an item is in the file of its module."""
    crate = crate_of(path, repo)
    files: set[str] = set()
    for named in named_paths(text, crate.module_of(path)):
        if named.segments[0].startswith('"'):
            file = joined(posixpath.dirname(path), named.segments[0].strip('"'))
            files |= {file or ""} & repo.files
        else:
            files |= _files_of(named, crate, repo)
    return files - {path}


def _files_of(named: NamedPath, crate: Crate, repo: RepoView) -> set[str]:
    module, (first, *rest) = named
    if first == "crate":
        module = crate.folder
    elif first == "super":
        module = posixpath.dirname(module)
        while rest[:1] == ["super"]:
            module, rest = posixpath.dirname(module), rest[1:]
    elif first != "self":
        child = posixpath.join(module, first)
        package = libraries(crate.package, repo).get(first)
        if crate.files_of(child, repo):
            module = child
        elif package is not None:
            crate = library_of(package, repo)
            module = crate.folder
        else:
            return set()
    for segment in rest:
        child = posixpath.join(module, segment)
        if not crate.files_of(child, repo):
            break
        module = child
    return crate.files_of(module, repo)


def named_paths(text: str, module: str) -> list[NamedPath]:
    """`module` is the module of the file; inline modules are below it."""
    return list(_RustReader([*tokens(text), *_PADDING], module).paths())


class _RustReader:
    def __init__(self, code: list[str], module: str) -> None:
        self._code = code
        self._place = 0
        self._module = module
        self._outside: list[str] = []  # the module around each open brace
        self._file: str | None = None

    def paths(self) -> Iterator[NamedPath]:
        while self._place < len(self._code) - len(_PADDING):
            word, after = self._code[self._place : self._place + 2]
            if word == "mod":
                yield from self._mod()
            elif word == "use":
                yield from self._use()
            elif (word, after) == ("extern", "crate"):
                yield NamedPath(self._module, [self._code[self._place + 2]])
            elif word in ("{", "}"):
                self._brace(word)
            elif (word, after) == ("path", "=") and self._code[self._place - 1] == "[":
                self._file = self._code[self._place + 2]
            elif after == "::" and _WORD.match(word):
                yield from self._path()
            self._place += 1

    def _brace(self, mark: str) -> None:
        if mark == "{":
            self._outside.append(self._module)
        elif self._outside:
            self._module = self._outside.pop()

    def _mod(self) -> Iterator[NamedPath]:
        name, mark = self._code[self._place + 1 : self._place + 3]
        if mark == ";":
            yield NamedPath(self._module, [self._file] if self._file else ["self", name])
        elif mark == "{":
            self._brace(mark)
            self._module = posixpath.join(self._module, name)
        self._file = None
        self._place += 2

    def _path(self) -> Iterator[NamedPath]:
        segments = [self._code[self._place]]
        while self._code[self._place + 1] == "::" and _WORD.match(self._code[self._place + 2]):
            self._place += 2
            segments.append(self._code[self._place])
        yield NamedPath(self._module, segments[:SEGMENTS_MAX])

    def _use(self) -> Iterator[NamedPath]:
        """The full path of each leaf of `use a::{b, c::{self, D as E}, f::*};`."""
        prefixes: list[list[str]] = [[]]
        segments: list[str] = []
        while (word := self._code[self._place + 1]) not in ("", ";"):
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


def tokens(text: str) -> list[str]:
    """Words, `::` and marks, without comments. A literal text keeps its quotes, so that it cannot
    be taken for code."""
    code: list[str] = []
    place = 0
    while match := _TOKEN.match(text, place):
        place = match.end()
        if match.lastgroup == "comment":
            place = _after_comment(text, place)
        elif match.group("word"):
            code.append(match.group().removeprefix("r#"))
        elif match.group("text") or match.group("mark"):
            code.append(match.group())
    return code


def _after_comment(text: str, place: int) -> int:
    """Comments of Rust can be nested."""
    depth = 1
    while depth and (mark := _COMMENT_MARK.search(text, place)):
        depth += 1 if mark.group() == "/*" else -1
        place = mark.end()
    return len(text) if depth else place
