"""Looking at data whose form is not known to be right: what has the wrong type is passed over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from shiftboss.rules.claims.criteria import parse_command
from shiftboss.rules.documents.wording import did_you_mean
from shiftboss.rules.documents.yaml_lines import Path
from shiftboss.rules.paths.patterns import normalised

Contradiction = tuple[Path, str]


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def texts(value: object) -> list[tuple[int, str]]:
    """With their places in the list."""
    if not isinstance(value, list):
        return []
    return [(place, one) for place, one in enumerate(value) if isinstance(one, str)]


def unknown(
    path: Path,
    named: Iterable[tuple[int, str]],
    known: Iterable[str],
    kind: str,
    form: Callable[[str], str] = str,
) -> Iterator[Contradiction]:
    known_names = list(known)
    forms = {form(name) for name in known_names}
    for place, name in named:
        if form(name) not in forms:
            yield (
                (*path, place),
                f"there is no {kind} {name!r}{did_you_mean(name, known_names)}",
            )


def twice(path: Path, named: Iterable[tuple[int, str]]) -> Iterator[Contradiction]:
    seen: set[str] = set()
    for place, name in named:
        if name in seen:
            yield (*path, place), f"{name!r} is listed twice"
        seen.add(name)


def commands(path: Path, named: Iterable[tuple[int, str]]) -> Iterator[Contradiction]:
    """They are run without a shell: what only a shell understands can never pass."""
    for place, text in named:
        try:
            parse_command(text)
        except ValueError as error:
            yield (*path, place), str(error)


def patterns(path: Path, named: Iterable[tuple[int, str]]) -> Iterator[Contradiction]:
    for place, text in named:
        try:
            normalised(text)
        except ValueError as error:
            yield (*path, place), f"{text!r} {error}"
