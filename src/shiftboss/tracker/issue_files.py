"""A beads file: one issue per line, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shiftboss.protocol.bus import FoundTask
from shiftboss.tracker.issues import BadIssueError, task_of


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
