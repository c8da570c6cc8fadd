"""Reading lines of output that may be JSON, half of it, or noise. Nothing here raises."""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final

from shiftboss.agents.output_events import RateLimited, ToolUse
from shiftboss.rules.runs.quota_messages import mentions_limit, reset_time

LINE_CHARACTERS_MAX: Final = 4_000_000
BRIEF_CHARACTERS_MAX: Final = 200
MESSAGE_CHARACTERS_MAX: Final = 2000
ITEMS_MAX: Final = 1000
# Agents wait by themselves for a quota that is back within this time.
SHORT_WAIT_SECONDS: Final = 120.0
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# The folder of a work tree, as `orchestrator.run.run_context` names it. Every path starts with it.
_WORK_TREE: Final = re.compile(r"[^\s'\"]*/trees/[^/\s]+/[^/\s]+\.\d+/")
# The members of a tool's input that best describe what it does, the best first.
_DESCRIBING_KEYS: Final = (
    *("command", "cmd", "file_path", "filePath", "path", "notebook_path", "pattern"),
    *("url", "query", "description", "prompt"),
)


def parse_object(line: str) -> dict[str, Any] | None:
    """The JSON object of a line; None for everything else."""
    if len(line) > LINE_CHARACTERS_MAX or line.lstrip()[:1] != "{":
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def member(value: object, *keys: str) -> Any:
    """A nested member; None if it is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def objects(value: object) -> Iterator[dict[str, Any]]:
    """The objects in a list."""
    for item in value[:ITEMS_MAX] if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item


def text(value: object) -> str:
    """A string, or the joined texts of a list of content parts."""
    if isinstance(value, str):
        return value
    return "\n".join(part["text"] for part in objects(value) if isinstance(part.get("text"), str))


def count(value: object) -> int:
    number = amount(value)
    return 0 if number is None else int(number)


def amount(value: object) -> float | None:
    """A number that can be added up: finite, not negative, and not a boolean."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e15 and math.isfinite(value) else None


def brief(content: str, characters_max: int = BRIEF_CHARACTERS_MAX) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(_printable(content[: characters_max * 4]).split())
    return line if len(line) <= characters_max else f"{line[: characters_max - 1]}…"


def message(content: str) -> str:
    return _printable(content.strip()[:MESSAGE_CHARACTERS_MAX])


def _printable(content: str) -> str:
    """Without control characters, and without surrogates, which cannot be encoded."""
    return _CONTROL.sub(" ", content).encode(errors="replace").decode()


def describe_input(tool_input: object) -> str | None:
    """The input of a tool, for people."""
    for key in _DESCRIBING_KEYS:
        value = member(tool_input, key)
        if isinstance(value, str) and value.strip():
            return brief(_WORK_TREE.sub("", value[:MESSAGE_CHARACTERS_MAX]))
    return None


def find_rate_limit(error: str, now: float, until: float | None = None) -> RateLimited | None:
    """The rate limit that an error message reports, if any."""
    if until is None and not mentions_limit(error):
        return None
    return RateLimited(brief(error, 500), until if until is not None else reset_time(error, now))


class ToolUses(OrderedDict[str, tuple[str, str | None]]):
    """Tools in use by the id of the use: the name of the tool, and what it is to do."""

    def begin(self, use_id: object, tool: object, tool_input: object) -> ToolUse:
        name, operation = brief(text(tool)) or "a tool", describe_input(tool_input)
        if isinstance(use_id, str):
            self[use_id] = (name, operation)
        if len(self) > ITEMS_MAX:
            self.popitem(last=False)
        return ToolUse(brief(f"{name} {operation or ''}"))

    def end(self, use_id: object) -> tuple[str, str | None]:
        use = self.pop(use_id, None) if isinstance(use_id, str) else None
        return use or ("a tool", None)
