"""An issue of the beads tracker as a task.

Standard library only: the everyday commands read issues too. The limits are those of a task that
is added by hand, said again here for the same reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from shiftboss.protocol.tracker_tasks import FoundTask

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


# A beads file: one issue per line, as JSON.


class BadLine(NamedTuple):
    number: int
    what: str


class IssueFile:
    """What could be read, and what could not."""

    def __init__(self) -> None:
        self.bad: list[BadLine] = []
        self.done: set[str] = set()
        self._open: dict[str, tuple[int, FoundTask]] = {}

    def add(self, number: int, line: bytes) -> None:
        try:
            task = task_of(json.loads(line))
        except BadIssueError as error:
            self.bad.append(BadLine(number, str(error)))
        except (ValueError, RecursionError):
            self.bad.append(BadLine(number, "not JSON"))
        else:
            self._take(number, task)

    def _take(self, number: int, task: FoundTask) -> None:
        if task.task_id in self.done or task.task_id in self._open:
            self.bad.append(BadLine(number, f"id: {task.task_id} was on an earlier line"))
        elif task.is_done:
            self.done.add(task.task_id)
        else:
            self._open[task.task_id] = (number, task)

    def elsewhere(self) -> list[str]:
        """The dependencies that the file does not tell of."""
        named = {one for _, task in self._open.values() for one in task.depends_on}
        return sorted(named - self.done - self._open.keys())

    def in_order(self, known: set[str]) -> list[FoundTask]:
        """The open tasks, each after those that it depends on and without those that are done.

        `known` are dependencies that are there already. A task that cannot have what it depends on
        is a bad line.
        """
        needs = {one: set(task.depends_on) - self.done - known for one, task in self._tasks()}
        needed_by: dict[str, list[str]] = {}
        for task_id, needed in needs.items():
            for one in needed:
                needed_by.setdefault(one, []).append(task_id)
        ordered = [task_id for task_id, needed in needs.items() if not needed]
        for task_id in ordered:
            for other in needed_by.get(task_id, ()):
                needs[other].discard(task_id)
                if not needs[other]:
                    ordered.append(other)
        self._blame(needs)
        return [self._without_done(task_id) for task_id in ordered]

    def _tasks(self) -> Iterator[tuple[str, FoundTask]]:
        return ((task_id, task) for task_id, (_, task) in self._open.items())

    def _without_done(self, task_id: str) -> FoundTask:
        _, task = self._open[task_id]
        return task._replace(depends_on=[one for one in task.depends_on if one not in self.done])

    def _blame(self, needs: dict[str, set[str]]) -> None:
        for task_id, missing in needs.items():
            if missing:
                names = ", ".join(sorted(missing))
                what = f"dependencies: {names}: not there, or in a circle"
                self.bad.append(BadLine(self._open[task_id][0], what))
        self.bad.sort()


def read_issue_file(lines: Iterable[bytes]) -> IssueFile:
    issues = IssueFile()
    for number, line in enumerate(lines, 1):
        if line.strip():
            issues.add(number, line)
    return issues
