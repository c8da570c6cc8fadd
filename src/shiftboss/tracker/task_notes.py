"""What the text below a task says of it: `files: src/a.py, tests/`, `criteria: Tests pass: pytest`,
`depends: other-task`, `repo: name`, `id: its-id`. A key without words has a list below it."""

from __future__ import annotations

import re
import textwrap
from typing import Final

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
