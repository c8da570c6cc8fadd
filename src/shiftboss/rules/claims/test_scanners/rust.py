"""Finds the tests of a Rust file, which may be next to the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from shiftboss.rules.claims.test_scanners.source import (
    TESTS_MAX,
    ScannedTest,
    body_of,
    closings,
    masked_rust,
)

# All attributes in a row, and what may follow them. In one pattern, each would be tried as the
# first one, and all after it again.
_ATTRIBUTES: Final = re.compile(r"(?:#\[(?:[^\[\]]|\[[^\]]{0,500}\]){0,500}\]\s*)++")
_PUBLIC: Final = r"(?:pub(?:\([^)]{0,200}\))?\s+)?"
_FUNCTION: Final = re.compile(_PUBLIC + r"(?:(?:async|unsafe|const)\s+)*fn\s+(\w+)")
_MODULE: Final = re.compile(_PUBLIC + r"mod\s+\w+\s*(?=\{)")
_TEST: Final = re.compile(
    r"#\[\s*(?:\w+::)*(?:test|rstest|test_case|quickcheck|wasm_bindgen_test|bench)\b"
)
_SWITCH: Final = re.compile(
    r"#!?\[\s*(ignore|should_panic|cfg(?:_attr)?\s*\((?!\s*test\s*\)).*?\))"
)
_FILE: Final = re.compile(r"#!\[[^\]]*\]")


class RustTest(NamedTuple):
    attributes: str
    name_end: int
    test: ScannedTest


def rust_tests(text: str) -> list[ScannedTest]:
    return [located.test for located in located_tests(text, masked_rust(text))]


def located_tests(text: str, masked: str) -> list[RustTest]:
    ends = closings(masked)
    file_off = frozenset(
        reason
        for attribute in _FILE.finditer(masked)
        for reason in _switches(text[attribute.start() : attribute.end()])
    )
    modules = [
        (match.end(), ends.get(match.end(), len(text)), _switches(text[slice(*attributes.span())]))
        for attributes, match in islice(_attributed(_MODULE, masked), TESTS_MAX)
    ]
    tests = []
    for attributes, match in islice(_attributed(_FUNCTION, masked), TESTS_MAX):
        if not _TEST.search(attributes[0]):
            continue
        opening = masked.find("{", match.end())
        body = body_of(text, opening, ends.get(opening, len(text))) if opening >= 0 else ""
        off = file_off | _switches(text[slice(*attributes.span())])
        off = off.union(
            *(reasons for start, end, reasons in modules if start < attributes.start() < end)
        )
        test = ScannedTest(match[1], body, off)
        tests.append(RustTest(attributes[0], match.end(), test))
    return tests


def _attributed(
    item: re.Pattern[str], masked: str
) -> Iterator[tuple[re.Match[str], re.Match[str]]]:
    """The items that have attributes, with these."""
    for attributes in _ATTRIBUTES.finditer(masked):
        match = item.match(masked, attributes.end())
        if match is not None:
            yield attributes, match


def _switches(attributes: str) -> frozenset[str]:
    return frozenset(" ".join(match[1].split()) for match in _SWITCH.finditer(attributes))
