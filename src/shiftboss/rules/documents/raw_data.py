"""Checks of parsed YAML before its types are known to be right. Values of other types are skipped.

Each check yields contradictions: the path of a key, and a message that reads well after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shiftboss.rules.claims.criteria import parse_command
from shiftboss.rules.documents.wording import did_you_mean
from shiftboss.rules.documents.yaml_lines import KeyPath
from shiftboss.rules.paths.braces import normalize_patterns

Contradiction = tuple[KeyPath, str]


def as_mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def strings(value: object) -> list[tuple[int, str]]:
    """The strings of a list, with their indexes."""
    if not isinstance(value, list):
        return []
    return [(index, text) for index, text in enumerate(value) if isinstance(text, str)]


def unknown_names(
    path: KeyPath,
    named: Iterable[tuple[int, str]],
    known: Iterable[str],
    kind: str,
    form: Callable[[str], str] = str,
) -> Iterator[Contradiction]:
    known_names = list(known)
    forms = {form(name) for name in known_names}
    for index, name in named:
        if form(name) not in forms:
            yield (
                (*path, index),
                f"there is no {kind} {name!r}{did_you_mean(name, known_names)}",
            )


def listed_twice(path: KeyPath, named: Iterable[tuple[int, str]]) -> Iterator[Contradiction]:
    seen: set[str] = set()
    for index, name in named:
        if name in seen:
            yield (*path, index), f"{name!r} is listed twice"
        seen.add(name)


def invalid_commands(path: KeyPath, named: Iterable[tuple[int, str]]) -> Iterator[Contradiction]:
    """Commands run without a shell, so a command that needs one can never pass."""
    for index, text in named:
        try:
            parse_command(text)
        except ValueError as error:
            yield (*path, index), str(error)


def invalid_patterns(path: KeyPath, named: Iterable[tuple[int, str]]) -> Iterator[Contradiction]:
    for index, text in named:
        try:
            normalize_patterns(text)
        except ValueError as error:
            yield (*path, index), f"{text!r} {error}"
