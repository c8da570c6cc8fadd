"""Sabotages the tests of Go and Rust files: they fail at their start.

Neither language has objects that equal everything, so it is enough that a failure is reported. A
failure at the start leaves no lock behind that a later test would find poisoned.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Final

from shiftboss.rules.claims.canaries.edits import (
    FILE_CHARACTERS_MAX,
    Sabotage,
    block_comment,
    comment_before_code,
    line_of,
    unique_tests,
    word,
)
from shiftboss.rules.claims.source_text import TextEdit
from shiftboss.rules.claims.test_scanners import go, rust
from shiftboss.rules.claims.test_scanners.source import Brackets, masked_go, masked_rust

# A function that `go test` takes for a test: no method, and no small letter after `Test`.
_GO_TEST: Final = re.compile(
    r"func[ \t]+Test(?![a-z])\w*[ \t]*\(\s*(?P<t>[A-Za-z]\w*)\s+\*\s*testing\.T\s*,?\s*\)\s*(?=\{)"
)
_GO_PACKAGE: Final = re.compile(r"^package[ \t]+\w+", re.MULTILINE)
# Attributes of other test macros run a function more than once, or under other names.
_RUST_TEST: Final = re.compile(r"#\[\s*(?:\w+::)*test\s*[\](]")
_RUST_OTHER: Final = re.compile(r"#\[\s*(?:\w+::)*(?:rstest|case|test_case|quickcheck|bench)\b")
_RUST_SIGNATURE: Final = re.compile(r"\s*\(\s*\)\s*(?:->[^{};]{1,200})?(?=\{)")
_RUST_INNER_ATTRIBUTE: Final = re.compile(r"\{\s*#!")
_RUST_MODULE: Final = re.compile(r"\bmod\s+(\w+)\s*\Z")
_LOOK_BACK_CHARACTERS: Final = 100
_DEPTH_MAX: Final = 50


def go_sabotages(text: str, random: Random) -> list[Sabotage]:
    masked = _masked(text, masked_go)
    if masked is None:
        return []
    tests = go.located_tests(text, masked)
    sabotages = []
    for located in tests:
        head = _GO_TEST.match(masked, located.head)
        if head is not None and not located.test.off:
            for failure in _go_failures(head["t"], random):
                change = "reports an error at its start"
                sabotages.append(_at_start(text, located.test.name, change, head.end(), failure))
    return unique_tests(sabotages, (located.test.name for located in tests))


def go_comments(text: str, nonce: str) -> list[TextEdit]:
    """After the package clause, because comments before it can decide what is built."""
    masked = _masked(text, masked_go)
    package = _GO_PACKAGE.search(masked) if masked is not None else None
    if masked is None or package is None:
        return []
    tests = go.located_tests(text, masked)
    bodies = [located.body for located in tests if masked[located.body] == "{"]
    comments = [block_comment(body + 1, nonce) for body in bodies]
    return [TextEdit(package.end(), package.end(), f" /* {nonce} */"), *comments]


def rust_sabotages(text: str, random: Random) -> list[Sabotage]:
    masked = _masked(text, masked_rust)
    if masked is None:
        return []
    brackets = Brackets(masked)
    sabotages = []
    names = []
    for located in rust.located_tests(text, masked):
        modules = _rust_modules(masked, brackets, located.name_end)
        body = _rust_body(masked, located)
        if modules is None or body is None:
            continue
        name = "::".join([*modules, located.test.name])
        names.append(name)
        if not located.test.off:
            sabotages += [
                _at_start(text, name, "panics at its start", body, failure)
                for failure in _rust_failures(random)
            ]
    return unique_tests(sabotages, names)


def rust_comments(text: str, nonce: str) -> list[TextEdit]:
    masked = _masked(text, masked_rust)
    if masked is None:
        return []
    located = rust.located_tests(text, masked)
    bodies = [body for test in located if (body := _rust_body(masked, test)) is not None]
    comments = [block_comment(body + 1, nonce) for body in bodies]
    return [*comment_before_code(text, masked, nonce), *comments]


def _masked(text: str, mask: Callable[[str], str]) -> str | None:
    """None if the text is not understood."""
    if len(text) > FILE_CHARACTERS_MAX:
        return None
    masked = mask(text)
    try:
        Brackets(masked)
    except ValueError:
        return None
    return masked


def _go_failures(t: str, random: Random) -> list[str]:
    text = word(random)
    return [
        f' {t}.Error("{text}");',
        f' {t}.Errorf("%s", "{text}");',
        f' {t}.Log("{text}"); {t}.Fail();',
    ]


def _rust_failures(random: Random) -> list[str]:
    """Without a condition, the compiler warns of code that cannot be reached."""
    text = word(random)
    number = random.choice(range(1, 1000))
    return [
        f' if true {{ panic!("{text}"); }}',
        f" assert_eq!({number}, {number + len(text)});",
        f' assert!("{text}".is_empty());',
    ]


def _at_start(text: str, name: str, change: str, body: int, failure: str) -> Sabotage:
    return Sabotage(name, line_of(text, body), change, "raise", body + 1, body + 1, failure)


def _rust_body(masked: str, located: rust.RustTest) -> int | None:
    """The opening brace of a plain test."""
    signature = _RUST_SIGNATURE.match(masked, located.name_end)
    if signature is None or not _RUST_TEST.search(located.attributes):
        return None
    if _RUST_OTHER.search(located.attributes) or _RUST_INNER_ATTRIBUTE.match(
        masked, signature.end()
    ):
        return None
    return signature.end()


def _rust_modules(masked: str, brackets: Brackets, position: int) -> list[str] | None:
    """The modules around a position, the outermost first. None if something else is around it, such
    as a macro."""
    modules: list[str] = []
    around = brackets.around(position)
    while around is not None:
        start = max(0, around - _LOOK_BACK_CHARACTERS)
        module = _RUST_MODULE.search(masked, start, around)
        if module is None or len(modules) > _DEPTH_MAX:
            return None
        modules.insert(0, module[1])
        around = brackets.around(around)
    return modules
