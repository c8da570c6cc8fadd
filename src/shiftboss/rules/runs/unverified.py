"""What of an accepted task could not be verified, in a few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import shorten
from typing import Any, Final

NAMED_MAX: Final = 3
SUBJECT_CHARACTERS_MAX: Final = 100


def unverified_text(checks: Iterable[Mapping[str, Any]]) -> str:
    """The criteria and the other checks of a verdict that are unverifiable; "" if none is."""
    unverified = (check for check in checks if check["outcome"] == "unverifiable")
    names = list(dict.fromkeys(map(_name, unverified)))
    more = len(names) - NAMED_MAX
    return ", ".join([*names[:NAMED_MAX], *([f"and {more} more"] if more > 0 else [])])


def _name(check: Mapping[str, Any]) -> str:
    subject = shorten(check.get("subject") or "", SUBJECT_CHARACTERS_MAX, placeholder=" …")
    if check["check"] == "criterion":
        return subject
    return f"{check['check']} of {subject}" if subject else str(check["check"])
