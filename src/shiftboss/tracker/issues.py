"""Issues of the beads tracker as tasks: one issue, and a file with one issue per line.

Standard library only, because everyday commands read issues too. For the same reason the limits of
a task are repeated here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from shiftboss.protocol.tracker_tasks import TrackerTask

TITLE_CHARACTERS_MAX: Final = 500
DESCRIPTION_CHARACTERS_MAX: Final = 20_000
DEPENDENCIES_MAX: Final = 200
# The tracker counts from 0, the most urgent, to 4. The default is 2.
DEFAULT_PRIORITY: Final = 2
PRIORITY_MAX: Final = 1_000

_TASK_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_DONE: Final = frozenset({"closed", "done", "tombstone"})
# Other dependencies (related, parent-child, discovered-from ...) do not block a task.
_BLOCKING: Final = frozenset({"", "blocks"})


class BadIssueError(ValueError):
    """The issue cannot become a task. The message says why."""


def is_task_id(text: object) -> bool:
    return isinstance(text, str) and _TASK_ID.fullmatch(text) is not None


def task_of(issue: object) -> TrackerTask:
    """Raises BadIssueError. Other members of the issue are ignored."""
    if not isinstance(issue, dict):
        raise BadIssueError("not a JSON object")
    return TrackerTask(
        task_id=_id(issue.get("id"), "id"),
        title=_title(issue.get("title")),
        description=_description(issue.get("description")),
        priority=_priority(issue.get("priority")),
        depends_on=_depends_on(issue.get("dependencies")),
        is_done=_is_done(issue),
    )


def _is_done(issue: dict[str, Any]) -> bool:
    status = issue.get("status")
    return isinstance(status, str) and status in _DONE


def _id(value: object, name: str) -> str:
    if not isinstance(value, str) or not is_task_id(value):
        raise BadIssueError(f"{name}: is not a valid task id")
    return value


def _title(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise BadIssueError("title: must be a non-empty string")
    return value[:TITLE_CHARACTERS_MAX]


def _description(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or "\0" in value:
        raise BadIssueError("description: must be a string")
    return value[:DESCRIPTION_CHARACTERS_MAX]


def _priority(value: object) -> int:
    """In Shiftboss a higher priority is more urgent, and 0 is the default."""
    if value is None:
        return 0
    if type(value) is not int:
        raise BadIssueError("priority: must be an integer")
    return max(-PRIORITY_MAX, min(DEFAULT_PRIORITY - value, PRIORITY_MAX))


def _depends_on(value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadIssueError("dependencies: must be a list")
    ids = sorted({task_id for item in value if (task_id := _dependency(item)) is not None})
    if len(ids) > DEPENDENCIES_MAX:
        raise BadIssueError(f"dependencies: more than {DEPENDENCIES_MAX}")
    return ids


def _dependency(item: object) -> str | None:
    """The id of a task to wait for, or None.

    The item is an id, an edge with `depends_on_id`, or the other issue itself, as in `bd show`.
    """
    if not isinstance(item, dict):
        return _id(item, "dependencies")
    kind = item.get("dependency_type", item.get("type", ""))
    if kind not in _BLOCKING or _is_done(item):
        return None
    return _id(item.get("depends_on_id", item.get("id")), "depends_on_id")


class BadLine(NamedTuple):
    number: int
    what: str


class IssueFile:
    """The tasks of a beads file, which has one issue per line as JSON, and its bad lines."""

    def __init__(self) -> None:
        self.bad: list[BadLine] = []
        self.done: set[str] = set()
        self._open: dict[str, tuple[int, TrackerTask]] = {}

    def add(self, number: int, line: bytes) -> None:
        try:
            task = task_of(json.loads(line))
        except BadIssueError as error:
            self.bad.append(BadLine(number, str(error)))
        except (ValueError, RecursionError):
            self.bad.append(BadLine(number, "not JSON"))
        else:
            self._take(number, task)

    def _take(self, number: int, task: TrackerTask) -> None:
        if task.task_id in self.done or task.task_id in self._open:
            self.bad.append(BadLine(number, f"id: {task.task_id} is on an earlier line as well"))
        elif task.is_done:
            self.done.add(task.task_id)
        else:
            self._open[task.task_id] = (number, task)

    def missing_dependencies(self) -> list[str]:
        """The dependencies that are not in the file."""
        needed = {name for _, task in self._open.values() for name in task.depends_on}
        return sorted(needed - self.done - self._open.keys())

    def in_order(self, known: set[str]) -> list[TrackerTask]:
        """The open tasks, each after its dependencies and without finished ones.

        `known` are dependencies that the server has already. A task whose dependencies are missing
        is a bad line.
        """
        needs = {name: set(task.depends_on) - self.done - known for name, task in self._tasks()}
        needed_by: dict[str, list[str]] = {}
        for task_id, needed in needs.items():
            for name in needed:
                needed_by.setdefault(name, []).append(task_id)
        ordered = [task_id for task_id, needed in needs.items() if not needed]
        for task_id in ordered:
            for other in needed_by.get(task_id, ()):
                needs[other].discard(task_id)
                if not needs[other]:
                    ordered.append(other)
        self._report_missing(needs)
        return [self._without_done(task_id) for task_id in ordered]

    def _tasks(self) -> Iterator[tuple[str, TrackerTask]]:
        return ((task_id, task) for task_id, (_, task) in self._open.items())

    def _without_done(self, task_id: str) -> TrackerTask:
        _, task = self._open[task_id]
        return task._replace(depends_on=[name for name in task.depends_on if name not in self.done])

    def _report_missing(self, needs: dict[str, set[str]]) -> None:
        for task_id, missing in needs.items():
            if missing:
                names = ", ".join(sorted(missing))
                what = f"dependencies: {names}: missing, or part of a cycle"
                self.bad.append(BadLine(self._open[task_id][0], what))
        self.bad.sort()


def read_issue_file(lines: Iterable[bytes]) -> IssueFile:
    issues = IssueFile()
    for number, line in enumerate(lines, 1):
        if line.strip():
            issues.add(number, line)
    return issues
