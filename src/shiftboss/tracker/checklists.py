"""A Markdown checklist as tasks.

`- [ ] title` is a task. What is indented below it belongs to it: the lines `files:`, `criteria:`,
`depends:`, `repo:` and `id:` say these things, items with a box are tasks that come before it, and
the rest is its description. `- [x]` is done and left out.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

# What the text below a task says of it: `files: src/a.py, tests/`, `criteria: Tests pass:
# pytest`, `depends: other-task`, `repo: name`, `id: its-id`. A key without words has a list below
# it.


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
    def __init__(self) -> None:
        self.files: list[str] = []
        self.criteria: list[str] = []
        self.depends: list[str] = []
        self.repo: str | None = None
        self.task_id: str | None = None
        self._text: list[str] = []
        # The key whose list is being read, and how far its items are indented at least.
        self._list: tuple[str, int] | None = None

    @property
    def description(self) -> str:
        return textwrap.dedent("\n".join(self._text)).strip()

    def add(self, line: str) -> None:
        key, bullet = _KEY.fullmatch(line), _BULLET.fullmatch(line)
        if key is not None:
            name, words = key["key"].lower(), key["rest"].strip()
            self._list = None if words else (name, len(key["indent"]) + bool(key["bullet"]))
            self._take(name, words)
        elif bullet is not None and self._list and len(bullet["indent"]) >= self._list[1]:
            self._take(self._list[0], bullet["text"].strip())
        else:
            self._list = self._list if not line.strip() else None
            self._text.append(line.rstrip())

    def _take(self, key: str, words: str) -> None:
        if not words:
            return
        match key:
            case "files":
                self.files += paths_in(words)
            case "criteria":
                self.criteria.append(_criterion(words))
            case "depends":
                self.depends += [one.strip(" `") for one in words.split(",") if one.strip(" `")]
            case "repo":
                self.repo = words.strip("` ")
            case "id":
                self.task_id = words.strip("` ")


def paths_in(words: str) -> list[str]:
    """Those in backticks, if there are any; else all, with commas or spaces between them."""
    return _CODE.findall(words) or [one for one in re.split(r"[,\s]+", words) if one]


def files_named(description: str) -> list[str]:
    """Of a text in which nobody promised anything: what follows `files:` must look like paths."""
    notes = TaskNotes()
    for line in description.splitlines():
        notes.add(line.expandtabs(4))
    return notes.files if all(map(_PATH.fullmatch, notes.files)) else []


def _criterion(words: str) -> str:
    """A command alone is one that has to pass."""
    code = _CODE.fullmatch(words)
    if code is not None:
        return f"Command passes: {code[1].strip()}"
    checked = _CHECKED.fullmatch(words)
    return re.sub(r"`+", "", words) if checked is not None else words


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
    reader = _ChecklistReader()
    for line in text.splitlines():
        reader.add(line.expandtabs(4))
    _name(reader.items)
    known = _Names(reader.items)
    tasks = [_task(item, known) for item in reader.items if not item.is_done]
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
