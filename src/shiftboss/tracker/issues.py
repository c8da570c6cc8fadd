"""An issue of the beads tracker as a task.

Standard library only: the everyday commands read issues too. The limits are those of a task that
is added by hand, said again here for the same reason.
"""

from __future__ import annotations

import re
from typing import Any, Final

from shiftboss.protocol.bus import FoundTask

TITLE_CHARACTERS_MAX: Final = 500
DESCRIPTION_CHARACTERS_MAX: Final = 20_000
DEPENDENCIES_MAX: Final = 200
# The tracker counts from 0, the most urgent, to 4; an issue without a word about it has 2.
USUAL_PRIORITY: Final = 2
PRIORITY_MAX: Final = 1_000

_TASK_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_DONE: Final = frozenset({"closed", "done", "tombstone"})
# The other kinds (related, parent-child, discovered-from ...) hold nobody up.
_BLOCKING: Final = frozenset({"", "blocks"})


class BadIssueError(ValueError):
    """What is wrong with it, in a few words."""


def is_task_id(text: object) -> bool:
    return isinstance(text, str) and _TASK_ID.fullmatch(text) is not None


def task_of(issue: object) -> FoundTask:
    """Members that are not needed are not looked at."""
    if not isinstance(issue, dict):
        raise BadIssueError("not a JSON object")
    return FoundTask(
        task_id=_id(issue.get("id"), "id"),
        title=_title(issue.get("title")),
        description=_description(issue.get("description")),
        priority=_priority(issue.get("priority")),
        depends_on=_depends_on(issue.get("dependencies")),
        is_done=_is_done(issue),
    )


def _is_done(issue: dict[str, Any]) -> bool:
    return issue.get("status") in _DONE


def _id(value: object, name: str) -> str:
    if not isinstance(value, str) or not is_task_id(value):
        raise BadIssueError(f"{name}: not the id of a task")
    return value


def _title(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise BadIssueError("title: must be a text")
    return value[:TITLE_CHARACTERS_MAX]


def _description(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or "\0" in value:
        raise BadIssueError("description: must be a text")
    return value[:DESCRIPTION_CHARACTERS_MAX]


def _priority(value: object) -> int:
    """Ours: the higher the sooner, and 0 is the usual one."""
    if value is None:
        return 0
    if type(value) is not int:
        raise BadIssueError("priority: must be a whole number")
    return max(-PRIORITY_MAX, min(USUAL_PRIORITY - value, PRIORITY_MAX))


def _depends_on(value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadIssueError("dependencies: must be a list")
    found = sorted({one for item in value if (one := _dependency(item)) is not None})
    if len(found) > DEPENDENCIES_MAX:
        raise BadIssueError(f"dependencies: more than {DEPENDENCIES_MAX}")
    return found


def _dependency(item: object) -> str | None:
    """An id, an edge with `depends_on_id`, or the other issue itself, as `bd show` has it.

    None when there is nothing to wait for.
    """
    if not isinstance(item, dict):
        return _id(item, "dependencies")
    kind = item.get("dependency_type", item.get("type", ""))
    if kind not in _BLOCKING or _is_done(item):
        return None
    return _id(item.get("depends_on_id", item.get("id")), "depends_on_id")
