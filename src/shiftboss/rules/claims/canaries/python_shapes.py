"""Code that fails, in many shapes and with other texts in every run, so that the code under test
cannot look for it."""

from __future__ import annotations

import ast
from random import Random
from typing import Final

from shiftboss.rules.claims.canaries.edits import word

# The compiler warns of `is` with one of these.
_LITERALS: Final = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.JoinedStr)


def negations(test: ast.expr, snippet: str) -> list[str]:
    """Expressions that are false if the expression `test` is true. They compute it, because of its
    effects."""
    shapes = [
        f"not ({snippet})",
        f"(False if ({snippet}) else True)",
        f"({snippet}) and False",
        f"({snippet}) and None",
    ]
    if not isinstance(test, _LITERALS):
        shapes += [f"({snippet}) is False", f"({snippet}) is None"]
    return shapes


def failures(random: Random) -> list[str]:
    """Statements that raise."""
    text = word(random)
    number = random.choice(range(2, 1000))
    return [
        f'raise AssertionError("{text}")',
        f'assert False, "{text}"',
        f"assert {number} < {number - random.choice(range(1, 50))}",
        f'assert "{text}" == "{text}{word(random)}"',
        f"assert not {number}",
        f"{number} / 0",
        f'int("{text}")',
        f'{{}}["{text}"]',
        f'[].remove("{text}")',
    ]
