"""A Markdown checklist as tasks.

`- [ ] title` is a task. What is indented below it belongs to it: the lines `files:`, `criteria:`,
`depends:`, `repo:` and `id:` say these things, items with a box are tasks that come before it, and
the rest is its description. `- [x]` is done and left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from shiftboss.tracker.task_notes import TaskNotes

_ITEM: Final = re.compile(
    r"(?P<indent> *)(?:[-*+]|\d{1,3}[.)]) +\[(?P<mark>[ xX])\] +(?P<title>\S.*)"
)
_HEADING: Final = re.compile(r"#{1,6}\s+(?P<text>.*?)\s*#*\s*$")
_FENCE: Final = re.compile(r" *(```|~~~)")
_SLUG_CHARACTERS_MAX: Final = 60
_TITLE_CHARACTERS_MAX: Final = 500


@dataclass
class ChecklistTask:
    """`depends_on` are ids of this list, or words that name nothing in it."""

    task_id: str
    title: str
    description: str
    depends_on: list[str]
    files: list[str]
    criteria: list[str]
    repo: str | None


@dataclass
class Checklist:
    """`goal` is the first heading; `done` counts the items that were left out."""

    goal: str | None
    tasks: list[ChecklistTask]
    done: int


@dataclass
class _Item:
    indent: int
    title: str
    is_done: bool
    notes: TaskNotes = field(default_factory=TaskNotes)
    children: list[_Item] = field(default_factory=list)
    task_id: str = ""


def read_checklist(text: str) -> Checklist:
    reader = _Reader()
    for line in text.splitlines():
        reader.add(line.expandtabs(4))
    _name(reader.items)
    known = _Names(reader.items)
    tasks = [_task(item, known) for item in reader.items if not item.is_done]
    return Checklist(reader.goal, tasks, len(reader.items) - len(tasks))


class _Reader:
    def __init__(self) -> None:
        self.goal: str | None = None
        self.items: list[_Item] = []
        self._open: list[_Item] = []
        self._fenced = False

    def add(self, line: str) -> None:
        if _FENCE.match(line):
            self._fenced = not self._fenced
        elif not self._fenced and (heading := _HEADING.match(line)):
            self.goal = self.goal or heading["text"] or None
            self._open.clear()
            return
        elif not self._fenced and (item := _ITEM.fullmatch(line)):
            self._begin(item)
            return
        self._add_below(line)

    def _begin(self, found: re.Match[str]) -> None:
        item = _Item(len(found["indent"]), _title(found["title"]), found["mark"] != " ")
        self._close_to(item.indent)
        if self._open:
            self._open[-1].children.append(item)
        self._open.append(item)
        self.items.append(item)

    def _add_below(self, line: str) -> None:
        """A blank line belongs to whoever is open; text that is not indented to nobody."""
        if line.strip():
            self._close_to(len(line) - len(line.lstrip()))
        if self._open:
            self._open[-1].notes.add(line)

    def _close_to(self, indent: int) -> None:
        while self._open and self._open[-1].indent >= indent:
            self._open.pop()


def _title(text: str) -> str:
    plain = text.strip().replace("**", "").replace("`", "").strip()
    return (plain or text.strip())[:_TITLE_CHARACTERS_MAX]


def _slug(text: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")
    return words[:_SLUG_CHARACTERS_MAX].rstrip("-")


def _name(items: list[_Item]) -> None:
    """Ids that were chosen stay as they are; the others are made from the titles."""
    taken = {item.notes.task_id for item in items if item.notes.task_id}
    for number, item in enumerate(items, start=1):
        if item.notes.task_id:
            item.task_id = item.notes.task_id
            continue
        item.task_id = next(one for one in _ideas(_slug(item.title), number) if one not in taken)
        taken.add(item.task_id)


def _ideas(slug: str, number: int) -> Iterator[str]:
    yield slug or f"task-{number}"
    again = 2
    while True:
        yield f"{slug or f'task-{number}'}-{again}"
        again += 1


class _Names:
    """Items by their id, or by their title."""

    def __init__(self, items: list[_Item]) -> None:
        self._items: dict[str, _Item] = {}
        for item in items:
            self._items.setdefault(_slug(item.title), item)
        for item in items:
            self._items[item.task_id] = item

    def of(self, said: str) -> _Item | None:
        return self._items.get(said) or self._items.get(_slug(said))


def _task(item: _Item, known: _Names) -> ChecklistTask:
    waits = [child.task_id for child in item.children if not child.is_done]
    for said in item.notes.depends:
        other = known.of(said)
        if other is None:
            waits.append(said if re.fullmatch(r"[A-Za-z0-9._-]+", said) else _slug(said))
        elif not other.is_done:
            waits.append(other.task_id)
    return ChecklistTask(
        task_id=item.task_id,
        title=item.title,
        description=item.notes.description,
        depends_on=list(dict.fromkeys(waits)),
        files=item.notes.files,
        criteria=item.notes.criteria,
        repo=item.notes.repo,
    )
