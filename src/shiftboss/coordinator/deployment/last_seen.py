"""When this server last saw a webhook of each repo."""

from __future__ import annotations

from typing import Final

# Names come from outside.
NAMES_MAX: Final = 100


class LastSeen:
    def __init__(self) -> None:
        self._at_ms: dict[str, int] = {}

    def note(self, name: str, at_ms: int) -> None:
        self._at_ms.pop(name, None)
        self._at_ms[name] = at_ms
        if len(self._at_ms) > NAMES_MAX:
            del self._at_ms[next(iter(self._at_ms))]

    def by_name(self) -> dict[str, int] | None:
        """None if there is nobody."""
        return dict(self._at_ms) or None
