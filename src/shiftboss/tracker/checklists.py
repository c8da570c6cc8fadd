"""A Markdown checklist as tasks.

`- [ ] title` is a task. Text indented below it belongs to it: the lines `files:`, `criteria:`,
`depends:`, `repo:` and `id:` set these fields, items with a box are tasks that it depends on, and
the rest is its description. `- [x]` is done and left out.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

# `files: src/a.py, tests/`, `criteria: Tests pass: pytest`, `depends: other-task`, `repo: name`,
# `id: its-id`. If there is no value on the line, a list follows.
_KEY: Final = re.compile(
    r"(?P<indent> *)(?P<bullet>[-*+] +)?[*_]*(?P<key>files|criteria|depends|repo|id)[*_]*:[*_]* *"
    r"(?P<rest>.*)",
    re.IGNORECASE,
)
_BULLET: Final = re.compile(r"(?P<indent> *)[-*+] +(?P<text>\S.*)")
_CODE: Final = re.compile(r"`+([^`]+)`+")
_CHECKED: Final = re.compile(r"[\w ]+:\s*(`+)(?P<command>[^`]+)\1\s*")
_PATH: Final = re.compile(r".*[/.*].*")


class TaskNotes:
    """The fields and the description below one item."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.criteria: list[str] = []
        self.depends: list[str] = []
        self.repo: str | None = None
        self.task_id: str | None = None
        self._text: list[str] = []
        # The key whose list is being read, and the least indentation of its items.
        self._list: tuple[str, int] | None = None

    @property
    def description(self) -> str:
        return textwrap.dedent("\n".join(self._text)).strip()

    def add(self, line: str) -> None:
        key, bullet = _KEY.fullmatch(line), _BULLET.fullmatch(line)
        if key is not None:
            name, value = key["key"].lower(), key["rest"].strip()
            self._list = None if value else (name, len(key["indent"]) + bool(key["bullet"]))
            self._set(name, value)
        elif bullet is not None and self._list and len(bullet["indent"]) >= self._list[1]:
            self._set(self._list[0], bullet["text"].strip())
        else:
            self._list = self._list if not line.strip() else None
            self._text.append(line.rstrip())

    def _set(self, key: str, value: str) -> None:
        if not value:
            return
        match key:
            case "files":
                self.files += _split_paths(value)
            case "criteria":
                self.criteria.append(_criterion(value))
            case "depends":
                names = (name.strip(" `") for name in value.split(","))
                self.depends += [name for name in names if name]
            case "repo":
                self.repo = value.strip("` ")
            case "id":
                self.task_id = value.strip("` ")


def _split_paths(value: str) -> list[str]:
    """The paths in backticks if there are any, else everything between commas and spaces."""
    return _CODE.findall(value) or [path for path in re.split(r"[,\s]+", value) if path]


def files_named(description: str) -> list[str]:
    """The files of a description in free text, where everything after `files:` must look like a
    path."""
    notes = TaskNotes()
    for line in description.splitlines():
        notes.add(line.expandtabs(4))
    return notes.files if all(map(_PATH.fullmatch, notes.files)) else []


def _criterion(value: str) -> str:
    """A command without further text has to pass."""
    code = _CODE.fullmatch(value)
    if code is not None:
        return f"Command passes: {code[1].strip()}"
    checked = _CHECKED.fullmatch(value)
    return re.sub(r"`+", "", value) if checked is not None else value


_ITEM: Final = re.compile(
    r"(?P<indent> *)(?:[-*+]|\d{1,3}[.)]) +\[(?P<mark>[ xX])\] +(?P<title>\S.*)"
)
_HEADING: Final = re.compile(r"#{1,6}\s+(?P<text>.*?)\s*#*\s*$")
_FENCE: Final = re.compile(r" *(```|~~~)")
_SLUG_CHARACTERS_MAX: Final = 60
_TITLE_CHARACTERS_MAX: Final = 500


@dataclass
class ChecklistTask:
    """`depends_on` are ids of tasks in this list, or names that are unknown in it."""

    task_id: str
    title: str
    description: str
    depends_on: list[str]
    files: list[str]
    criteria: list[str]
    repo: str | None


@dataclass
class Checklist:
    """`goal` is the first heading, `done` the number of finished items, which are left out."""

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
    reader = _ChecklistReader()
    for line in text.splitlines():
        reader.add(line.expandtabs(4))
    _assign_ids(reader.items)
    index = _ItemIndex(reader.items)
    tasks = [_task(item, index) for item in reader.items if not item.is_done]
    return Checklist(reader.goal, tasks, len(reader.items) - len(tasks))


class _ChecklistReader:
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

    def _begin(self, match: re.Match[str]) -> None:
        item = _Item(len(match["indent"]), _title(match["title"]), match["mark"] != " ")
        self._close_to(item.indent)
        if self._open:
            self._open[-1].children.append(item)
        self._open.append(item)
        self.items.append(item)

    def _add_below(self, line: str) -> None:
        """A blank line belongs to the current item; text that is not indented belongs to none."""
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
    slug = re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")
    return slug[:_SLUG_CHARACTERS_MAX].rstrip("-")


def _assign_ids(items: list[_Item]) -> None:
    """Ids in the text stay as they are; the others are made from the titles."""
    taken = {item.notes.task_id for item in items if item.notes.task_id}
    for number, item in enumerate(items, start=1):
        if item.notes.task_id:
            item.task_id = item.notes.task_id
            continue
        ids = _possible_ids(_slug(item.title) or f"task-{number}")
        item.task_id = next(task_id for task_id in ids if task_id not in taken)
        taken.add(item.task_id)


def _possible_ids(slug: str) -> Iterator[str]:
    yield slug
    for number in itertools.count(2):
        yield f"{slug}-{number}"


class _ItemIndex:
    """Finds items by their id or by their title."""

    def __init__(self, items: list[_Item]) -> None:
        self._items: dict[str, _Item] = {}
        for item in items:
            self._items.setdefault(_slug(item.title), item)
        for item in items:
            self._items[item.task_id] = item

    def find(self, name: str) -> _Item | None:
        return self._items.get(name) or self._items.get(_slug(name))


def _task(item: _Item, index: _ItemIndex) -> ChecklistTask:
    depends_on = [child.task_id for child in item.children if not child.is_done]
    for name in item.notes.depends:
        other = index.find(name)
        if other is None:
            depends_on.append(name if re.fullmatch(r"[A-Za-z0-9._-]+", name) else _slug(name))
        elif not other.is_done:
            depends_on.append(other.task_id)
    return ChecklistTask(
        task_id=item.task_id,
        title=item.title,
        description=item.notes.description,
        depends_on=list(dict.fromkeys(depends_on)),
        files=item.notes.files,
        criteria=item.notes.criteria,
        repo=item.notes.repo,
    )
