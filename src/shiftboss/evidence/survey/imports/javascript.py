"""Imports of JavaScript and TypeScript files, found in their tokens."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from shiftboss.evidence.survey.imports.node_packages import package_files
from shiftboss.evidence.survey.imports.repo_view import RepoView, joined
from shiftboss.evidence.survey.imports.typescript_config import aliased

_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
_PAGES = (".vue", ".svelte")
SUFFIXES = _SCRIPTS + _PAGES

_CLAUSE_MARKS = frozenset("{},*")
_SCRIPT_TAG = re.compile(
    r"<script\b(?:[^>\"']|\"[^\"]{0,500}\"|'[^']{0,500}'){0,500}+>", re.IGNORECASE
)
_SCRIPT_END = re.compile(r"</script|\Z", re.IGNORECASE)
_SCRIPT_SOURCE = re.compile(r"\ssrc\s*=\s*[\"']([^\"']+)[\"']")

_ENDINGS = (
    ".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".json", ".vue",
    ".svelte",
)  # fmt: skip
# TypeScript imports name the compiled file.
_SOURCE_ENDINGS = {
    ".js": (".ts", ".tsx", ".d.ts", ".jsx"),
    ".jsx": (".tsx",),
    ".mjs": (".mts", ".d.mts"),
    ".cjs": (".cts", ".d.cts"),
}

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
# `/>` and `</` end a JSX element; `a </re/` is not written without a space. The bounds keep a line
# with many slashes from being scanned again and again.
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
    """`kind` is word, number, text, pattern or mark. A text has no quotes."""

    kind: str
    value: str


END = Token("end", "")


def imported_by(path: str, text: str, repo: RepoView) -> set[str]:
    files: set[str] = set()
    for specifier in specifiers(path, text):
        files |= resolve(specifier, path, repo)
    return files - {path}


def specifiers(path: str, text: str) -> set[str]:
    """The specifiers as they are written: `./a`, `@/b`, `react`."""
    if not path.endswith(_PAGES):
        return set(_imported_modules(tokens(text)))
    modules: set[str] = set()
    for tag, script in _script_blocks(text):
        modules.update(_SCRIPT_SOURCE.findall(tag))
        modules.update(_imported_modules(tokens(script)))
    return modules


def _script_blocks(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while tag := _SCRIPT_TAG.search(text, place):
        comment = text.find("<!--", place, tag.start())
        if comment >= 0 and (end := text.find("-->", comment)) > tag.start():
            place = end
            continue
        script_end = _SCRIPT_END.search(text, tag.end())
        assert script_end is not None  # there is always an end of the text
        place = script_end.start()
        yield tag.group(), text[tag.end() : place]


def _imported_modules(code: list[Token]) -> Iterator[str]:
    code.append(END)
    before = END
    for place, token in enumerate(code):
        if token.kind == "word" and before != ("mark", "."):
            if token.value in ("import", "export"):
                yield from _module_of_clause(code, place + 1)
            if token.value in ("import", "require"):
                yield from _module_of_call(code, place + 1)
        before = token


def _module_of_clause(code: list[Token], place: int) -> Iterator[str]:
    """`import "x"`, `import a, { b as c } from "x"`, `export * from "x"`."""
    if code[place].kind == "text" and code[place - 1].value == "import":
        yield code[place].value
        return
    while code[place].kind in ("word", "text") or code[place].value in _CLAUSE_MARKS:
        if code[place].value in ("import", "export") and code[place].kind == "word":
            return
        if code[place] == ("word", "from") and code[place + 1].kind == "text":
            yield code[place + 1].value
            return
        place += 1


def _module_of_call(code: list[Token], place: int) -> Iterator[str]:
    """`import("x")`, `require("x")` and `require.resolve("x")`."""
    if code[place].value == "." and code[place + 1].value == "resolve":
        place += 2
    opening, argument = code[place : place + 2] if place + 1 < len(code) else (END, END)
    if opening == ("mark", "(") and argument.kind == "text":
        after = code[place + 2]
        if after.kind == "mark" and after.value in "),":
            yield argument.value


def resolve(specifier: str, importer: str, repo: RepoView) -> set[str]:
    """The file that a specifier means. Empty for a package from elsewhere or of the runtime."""
    specifier = specifier.partition("?")[0]
    folder = posixpath.dirname(importer)
    if specifier in (".", "..") or specifier.startswith(("./", "../")):
        target = joined(folder, specifier)
        return set() if target is None else _file(target, repo)
    for target in aliased(specifier, folder, repo):
        if file := _file(target, repo):
            return file
    for target in package_files(specifier, repo):
        if file := _file(target, repo):
            return file
    return set()


def _file(target: str, repo: RepoView) -> set[str]:
    """The file at the target, perhaps with an omitted ending, or the index of the folder."""
    stem, ending = posixpath.splitext(target)
    candidates = [target]
    candidates += [stem + other for other in _SOURCE_ENDINGS.get(ending, ())]
    candidates += [target + other for other in _ENDINGS]
    candidates += [posixpath.join(target, "index" + other) for other in _ENDINGS]
    return next(({name} for name in candidates if name in repo.files), set())


def tokens(text: str) -> list[Token]:
    return list(_Scanner(text).tokens())


class _Scanner:
    """Tells code from comments, texts and patterns.

    It ends what it takes for a string or a pattern at the end of the line, because neither can go
    further: an apostrophe in the text of a JSX element costs at most one line.

    `_open` holds the open brackets, and a template while its `${` is open.
    """

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
        # A template without `${` is a plain text.
        return Token("text" if is_start else "pattern", part.group())

    def _value_follows(self, token: Token) -> bool:
        """Whether a slash after this token starts a regular expression and does not divide."""
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
