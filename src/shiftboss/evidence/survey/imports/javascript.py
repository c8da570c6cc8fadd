"""What a JavaScript or TypeScript file imports."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from shiftboss.evidence.survey.imports.node_packages import package_files
from shiftboss.evidence.survey.imports.repo_view import RepoView, joined
from shiftboss.evidence.survey.imports.typescript_config import aliased

# Which file of the repo a JavaScript specifier means.


_ENDINGS = (
    ".ts", ".tsx", ".d.ts", ".js", ".jsx", ".mjs", ".cjs", ".mts", ".cts", ".json", ".vue",
    ".svelte",
)  # fmt: skip
# TypeScript asks for what will be there when it is compiled.
_WRITTEN_FOR = {
    ".js": (".ts", ".tsx", ".d.ts", ".jsx"),
    ".jsx": (".tsx",),
    ".mjs": (".mts", ".d.mts"),
    ".cjs": (".cts", ".d.cts"),
}


def resolved(specifier: str, importer: str, repo: RepoView) -> set[str]:
    """Nothing, where it is a package from elsewhere or a part of the run-time."""
    specifier = specifier.partition("?")[0]
    folder = posixpath.dirname(importer)
    if specifier in (".", "..") or specifier.startswith(("./", "../")):
        target = joined(folder, specifier)
        return set() if target is None else _file(target, repo)
    for target in aliased(specifier, folder, repo):
        if found := _file(target, repo):
            return found
    for target in package_files(specifier, repo):
        if found := _file(target, repo):
            return found
    return set()


def _file(target: str, repo: RepoView) -> set[str]:
    """The file at the target, with the ending that was left out, or the index of a folder."""
    stem, ending = posixpath.splitext(target)
    candidates = [target]
    candidates += [stem + other for other in _WRITTEN_FOR.get(ending, ())]
    candidates += [target + other for other in _ENDINGS]
    candidates += [posixpath.join(target, "index" + other) for other in _ENDINGS]
    return next(({name} for name in candidates if name in repo.files), set())


# The tokens of JavaScript and TypeScript: what is code, and what is comment, text or pattern.
#
# The scanner gives up what it takes for a string or a regular expression at the end of the line,
# since neither goes further: an apostrophe in the text of a JSX element costs one line, no more.


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


_SCRIPTS = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts")
_PAGES = (".vue", ".svelte")
SUFFIXES = _SCRIPTS + _PAGES

_CLAUSE_MARKS = frozenset("{},*")
_SCRIPT_TAG = re.compile(
    r"<script\b(?:[^>\"']|\"[^\"]{0,500}\"|'[^']{0,500}'){0,500}+>", re.IGNORECASE
)
_SCRIPT_END = re.compile(r"</script|\Z", re.IGNORECASE)
_SCRIPT_SOURCE = re.compile(r"\ssrc\s*=\s*[\"']([^\"']+)[\"']")


def imported_by(path: str, text: str, repo: RepoView) -> set[str]:
    found: set[str] = set()
    for specifier in specifiers(path, text):
        found |= resolved(specifier, path, repo)
    return found - {path}


def specifiers(path: str, text: str) -> set[str]:
    """What the file asks for, as it says it: `./a`, `@/b`, `react`."""
    if not path.endswith(_PAGES):
        return set(_asked_for(tokens(text)))
    found: set[str] = set()
    for tag, script in _script_blocks(text):
        found.update(_SCRIPT_SOURCE.findall(tag))
        found.update(_asked_for(tokens(script)))
    return found


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


def _asked_for(said: list[Token]) -> Iterator[str]:
    said.append(END)
    before = END
    for place, token in enumerate(said):
        if token.kind == "word" and before != ("mark", "."):
            if token.value in ("import", "export"):
                yield from _module_of_clause(said, place + 1)
            if token.value in ("import", "require"):
                yield from _module_of_call(said, place + 1)
        before = token


def _module_of_clause(said: list[Token], place: int) -> Iterator[str]:
    """`import "x"`, `import a, { b as c } from "x"`, `export * from "x"`."""
    if said[place].kind == "text" and said[place - 1].value == "import":
        yield said[place].value
        return
    while said[place].kind in ("word", "text") or said[place].value in _CLAUSE_MARKS:
        if said[place].value in ("import", "export") and said[place].kind == "word":
            return
        if said[place] == ("word", "from") and said[place + 1].kind == "text":
            yield said[place + 1].value
            return
        place += 1


def _module_of_call(said: list[Token], place: int) -> Iterator[str]:
    """`import("x")`, `require("x")` and `require.resolve("x")`."""
    if said[place].value == "." and said[place + 1].value == "resolve":
        place += 2
    opening, argument = said[place : place + 2] if place + 1 < len(said) else (END, END)
    if opening == ("mark", "(") and argument.kind == "text":
        after = said[place + 2]
        if after.kind == "mark" and after.value in "),":
            yield argument.value
