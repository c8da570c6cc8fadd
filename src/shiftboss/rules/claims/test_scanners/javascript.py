"""Finds the tests of a JavaScript or TypeScript file.

Knows `it` and `test` of jest, vitest, mocha, node, bun, Playwright and Deno.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple

from shiftboss.rules.claims.test_scanners.source import (
    TESTS_MAX,
    ScannedTest,
    body_of,
    closings,
    masked_javascript,
)

_CALL: Final = re.compile(
    r"(?<![\w$.])(Deno\.test|[xf]?(?:it|test|specify|describe|context|suite))"
    r"((?:\s{0,80}\.\s{0,80}[A-Za-z]{1,20}){0,6})\s{0,80}(?=[(`])"
)
_SUITES: Final = frozenset(("describe", "context", "suite"))
_OFF: Final = frozenset(
    (
        "skip",
        "todo",
        "fixme",
        "failing",
        "fails",
        "fail",
        "ignore",
        "skipIf",
        "runIf",
        "if",
        "todoIf",
    )
)
# These take other arguments first, and the title in a second pair of parentheses.
_CURRIED: Final = frozenset(("each", "for", "skipIf", "runIf", "if", "todoIf", "failingIf"))
_PLAIN: Final = frozenset(("only", "concurrent", "sequential", "serial", "parallel", "shuffle"))
_KNOWN: Final = _OFF | _CURRIED | _PLAIN | _SUITES
_SPACE: Final = re.compile(r"\s*")
_OPTIONS: Final = re.compile(r"\s*,\s*\{[^{}]*?\b(skip|todo|ignore)\s*:\s*(?!false\b)")
_NAMED: Final = re.compile(r"\{[^{}]*?\bname\s*:\s*(?=[\"'`])")
_IGNORED: Final = re.compile(r"\{[^{}]*?\bignore\s*:\s*(?!false\b)")
_INLINE: Final = re.compile(r"(?<![\w$.])(?:t|ctx|context|this)\.(skip|todo)\s*\(")


class CallSpan(NamedTuple):
    """A call, from its opening to its closing parenthesis. Without a title it is a statement such
    as Playwright's `test.skip(condition)`, which is about the test around it."""

    start: int
    end: int
    title: str | None
    is_suite: bool
    is_only: bool
    off: frozenset[str]
    # Where a title ends that is a string, unless the test runs once for each row of a table.
    title_end: int | None


class JavaScriptTest(NamedTuple):
    call: CallSpan
    suites: list[CallSpan]  # around it, the outermost first
    test: ScannedTest


def javascript_tests(text: str) -> list[ScannedTest]:
    return [located.test for located in located_tests(text, masked_javascript(text))]


def located_tests(text: str, masked: str) -> list[JavaScriptTest]:
    ends = closings(masked)
    matches = islice(_CALL.finditer(masked), TESTS_MAX)
    calls = [call for match in matches if (call := _call(text, masked, ends, match))]
    only = [call for call in calls if call.is_only]
    inline = [(match.start(), match[1]) for match in _INLINE.finditer(masked)]
    inline += [(call.start, reason) for call in calls if call.title is None for reason in call.off]
    tests = []
    open_suites: list[CallSpan] = []
    for call in calls:
        # Brackets are nested, so the suites that have ended are the last ones.
        while open_suites and open_suites[-1].end < call.start:
            open_suites.pop()
        if call.is_suite:
            open_suites.append(call)
        if call.is_suite or call.title is None:
            continue
        suites = [suite for suite in open_suites if suite.start < call.start < suite.end]
        off = call.off.union(*(suite.off for suite in suites))
        off |= {reason for at, reason in inline if call.start < at < call.end}
        if only and not any(other.start <= call.start <= other.end for other in only):
            off |= {"only, on another test"}
        body = body_of(text, call.start, call.end).replace(call.title, "", 1)
        tests.append(JavaScriptTest(call, suites, ScannedTest(call.title, body, off)))
    return tests


def _call(text: str, masked: str, ends: dict[int, int], match: re.Match[str]) -> CallSpan | None:
    name = match[1]
    modifiers = [part.strip() for part in match[2].split(".") if part.strip()]
    suite = name.lstrip("xf") in _SUITES or any(modifier in _SUITES for modifier in modifiers)
    if not _KNOWN.issuperset(modifiers):
        return None  # test.beforeEach, test.step and the like
    start = match.end()
    if modifiers and modifiers[-1] in _CURRIED:
        start = _after(masked, ends, start)
    if masked[start : start + 1] != "(":
        return None
    end = ends.get(start, len(text))
    title, after = _title(text, masked, start)
    off = _OFF.intersection(modifiers) | ({"skip"} if name.startswith("x") else set())
    if options := _OPTIONS.match(masked, after) or (
        name == "Deno.test" and _IGNORED.match(masked, start + 1)
    ):
        off |= {options[1] if options.re is _OPTIONS else "ignore"}
    title_end = after if title is not None and not _CURRIED.intersection(modifiers) else None
    if title is None and not (modifiers and off):
        title = " ".join(text[start + 1 : min(end, start + 80)].split())
    is_only = "only" in modifiers or name.startswith("f")
    return CallSpan(start, end, title, suite, is_only, frozenset(off), title_end)


def _after(masked: str, ends: dict[int, int], at: int) -> int:
    """The position after a pair of parentheses or a template."""
    end = masked.find("`", at + 1) if masked[at] == "`" else ends.get(at, -1)
    return _skip_space(masked, end + 1) if end >= 0 else len(masked)


def _skip_space(masked: str, at: int) -> int:
    match = _SPACE.match(masked, at)
    return match.end() if match is not None else at


def _title(text: str, masked: str, opening: int) -> tuple[str | None, int]:
    """The title if it is a literal, and where it ends."""
    at = _skip_space(masked, opening + 1)
    if named := _NAMED.match(masked, at):
        at = named.end()
    quote = masked[at : at + 1]
    if quote not in ("'", '"', "`") or not quote:
        return None, at
    end = masked.find(quote, at + 1)
    return (text[at + 1 : end], end + 1) if end > 0 else (None, at)
