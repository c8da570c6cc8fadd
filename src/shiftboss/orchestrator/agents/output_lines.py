"""Reading of lines that may be anything: JSON, half of it, or noise."""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

from shiftboss.orchestrator.agents.agent import Did, RateLimited
from shiftboss.rules.runs.quota_messages import reset_time, tells_of_a_limit

LINE_CHARACTERS_MAX: Final = 4_000_000
WORDS_CHARACTERS_MAX: Final = 200
MESSAGE_CHARACTERS_MAX: Final = 2000
ITEMS_MAX: Final = 1000
# A quota that is back by then, an agent waits for by itself.
SHORT_WAIT_SECONDS: Final = 120.0
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# The folder of a work tree, as `orchestrator.places` names it: in front of every path.
_TREE: Final = re.compile(r"[^\s'\"]*/trees/[^/\s]+/[^/\s]+\.\d+/")
# Of a tool's input: what says best what it is for.
_DEEDS: Final = (
    *("command", "cmd", "file_path", "filePath", "path", "notebook_path", "pattern"),
    *("url", "query", "description", "prompt"),
)


def parsed(line: str) -> dict[str, Any] | None:
    """The object of a line; None for everything else."""
    if len(line) > LINE_CHARACTERS_MAX or line.lstrip()[:1] != "{":
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def at(value: object, *keys: str) -> Any:
    """A member of members; None where one is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def objects(value: object) -> Iterator[dict[str, Any]]:
    """Those of a list."""
    for one in value[:ITEMS_MAX] if isinstance(value, list) else ():
        if isinstance(one, dict):
            yield one


def text(value: object) -> str:
    """Of a text, or of a list of parts."""
    if isinstance(value, str):
        return value
    return "\n".join(one["text"] for one in objects(value) if isinstance(one.get("text"), str))


def count(value: object) -> int:
    number = amount(value)
    return 0 if number is None else int(number)


def amount(value: object) -> float | None:
    """A number that can be counted with: finite, not negative, and not a truth value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 and math.isfinite(value) else None


def brief(words: str, characters_max: int = WORDS_CHARACTERS_MAX) -> str:
    """One line of it."""
    line = " ".join(_plain(words[: characters_max * 4]).split())
    return line if len(line) <= characters_max else f"{line[: characters_max - 1]}…"


def message(words: str) -> str:
    return _plain(words.strip()[:MESSAGE_CHARACTERS_MAX])


def _plain(words: str) -> str:
    """Without what could steer a terminal, or could not be sent on."""
    return _CONTROL.sub(" ", words).encode(errors="replace").decode()


def deed(tool_input: object) -> str | None:
    """What a tool is to do, for people."""
    for key in _DEEDS:
        found = at(tool_input, key)
        if isinstance(found, str) and found.strip():
            return brief(_TREE.sub("", found[:MESSAGE_CHARACTERS_MAX]))
    return None


def limit_in(words: str, now: float, until: float | None = None) -> RateLimited | None:
    """The limit that an error tells of."""
    if until is None and not tells_of_a_limit(words):
        return None
    return RateLimited(brief(words, 500), until if until is not None else reset_time(words, now))


class Uses(OrderedDict[str, tuple[str, str | None]]):
    """Tools in use, by the id of the use: their name and what they are to do."""

    def begin(self, use_id: object, tool: object, tool_input: object) -> Did:
        name, operation = brief(text(tool)) or "a tool", deed(tool_input)
        if isinstance(use_id, str):
            self[use_id] = (name, operation)
        if len(self) > ITEMS_MAX:
            self.popitem(last=False)
        return Did(brief(f"{name} {operation or ''}"))

    def end(self, use_id: object) -> tuple[str, str | None]:
        known = self.pop(use_id, None) if isinstance(use_id, str) else None
        return known or ("a tool", None)
