"""Compares an answer with its description in a document."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from shiftboss.conformance.checks import Broken


class Like(NamedTuple):
    """A value of which only the form is known."""

    text: str
    fits: Callable[[Any], bool]


_UTC: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")

UTC_TIME: Final = Like(
    "a time in UTC", lambda value: isinstance(value, str) and bool(_UTC.fullmatch(value))
)
COUNT: Final = Like("a whole number from 0", lambda value: type(value) is int and value >= 0)
NUMBER: Final = Like("a whole number above 0", lambda value: type(value) is int and value > 0)
TEXT: Final = Like("a text", lambda value: isinstance(value, str) and value != "")


def expect(
    document: Mapping[str, Any], expected: Mapping[str, object], what: str, *, exact: bool = False
) -> None:
    """Every member is there and has its value or its form. `exact`: and there is no other one."""
    for name, value in expected.items():
        if name not in document:
            raise Broken(f"{what} has no {name!r}: {_short(document)}")
        if not _fits(document[name], value):
            wanted = value.text if isinstance(value, Like) else json.dumps(value)
            raise Broken(f"{name!r} of {what} is {_short(document[name])}, not {wanted}")
    further = set(document) - set(expected)
    if exact and further:
        raise Broken(f"{what} has members that the document does not have: {sorted(further)}")


def _fits(found: object, value: object) -> bool:
    if isinstance(value, Like):
        return value.fits(found)
    # True == 1 in Python, not in JSON.
    return found == value and isinstance(found, bool) is isinstance(value, bool)


def _short(value: object) -> str:
    return json.dumps(value, default=str)[:200]
