"""JSON as tools write it: with comments, and a comma too many."""

from __future__ import annotations

import json
import re
from typing import Any

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)


def json_object(text: str | None) -> dict[str, Any]:
    """The members of the object; none where the text is not one."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def json_object_with_comments(text: str | None) -> dict[str, Any]:
    # Twice: a comment may stand between the comma and the bracket.
    return json_object(_PIECE.sub(_kept, _PIECE.sub(_kept, text or "")))


def _kept(piece: re.Match[str]) -> str:
    return piece.group() if piece.group().startswith('"') else " "
