"""Finds the tests of a Rust file, which may be next to the code."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple

from shiftboss.rules.claims.test_scanners.source import (
    TESTS_MAX,
    ScannedTest,
    body_of,
    closings,
    masked_rust,
)

_ATTRIBUTES: Final = r"((?:#\[(?:[^\[\]]|\[[^\]]{0,500}\]){0,500}\]\s*)+)(?:pub(?:\([^)]*\))?\s+)?"
_FUNCTION: Final = re.compile(_ATTRIBUTES + r"(?:(?:async|unsafe|const)\s+)*fn\s+(\w+)")
_MODULE: Final = re.compile(_ATTRIBUTES + r"mod\s+\w+\s*(?=\{)")
_TEST: Final = re.compile(
    r"#\[\s*(?:\w+::)*(?:test|rstest|test_case|quickcheck|wasm_bindgen_test|bench)\b"
)
_SWITCH: Final = re.compile(
    r"#!?\[\s*(ignore|should_panic|cfg(?:_attr)?\s*\((?!\s*test\s*\)).*?\))"
)
_FILE: Final = re.compile(r"#!\[[^\]]*\]")


class LocatedTest(NamedTuple):
    attributes: str
    name_end: int
    test: ScannedTest


def rust_tests(text: str) -> list[ScannedTest]:
    return [located.test for located in located_tests(text, masked_rust(text))]


def located_tests(text: str, masked: str) -> list[LocatedTest]:
    ends = closings(masked)
    file_off = frozenset(
        reason
        for attribute in _FILE.finditer(masked)
        for reason in _switches(text[attribute.start() : attribute.end()])
    )
    modules = [
        (
            match.end(),
            ends.get(match.end(), len(text)),
            _switches(text[match.start(1) : match.end(1)]),
        )
        for match in islice(_MODULE.finditer(masked), TESTS_MAX)
    ]
    tests = []
    for match in islice(_FUNCTION.finditer(masked), TESTS_MAX):
        if not _TEST.search(match[1]):
            continue
        opening = masked.find("{", match.end())
        body = body_of(text, opening, ends.get(opening, len(text))) if opening >= 0 else ""
        off = file_off | _switches(text[match.start(1) : match.end(1)])
        off = off.union(
            *(reasons for start, end, reasons in modules if start < match.start() < end)
        )
        test = ScannedTest(match[2], body, off)
        tests.append(LocatedTest(match[1], match.end(), test))
    return tests


def _switches(attributes: str) -> frozenset[str]:
    return frozenset(" ".join(match[1].split()) for match in _SWITCH.finditer(attributes))
