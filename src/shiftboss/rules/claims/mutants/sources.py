"""Which files are mutated, and how: product code in a language that we know, not generated."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from shiftboss.rules.claims.kept_tests import is_test_file
from shiftboss.rules.claims.mutants.mutation import Mutation
from shiftboss.rules.claims.mutants.python import python_mutations
from shiftboss.rules.claims.mutants.tokens import Language, token_mutations
from shiftboss.rules.claims.test_scanners.python import parse_python
from shiftboss.rules.paths.ownership import is_protected

_PYTHON: Final = re.compile(r".*\.py")
_TOKENS: Final[tuple[tuple[re.Pattern[str], Language], ...]] = (
    (re.compile(r".*\.[cm]?[jt]sx?"), "javascript"),
    (re.compile(r".*\.go"), "go"),
    (re.compile(r".*\.rs"), "rust"),
)
_COMPILED: Final = re.compile(r".*\.(?:go|rs|[cm]?tsx?|[cm]?jsx?)")
# Folders whose code is not the product, or is generated.
_OTHER_FOLDERS: Final = frozenset(
    (
        *("testing", "testdata", "fixtures", "__fixtures__", "__mocks__", "mocks", "__snapshots__"),
        *("doc", "docs", "example", "examples", "bench", "benches", "benchmark", "benchmarks"),
        *("migrations", "vendor", "third_party", "dist", "build", "generated", "__generated__"),
    )
)
_OTHER_FILES: Final = re.compile(
    r"""
    setup\.py | __about__\.py | _?version\.py | setupTests\.[jt]sx?
    | .*_pb2(?:_grpc)?\.py | .*\.pb\.go | .*[._-]gen(?:erated)?\.\w+ | zz_generated.* | bindings\.rs
    | .*\.min\.[cm]?js | .*\.bundle\.js | .*\.d\.[cm]?ts | .*\.stories\.[jt]sx?
    | .*\.config\.[cm]?[jt]s | build\.rs
    """,
    re.VERBOSE,
)
_GENERATED: Final = re.compile(
    r"@generated\b|\bcode generated\b|\bautomatically generated\b|\bauto-?generated\b"
    r"|\bdo not edit\b",
    re.IGNORECASE,
)
_HEADER_CHARACTERS: Final = 1000


def is_mutable(path: str) -> bool:
    """Whether the tests can be expected to notice a change of the file, by its name."""
    *folders, name = path.split("/")
    if is_test_file(path) or is_protected(path) or _OTHER_FILES.fullmatch(name):
        return False
    if not _OTHER_FOLDERS.isdisjoint(folders):
        return False
    return _PYTHON.fullmatch(name) is not None or _language(name) is not None


def mutations(path: str, text: str, lines: Collection[int]) -> list[Mutation]:
    """The mutations of these lines. None for a file that says that it is generated."""
    if _GENERATED.search(text[:_HEADER_CHARACTERS]):
        return []
    if _PYTHON.fullmatch(path):
        return python_mutations(text, lines)
    language = _language(path)
    return token_mutations(language, text, lines) if language is not None else []


def is_broken(path: str, content: bytes) -> bool:
    """Whether the file certainly cannot be loaded. Other languages are left to their compiler."""
    if not _PYTHON.fullmatch(path):
        return False
    try:
        parse_python(content)
    except SyntaxError:
        return True
    return False


def is_compiled(path: str) -> bool:
    """Whether a compiler checks the file, so that a mutant may be no program at all."""
    return _COMPILED.fullmatch(path) is not None


def _language(path: str) -> Language | None:
    return next((language for names, language in _TOKENS if names.fullmatch(path)), None)
