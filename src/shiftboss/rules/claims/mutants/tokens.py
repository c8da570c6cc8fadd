"""Mutations of JavaScript, TypeScript, Go and Rust, found in the text without comments and strings.

There is no syntax tree here, so only tokens are changed whose meaning is clear from the characters
around them. Formatters put spaces around operators, but not around generics, pointers and signs.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, Literal, get_args

from shiftboss.rules.claims.mutants.mutation import Kind, Mutation, shortened
from shiftboss.rules.claims.source_text import line_starts
from shiftboss.rules.claims.test_scanners.source import (
    closings,
    masked_go,
    masked_javascript,
    masked_rust,
)

Language = Literal["javascript", "go", "rust"]

_MASKED: Final[Mapping[Language, Callable[[str], str]]] = {
    "javascript": masked_javascript,
    "go": masked_go,
    "rust": masked_rust,
}
_OPERATORS: Final[Mapping[str, tuple[tuple[str, Kind], ...]]] = {
    "===": (("!==", "comparison"),),
    "!==": (("===", "comparison"),),
    "==": (("!=", "comparison"),),
    "!=": (("==", "comparison"),),
    "<": ((">=", "comparison"), ("<=", "boundary")),
    "<=": ((">", "comparison"), ("<", "boundary")),
    ">": (("<=", "comparison"), (">=", "boundary")),
    ">=": (("<", "comparison"), (">", "boundary")),
    "&&": (("||", "boolean"),),
    "||": (("&&", "boolean"),),
    "+": (("-", "arithmetic"),),
    "-": (("+", "arithmetic"),),
    "+=": (("-=", "arithmetic"),),
    "-=": (("+=", "arithmetic"),),
}
# An operand, the operator between spaces, and the start of another operand.
_OPERATOR: Final = re.compile(
    r"(?P<before>[\w$)\]\"'`])[ \t]+(?P<operator>===|!==|==|!=|<=|>=|&&|\|\||\+=|-=|<|>|\+|-)"
    r"\s+(?=(?P<after>[\w$(\[!\"'`&*-]))"
)
_WORD_BEFORE: Final = re.compile(r"[A-Za-z_$][\w$]*\Z")
_WORD: Final = re.compile(r"[A-Za-z_$][\w$]*")
# After these words, an operator is a sign or starts a closure.
_KEYWORDS: Final = frozenset(
    ("return", "case", "in", "of", "typeof", "move", "match", "else", "yield", "throw", "await")
)
_FLAG: Final = re.compile(r"(?<![\w$.])(?:true|false)(?![\w$]|\s*:)")
# Not after a semicolon, where Rust has the length of an array.
_INTEGER: Final = re.compile(r"(?<![\w$.#'])(?<!; )(?:0|[1-9]\d{0,14})(?![\w$.']|\s*:)")
_IF: Final = re.compile(r"(?<![\w$.])if\s*(?=\()")
_RETURN: Final = re.compile(r"(?<![\w$.])return[ \t]+([^\s;][^;\n]{0,300});")
_KINDS: Final[frozenset[Kind]] = frozenset(get_args(Kind))
# Longer lines are minified, and longer conditions are seldom.
_LINE_CHARACTERS_MAX: Final = 1000
_CONDITION_CHARACTERS_MAX: Final = 500

# Lines that only people, compilers or build tools read.
_LEFT_OUT: Final = re.compile(
    r"""
    ^\s*(?:export\s+)?(?:import|package|use|extern|mod|type|interface|declare)\b
    | ^\s*(?:\#!?\[|@\w|export\s*[*{])
    | \b(?:console|logger|log|slog|tracing|fmt)\.\w*(?:log|debug|info|warn|error|trace|print|fatal)
    | \b(?:e?println|e?print|debug|info|warn|error|trace|panic|todo|unimplemented|unreachable)!
    | \b(?:debug_)?assert(?:_\w+)?!
    | \b(?:while|loop)\b  # could run forever
    | \b(?:panic|throw|require|setTimeout|setInterval|sleep|Sleep)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_TIME: Final = re.compile(
    r"time_?out|delay|interval|sleep|backoff|deadline|duration", re.IGNORECASE
)
_RUST_BOUND: Final = re.compile(r"\b(?:impl|dyn|where)\b|[A-Z]\w*(?:<[^>]*>)?\s*\Z")
_RUST_TESTS: Final = re.compile(r"#\[\s*(?:cfg\s*\(\s*test\s*\)|(?:\w+::)*test\b)[^\]]*\]")
_FUNCTION: Final = re.compile(
    r"\b(?:function\s*\*?|func(?:\s*\([^)]{0,200}\))?|fn)\s+(\w+)"
    r"|\b(?:const|let)\s+(\w+)\s*=\s*(?:async\s*)?(?:\([^()]{0,200}\)|\w+)(?:\s*:[^=;{}]{1,80})?\s*=>"
    r"|^[ \t]+(?:(?:async|static|public|private|get|set)\s+)*"
    r"(?!(?:if|for|while|switch|catch)\b)"
    r"(\w+)\s*\([^()\n]{0,200}\)(?:\s*:[^=;{}\n]{1,80})?\s*\{",
    re.MULTILINE,
)


def token_mutations(language: Language, text: str, lines: Collection[int]) -> list[Mutation]:
    masked = _MASKED[language](text)
    finder = _TokenChanges(text, masked, frozenset(lines))
    changes = [*_operators(masked, language), *_constants(masked)]
    if language == "javascript":
        changes += _conditions(text, masked)
        changes += _returns(masked)
    elif language == "rust":
        finder.leave_out(_rust_tests(masked))
    return finder.mutations(changes)


Change = tuple[int, int, str, Kind, str]  # start, end, replacement, kind, description


class _TokenChanges:
    """Keeps the changes that are on the given lines, and not on lines that are left out."""

    def __init__(self, text: str, masked: str, lines: frozenset[int]) -> None:
        self._masked = masked
        self._starts = line_starts(text)
        self._functions = [(match.start(), _name(match)) for match in _FUNCTION.finditer(masked)]
        self._kept = {line: kept for line in lines if (kept := self._kept_kinds(line)) is not None}
        self._left_out: list[tuple[int, int]] = []

    def leave_out(self, ranges: Iterator[tuple[int, int]]) -> None:
        """The ranges must be in order. Those inside of others are dropped."""
        for start, end in ranges:
            if not self._left_out or start >= self._left_out[-1][1]:
                self._left_out.append((start, end))

    def mutations(self, changes: list[Change]) -> list[Mutation]:
        mutations: dict[tuple[int, int, str], Mutation] = {}
        for start, end, new, kind, change in changes:
            line = bisect_right(self._starts, start)
            if kind not in self._kept.get(line, ()) or self._is_left_out(start):
                continue
            mutation = Mutation(
                line, shortened(change), start, end, new, kind, self._function(start)
            )
            mutations.setdefault((start, end, new), mutation)
        return list(mutations.values())

    def _kept_kinds(self, line: int) -> frozenset[Kind] | None:
        """What may be changed in a line. None: nothing."""
        if not 0 < line <= len(self._starts):
            return None
        end = self._starts[line] if line < len(self._starts) else len(self._masked)
        text = self._masked[self._starts[line - 1] : end]
        if len(text) > _LINE_CHARACTERS_MAX or _LEFT_OUT.search(text):
            return None
        return _KINDS - {"number"} if _TIME.search(text) else _KINDS

    def _is_left_out(self, position: int) -> bool:
        index = bisect_right(self._left_out, (position, len(self._masked))) - 1
        return index >= 0 and position < self._left_out[index][1]

    def _function(self, position: int) -> str:
        """The last one that starts before it, which is nearly always the one around it."""
        index = bisect_right(self._functions, (position, "\uffff")) - 1
        return self._functions[index][1] if index >= 0 else ""


def _name(match: re.Match[str]) -> str:
    return next((group for group in match.groups() if group), "")


def _operators(masked: str, language: Language) -> Iterator[Change]:
    for match in _OPERATOR.finditer(masked):
        old = match["operator"]
        word = _WORD_BEFORE.search(masked, max(0, match.start() - 40), match.start() + 1)
        if word is not None and word[0] in _KEYWORDS:
            continue
        if old in ("+", "+=") and _is_no_sum(masked, match, language):
            continue
        start, end = match.span("operator")
        for new, kind in _OPERATORS[old]:
            yield start, end, new, kind, f"`{old}` becomes `{new}`"


def _is_no_sum(masked: str, match: re.Match[str], language: Language) -> bool:
    """Whether it joins strings, or the traits of a Rust type."""
    if {match["before"], match["after"]} & set("\"'`"):
        return True
    if language != "rust":
        return False
    line_start = masked.rfind("\n", max(0, match.start() - 200), match.start()) + 1
    line_start = max(line_start, match.start() - 200)
    return _RUST_BOUND.search(masked[line_start : match.start() + 1]) is not None


def _constants(masked: str) -> Iterator[Change]:
    for match in _FLAG.finditer(masked):
        new = "false" if match[0] == "true" else "true"
        yield *match.span(), new, "flag", f"`{match[0]}` becomes `{new}`"
    for match in _INTEGER.finditer(masked):
        new = str(int(match[0]) + 1)
        yield *match.span(), new, "number", f"`{match[0]}` becomes `{new}`"


def _conditions(text: str, masked: str) -> Iterator[Change]:
    ends = closings(masked)
    for match in _IF.finditer(masked):
        opening = match.end()
        if opening in ends and ends[opening] - opening < _CONDITION_CHARACTERS_MAX:
            condition = text[opening : ends[opening] + 1]
            change = f"condition negated: {condition[1:-1]}"
            yield opening, ends[opening] + 1, f"(!{condition})", "condition", change


def _returns(masked: str) -> Iterator[Change]:
    for match in _RETURN.finditer(masked):
        value = match[1]
        if value in ("undefined", "null", "false", "0") or not _is_balanced(value):
            continue
        yield *match.span(1), "undefined", "return", "returns undefined"


def _is_balanced(value: str) -> bool:
    return all(value.count(left) == value.count(right) for left, right in ("()", "[]", "{}"))


def _rust_tests(masked: str) -> Iterator[tuple[int, int]]:
    """From each attribute that marks tests to the end of the module or function after it."""
    ends = closings(masked)
    for match in _RUST_TESTS.finditer(masked):
        opening = masked.find("{", match.end())
        yield match.start(), ends.get(opening, len(masked))
