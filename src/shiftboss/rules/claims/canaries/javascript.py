"""Sabotages the tests of a JavaScript or TypeScript file: jest, vitest, mocha and node.

Without a syntax tree, only the last statement of a test is sabotaged, and only where every passing
run surely gets there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from random import Random
from typing import Final, NamedTuple

from shiftboss.rules.claims.canaries.edits import (
    FILE_CHARACTERS_MAX,
    LETTERS,
    Sabotage,
    block_comment,
    comment_before_code,
    line_of,
    unique_tests,
    value_change,
    word,
)
from shiftboss.rules.claims.source_text import TextEdit
from shiftboss.rules.claims.test_scanners.javascript import JavaScriptTest, located_tests
from shiftboss.rules.claims.test_scanners.source import Brackets, masked_javascript

# The callback after the title, and perhaps after an object of options.
_OPTIONS: Final = re.compile(r"\s*,\s*(?=\{)")
_CALLBACK: Final = re.compile(r"\s*,\s*(?:async\b\s*)?(?:function\b\s*\w*\s*)?(?=\()")
_BARE_CALLBACK: Final = re.compile(r"\s*,\s*(?:async\s+)?(?:_?t|_?ctx|_?context)\s*=>\s*(?=\{)")
_BODY: Final = re.compile(r"\s*(?::\s*[\w.<>\[\] |]{1,80}?)?\s*(?:=>)?\s*(?=\{)")
_AFTER_BODY: Final = re.compile(r"\s*(?:,\s*[\w.]{1,40}\s*)?,?\s*")
# Runners pass the context of a test, or fixtures. Anything else may be a callback that ends it.
_PARAMETERS: Final = re.compile(r"\s*(?:(?:_?t|_?ctx|_?context)\b\s*(?::[^,]*)?|\{.*)?", re.DOTALL)
_MARKUP: Final = re.compile(r"</|/>")
_LEAVING: Final = re.compile(r"(?<![\w$.])(?:return|yield)(?![\w$])")
_CONDITION: Final = re.compile(r"(?<![\w$.])(?:if|for|while|switch|catch|with|await)\s*\Z")
_NAME_AT_END: Final = re.compile(r"(?<![\w$])[\w$]+\Z")
# A statement continues in the next line after one of these.
_OPEN_WORDS: Final = frozenset(
    (
        *("await", "case", "delete", "do", "else", "extends", "in", "instanceof", "new", "of"),
        *("return", "throw", "typeof", "void", "yield"),
    )
)
_SPACE_AND_COMMENTS: Final = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)

_EXPECT: Final = re.compile(r"(?<![\w$.])(?P<await>await\s+)?expect\s*(?=\()")
_MATCHER: Final = re.compile(
    r"\s*\.\s*(?P<promise>(?:resolves|rejects)\s*\.\s*)?"
    r"(?:toBe|toEqual|toStrictEqual|to\.(?:deep\.)?(?:equal|eql))\s*(?=\()"
)
_ASSERT: Final = re.compile(
    r"(?<![\w$.])assert\s*\.\s*(?:strict\s*\.\s*)?"
    r"(?:equal|strictEqual|deepEqual|deepStrictEqual)\s*(?=\()"
)
_INTEGER: Final = re.compile(r"-?(?:0|[1-9]\d{0,14})")
_DECIMAL: Final = re.compile(r"-?\d{1,10}\.\d{1,10}")
_WORDS: Final = {"true": "false", "false": "true", "null": "0", "undefined": "0"}
_COMPUTED: Final = re.compile(r"[()?`]|=>|\.\.\.")
# A value in a list or an object: after its bracket, a comma or a colon; not a key.
_ELEMENT: Final = re.compile(r"""(?<=[\[,:])\s*("[^"]*"|'[^']*'|-?[\w.]+)\s*(?=[\],}])""")
_ERRORS: Final = ("Error", "TypeError", "RangeError")
# Limits for files that were written to waste time.
_DEPTH_MAX: Final = 50
_STATEMENTS_MAX: Final = 20
_LOOK_BACK_CHARACTERS: Final = 200


class _Script(NamedTuple):
    text: str
    masked: str
    brackets: Brackets


class _Body(NamedTuple):
    """The braces of a test's function, and where its last code ends."""

    start: int
    end: int
    code_end: int


