"""Ends a worker whose tools are denied, instead of letting it retry forever.

A count goes up with every denial of a tool, and back to zero when the tool succeeds. Each denied
operation is also counted on its own. Otherwise a worker that lists a folder between its attempts to
create one would never reach the limit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from shiftboss.protocol.policy import PermissionLimits

ERROR_CHARACTERS_MAX: Final = 300
TEXT_CHARACTERS_MAX: Final = 20_000
COUNTED_MAX: Final = 200
DEFAULT_TOOL: Final = "Bash"

# What agents and systems print when a tool is denied. The group is the tool, if the text names it.
_DENIALS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"permission to use (?P<tool>[\w.:-]{1,100}) has been (?:auto-)?denied",
        r"requested permissions? to use (?P<tool>[\w.:-]{1,100}), but you haven't granted it",
        r"requested permissions? to (?P<action>write|edit|read)\b.*but you haven't granted it",
        r"permission to (?P<action>write|edit|read)\b.*has been denied",
        r"the tool use was rejected",
        r"this command requires approval",
        r"approval policy is never; reject command",
        r"rejected: blocked by policy",
        r"(?:command|patch|exec command) rejected by user",
        r"sandbox(?: error)?: (?:command was )?denied",
        r"permission denied(?! \((?:publickey|password|keyboard-interactive))",
        r"cannot create directory",
        r"operation not permitted",
        r"read-only file system",
        r"\bE(?:ACCES|PERM|ROFS)\b",
    )
)
# How a question about an ended worker begins, see `termination`.
_REPORTED: Final = re.compile(r"BLOCKED_PERMISSION: (.{1,200}?) - ")
_TOOL_OF_ACTION: Final = {"write": "Write", "edit": "Edit", "read": "Read"}


class Denial(NamedTuple):
    tool: str
    error: str


class Recovery(NamedTuple):
    """A way to recover, for the operator of the worker."""

    name: str
    words: str


class Termination(NamedTuple):
    report: str  # the last milestone line of the worker
    message: str


# What a worker does after a denial that does not end it yet.
DENIED_ONCE: Final = (
    "do not retry, and do not work around it unless the orchestrator tells you how: report "
    "{report}, list the files and operations that you attempted, and stop"
)
DIAGNOSIS: Final = "Why did the tool get denied?"
RECOVERY: Final = (
    Recovery("fix_permissions", "If sandbox/permission config issue"),
    Recovery("respawn_with_alternatives", "Use Write/Edit instead of Bash mkdir"),
    Recovery("manual_intervention", "Create directories manually, then respawn"),
    Recovery("respawn_worker", "With updated instructions avoiding the blocked operation"),
)


def find_denial(text: str, tool: str | None = None) -> Denial | None:
    """The denial that `text` reports. `tool` is the tool that printed it, if known."""
    if len(text) > TEXT_CHARACTERS_MAX:
        half = TEXT_CHARACTERS_MAX // 2
        text = f"{text[:half]}\n{text[-half:]}"
    for line in text.splitlines():
        for pattern in _DENIALS:
            match = pattern.search(line)
            if match is not None:
                groups = match.groupdict()
                by_action = _TOOL_OF_ACTION.get(str(groups.get("action")).lower())
                return Denial(
                    groups.get("tool") or tool or by_action or DEFAULT_TOOL,
                    " ".join(line.split())[:ERROR_CHARACTERS_MAX],
                )
    return None


def after_denial(
    counts: Mapping[str, int], tool: str, operation: str | None = None
) -> dict[str, int]:
    """The counts of a worker after one more denial. Only the newest are kept."""
    updated = dict(counts)
    for key in _keys(tool, operation):
        updated[key] = updated.pop(key, 0) + 1
    return dict(list(updated.items())[-COUNTED_MAX:])


def after_success(
    counts: Mapping[str, int], tool: str, operation: str | None = None
) -> dict[str, int]:
    reset = _keys(tool, operation)
    return {key: count for key, count in counts.items() if key not in reset}


def must_terminate(counts: Mapping[str, int], limits: PermissionLimits) -> bool:
    return any(count >= limits.max_denials for count in counts.values())


def termination(tool: str, error: str) -> Termination:
    return Termination(
        f"BLOCKED_PERMISSION: {tool} - {error}",
        f"TERMINATED: Permission failure on {tool}. Cannot proceed. Orchestrator must fix "
        "permissions or respawn with different instructions.",
    )


def denied_tool(question: str) -> str | None:
    """The tool whose denial a question is about, None for other questions."""
    match = _REPORTED.match(question)
    return None if match is None else match[1]


def _keys(tool: str, operation: str | None) -> list[str]:
    return [tool] if operation is None else [tool, f"{tool}\n{operation}"]
