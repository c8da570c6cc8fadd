"""What a JavaScript or TypeScript file imports."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shiftboss.evidence.imports.javascript_paths import resolved
from shiftboss.evidence.imports.javascript_tokens import END, Token, tokens
from shiftboss.evidence.imports.repo_view import RepoView

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