def javascript_sabotages(text: str, random: Random) -> list[Sabotage]:
    script = _script(text)
    if script is None:
        return []
    tests = located_tests(text, script.masked)
    sabotages: list[Sabotage] = []
    for located in _single(tests):
        name = _name(located)
        body = _body(script, located)
        if name is None or body is None or located.test.off:
            continue
        if not _may_leave(script, body):
            sabotages += _sabotages_of(script, name, body, random)
    return unique_tests(sabotages, (_name(located) or "" for located in tests))


def javascript_comments(text: str, nonce: str) -> list[TextEdit]:
    script = _script(text)
    if script is None:
        return []
    edits = comment_before_code(text, script.masked, nonce)
    for located in located_tests(text, script.masked):
        body = _body(script, located)
        edits.append(block_comment((body.start if body else located.call.start) + 1, nonce))
    return edits


def _script(text: str) -> _Script | None:
    """None if the text is not understood."""
    if len(text) > FILE_CHARACTERS_MAX:
        return None
    masked = masked_javascript(text)
    try:
        brackets = Brackets(masked)
    except ValueError:
        return None
    return _Script(text, masked, brackets) if not _MARKUP.search(masked) else None


def _name(located: JavaScriptTest) -> str | None:
    """The titles joined, as reports have them; None if one of them is not just a string."""
    calls = [*located.suites, located.call]
    titles = [call.title for call in calls if call.title and call.title_end is not None]
    if len(titles) < len(calls) or any("\\" in title or "${" in title for title in titles):
        return None
    return " > ".join(titles)


def _single(tests: list[JavaScriptTest]) -> Iterator[JavaScriptTest]:
    """Without tests that are inside of another one, and those around them."""
    end = -1  # of all tests before
    following = [located.call.start for located in tests[1:]]
    for located, next_start in zip_longest(tests, following, fillvalue=None):
        assert located is not None
        call = located.call
        if call.start > end and (next_start is None or next_start > call.end):
            yield located
        end = max(end, call.end)


def _body(script: _Script, located: JavaScriptTest) -> _Body | None:
    """None if the test is not a plain function with a block, or one that ends by a callback."""
    at = located.call.title_end
    if at is None:
        return None
    options = _OPTIONS.match(script.masked, at)
    if options:
        at = script.brackets.closing[options.end()] + 1
    start = _opening_brace(script, at)
    if start is None:
        return None
    end = script.brackets.closing[start]
    code_end = start + 1 + len(script.masked[start + 1 : end].rstrip())
    if not _AFTER_BODY.fullmatch(script.masked, end + 1, located.call.end):
        return None
    if not _SPACE_AND_COMMENTS.fullmatch(script.text, code_end, end):
        return None  # a regular expression, which is masked like a comment
    return _Body(start, end, code_end)


def _opening_brace(script: _Script, at: int) -> int | None:
    """Of the function that is the next argument."""
    if bare := _BARE_CALLBACK.match(script.masked, at):
        return bare.end()
    callback = _CALLBACK.match(script.masked, at)
    if callback is None:
        return None
    closing = script.brackets.closing[callback.end()]
    opening = _BODY.match(script.masked, closing + 1)
    if not opening or not _PARAMETERS.fullmatch(script.masked, callback.end() + 1, closing):
        return None
    return opening.end()


def _may_leave(script: _Script, body: _Body) -> bool:
    """Whether the test itself has a `return`, not only a function inside of it."""
    return any(
        not _is_in_function(script, body, match.start())
        for match in _LEAVING.finditer(script.masked, body.start, body.end)
    )


def _is_in_function(script: _Script, body: _Body, position: int) -> bool:
    around = script.brackets.around(position)
    for _ in range(_DEPTH_MAX):
        if around is None or around <= body.start:
            return False
        if script.masked[around] == "{" and _opens_function(script, around):
            return True
        around = script.brackets.around(around)
    return False


def _opens_function(script: _Script, opening: int) -> bool:
    """Whether a brace opens the body of a function. Only what is sure counts."""
    start = max(0, opening - _LOOK_BACK_CHARACTERS)
    before = script.masked[start:opening].rstrip()
    if before.endswith("=>"):
        return True
    return before.endswith(")") and not _is_condition(script, start + len(before) - 1)


def _is_condition(script: _Script, closing: int) -> bool:
    """Whether a parenthesis closes the head of an `if`, a loop or the like."""
    opening = script.brackets.opening[closing]
    return bool(_CONDITION.search(script.masked, max(0, opening - _LOOK_BACK_CHARACTERS), opening))


