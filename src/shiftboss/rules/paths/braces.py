"""Braces in patterns that people and agents write: `src/{auth,lib}/*.ts` stands for two patterns.

They are expanded once, where a request or a plan comes in. Contracts have the expanded patterns, so
matching, overlaps and hooks know nothing of braces, and a brace in the name of a file is literal.
"""

from __future__ import annotations

import re
from typing import Final

from shiftboss.rules.paths.patterns import check_wildcards, normalize_path

EXPANSIONS_MAX: Final = 256
DEPTH_MAX: Final = 8
_PLAIN: Final = re.compile(r"[^{},]+|,")
_RANGE: Final = re.compile(r"\{[^{},]*\.\.[^{},]*\}")


def normalize_patterns(pattern: str) -> list[str]:
    """The patterns that a written one stands for, in their normal form. Raises ValueError with the
    reason, which reads well after the pattern."""
    patterns = list(dict.fromkeys(normalize_path(text) for text in expand_braces(pattern)))
    for text in patterns:
        check_wildcards(text)
    return patterns


def expand_braces(pattern: str) -> list[str]:
    """As shells do it: alternatives may be empty and may contain braces themselves. Braces without
    a comma are literal, as in `{{cookiecutter.name}}/`. Raises ValueError with the reason."""
    if "{" not in pattern and "}" not in pattern:
        return [pattern]
    texts, end = _expand(pattern, 0, depth=0)
    if end < len(pattern):
        raise ValueError("has a } without its {")
    return texts


def _expand(pattern: str, at: int, depth: int) -> tuple[list[str], int]:
    """What the text from `at` on stands for, and where it ends: at a } or, inside of braces, at a
    comma."""
    texts = [""]
    while at < len(pattern) and pattern[at] != "}" and not (depth and pattern[at] == ","):
        if pattern[at] == "{":
            alternatives, at = _braces(pattern, at, depth + 1)
        else:
            plain = _PLAIN.match(pattern, at)
            assert plain is not None, "not a brace"
            alternatives, at = [plain[0]], plain.end()
        texts = [text + alternative for text in texts for alternative in alternatives]
        _check_count(texts)
    return texts, at


def _braces(pattern: str, start: int, depth: int) -> tuple[list[str], int]:
    """The alternatives of the braces that open at `start`, and the position behind them."""
    if depth > DEPTH_MAX:
        raise ValueError(f"has braces inside of braces, more than {DEPTH_MAX} deep")
    alternatives: list[str] = []
    at, mark, has_comma = start, "{", False
    while mark != "}":
        texts, at = _expand(pattern, at + 1, depth)
        alternatives += texts
        _check_count(alternatives)
        if at == len(pattern):
            raise ValueError("has a { without its }")
        mark = pattern[at]
        has_comma = has_comma or mark == ","
    if has_comma:
        return alternatives, at + 1
    if _RANGE.fullmatch(pattern, start, at + 1):
        raise ValueError("has a range in braces; list the names instead, as in {1,2,3}")
    return [f"{{{text}}}" for text in alternatives], at + 1


def _check_count(texts: list[str]) -> None:
    if len(texts) > EXPANSIONS_MAX:
        raise ValueError(
            f"stands for more than {EXPANSIONS_MAX} patterns; write fewer alternatives"
        )
