"""A test as a scanner finds it."""

from __future__ import annotations

from typing import Final, NamedTuple

# Of a file. It keeps the time within limits for what was written to waste it.
TESTS_MAX: Final = 5000
# What a body is known by.
BODY_CHARACTERS_MAX: Final = 20_000


class FoundTest(NamedTuple):
    """`off` are the reasons why it does not run, or why its failure does not count.

    `body` is the same for tests that do the same: a test may get another name.
    """

    name: str
    body: str
    off: frozenset[str] = frozenset()


def body_of(text: str, start: int, end: int) -> str:
    """The same for the same words, however they are laid out."""
    return " ".join(text[start : min(end, start + BODY_CHARACTERS_MAX)].split())