def _sabotages_of(script: _Script, name: str, body: _Body, random: Random) -> Iterator[Sabotage]:
    expected = _last_expected(script, body)
    if expected is not None:
        start, end = expected
        old = script.text[start:end]
        new = _changed(old, random.choice(range(1, 8)), random.choice(LETTERS))
        if new is not None:
            change = value_change(old, new)
            yield Sabotage(name, line_of(script.text, start), change, "value", start, end, new)
    line = line_of(script.text, body.code_end)
    for error in _ERRORS:
        failure = f';throw new {error}("{word(random)}");'
        end = body.code_end
        yield Sabotage(name, line, "throws at its end", "raise", end, end, failure)


def _last_expected(script: _Script, body: _Body) -> tuple[int, int] | None:
    """The literal that the last statement compares with, if that is an assertion."""
    statements = [
        *_EXPECT.finditer(script.masked, body.start, body.end),
        *_ASSERT.finditer(script.masked, body.start, body.end),
    ]
    latest = sorted(statements, key=lambda match: match.start(), reverse=True)
    for match in latest[:_STATEMENTS_MAX]:
        arguments = _arguments(script, match)
        if arguments is None or not _is_statement(script, body, match.start()):
            continue
        closing = script.brackets.closing[arguments]
        if script.masked[closing + 1 : body.code_end].strip(" \t\n\r;"):
            return None
        return _literal(script, match, arguments + 1, closing)
    return None


def _arguments(script: _Script, match: re.Match[str]) -> int | None:
    """The parenthesis before the expected value."""
    if match.re is _ASSERT:
        return match.end()
    matcher = _MATCHER.match(script.masked, script.brackets.closing[match.end()] + 1)
    if matcher is None or bool(matcher["promise"]) != bool(match["await"]):
        return None  # without `await`, nobody waits for the result of a promise
    return matcher.end()


def _is_statement(script: _Script, body: _Body, position: int) -> bool:
    """Whether an unconditional statement of the test starts here."""
    if script.brackets.around(position) != body.start:
        return False
    between = script.masked[body.start : position]
    before = between.rstrip()
    if before[-1] in ";{}":
        return True
    if "\n" not in between[len(before) :]:
        return False
    if before[-1] == ")":
        return not _is_condition(script, body.start + len(before) - 1)
    word = _NAME_AT_END.search(before)
    return before[-1] in "]'\"`" or (word is not None and word[0] not in _OPEN_WORDS)


def _literal(script: _Script, match: re.Match[str], start: int, end: int) -> tuple[int, int] | None:
    """The literal of `toBe(5)`, or the second argument of `equal(x, 5)`; of a list or an object,
    the first value in it."""
    if match.re is _ASSERT:
        commas = _commas(script, start, end)
        if not commas:
            return None
        start, end = commas[0] + 1, commas[1] if len(commas) > 1 else end
    source = script.text[start:end]
    start += len(source) - len(source.lstrip())
    end -= len(source) - len(source.rstrip())
    if script.masked[start : start + 1] not in ("[", "{"):
        return (start, end) if _changed(script.text[start:end]) else None
    if script.brackets.closing[start] != end - 1 or _COMPUTED.search(script.masked, start, end):
        return None
    elements = _ELEMENT.finditer(script.masked, start, end)
    spans = (element.span(1) for element in elements)
    return next((span for span in spans if _changed(script.text[slice(*span)])), None)


def _commas(script: _Script, start: int, end: int) -> list[int]:
    """The commas between arguments."""
    commas = []
    at = start
    while at < end:
        if script.masked[at] == ",":
            commas.append(at)
        at = script.brackets.closing.get(at, at) + 1
    return commas


def _changed(literal: str, step: int = 1, added: str = "x") -> str | None:
    """Another literal of the same type, or None if it is something else."""
    if literal in _WORDS:
        return _WORDS[literal]
    if _INTEGER.fullmatch(literal):
        return str(int(literal) + step)
    if _DECIMAL.fullmatch(literal):
        whole, _, fraction = literal.partition(".")
        return f"{int(whole) + step}.{fraction}"
    quote = literal[:1]
    if quote in ("'", '"') and re.fullmatch(rf"{quote}(?:\\.|[^\\{quote}\n])*{quote}", literal):
        return f"{literal[:-1]}{added}{quote}"
    return None
