"""What a file should hold of ours, and how it gets there and away again. Text in, text out."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from shiftboss.init.json_edits import (
    NotJson,
    WrongKind,
    append_item,
    fresh,
    read_json,
    remove_items,
    remove_member,
    set_member,
    value_with_comments,
)
from shiftboss.init.text_blocks import (
    HASH,
    BrokenBlock,
    Markers,
    find_block,
    is_untouched,
    with_block,
    without_block,
)

HOOK_PROGRAM: Final = "shiftboss hook "


class CannotMerge(Exception):
    """The file cannot be changed by us. `line` counts from 1; `by_hand` is what somebody can do."""

    def __init__(self, words: str, line: int | None = None, by_hand: str | None = None) -> None:
        super().__init__(words)
        self.words = words
        self.line = line
        self.by_hand = by_hand


class FileEdit(Protocol):
    """Of one file. `None` is a file that is not there."""

    @property
    def name(self) -> str: ...

    def has_ours(self, text: str) -> bool:
        """Whether there is something in it that a removal would take out."""

    def with_ours(self, text: str | None) -> str:
        """The same text if all is there already."""

    def without_ours(self, text: str) -> str | None: ...

    def is_left(self, text: str) -> bool:
        """Whether, after a removal, there still is what somebody else has made of it."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a JSON object. One of the same name is somebody's choice, and is left alone."""

    path: tuple[str, ...]
    value: Any

    def is_in(self, data: Any) -> bool:
        found = _at(data, self.path[:-1])
        return isinstance(found, dict) and self.path[-1] in found

    def is_ours_in(self, data: Any) -> bool:
        return self.is_in(data) and _at(data, self.path) == self.value

    def added(self, text: str) -> str:
        return set_member(text, self.path, self.value)

    def removed(self, text: str) -> str | None:
        return remove_member(text, self.path, lambda value: bool(value == self.value))

    def shown(self) -> Any:
        return _wrapped(self.path, self.value)


@dataclass(frozen=True, slots=True)
class Hook:
    """An entry in a list of hooks: it is there when its command is, whatever stands around it."""

    path: tuple[str, ...]
    value: dict[str, Any]

    def is_in(self, data: Any) -> bool:
        wanted = _commands(self.value)
        entries = _at(data, self.path)
        return isinstance(entries, list) and any(
            wanted <= _commands(entry) for entry in entries if isinstance(entry, dict)
        )

    def is_ours_in(self, data: Any) -> bool:
        entries = _at(data, self.path)
        return isinstance(entries, list) and any(map(_is_ours, entries))

    def added(self, text: str) -> str:
        return append_item(text, self.path, self.value)

    def removed(self, text: str) -> str | None:
        return remove_items(text, self.path, _is_ours)

    def shown(self) -> Any:
        return _wrapped(self.path, [self.value])


@dataclass(frozen=True, slots=True)
class JsonFile:
    name: str
    parts: Sequence[Member | Hook]

    def has_ours(self, text: str) -> bool:
        data = value_with_comments(text)
        return any(part.is_ours_in(data) for part in self.parts)

    def with_ours(self, text: str | None) -> str:
        if text is None:
            return self._added(fresh(self.parts[0].shown()), self.parts[1:])
        missing = [part for part in self.parts if not part.is_in(value_with_comments(text))]
        return self._added(text, missing)

    def _added(self, text: str, parts: Sequence[Member | Hook]) -> str:
        try:
            for part in parts:
                text = part.added(text)
        except NotJson as error:
            raise self._refused(error, "add", [part.shown() for part in parts]) from error
        except WrongKind as error:
            raise CannotMerge(error.words) from error
        return text

    def without_ours(self, text: str) -> str | None:
        data = value_with_comments(text)
        ours = [part for part in self.parts if part.is_ours_in(data)]
        left: str | None = text
        try:
            if data is None:
                read_json(text)
            for part in ours:
                left = None if left is None else part.removed(left)
        except NotJson as error:
            raise self._refused(error, "take out", [part.shown() for part in ours]) from error
        return left

    def is_left(self, text: str) -> bool:
        return any(part.is_in(value_with_comments(text)) for part in self.parts)

    def _refused(self, error: NotJson, what: str, parts: Sequence[Any]) -> CannotMerge:
        if error.has_comments:
            by_hand = f"{what} by hand: {' and '.join(map(json.dumps, parts))}"
            return CannotMerge("has comments, or commas before brackets", error.line, by_hand)
        return CannotMerge(f"is no JSON: {error.words}", error.line, "mend it first")


@dataclass(frozen=True, slots=True)
class BlockFile:
    """Lines between markers. `is_said`: whether the rest of the file says it already."""

    name: str
    lines: Sequence[str]
    markers: Markers = HASH
    is_said: Callable[[str], bool] = lambda _: False

    def has_ours(self, text: str) -> bool:
        return self._span(text) is not None

    def with_ours(self, text: str | None) -> str:
        if text is not None and self._span(text) is None and self.is_said(text):
            return text
        return with_block(text, self.lines, self.markers)

    def without_ours(self, text: str) -> str | None:
        self._span(text)
        return without_block(text, self.markers)

    def is_left(self, text: str) -> bool:  # noqa: ARG002 -- what is between markers is all ours
        return False

    def _span(self, text: str) -> tuple[int, int] | None:
        try:
            return find_block(text, self.markers)
        except BrokenBlock as error:
            raise CannotMerge(
                error.words, error.line, "mend the markers, or remove both"
            ) from error


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A table in a block of its own. `path` is where the table is."""

    name: str
    path: tuple[str, ...]
    lines: Sequence[str]

    @property
    def _block(self) -> BlockFile:
        return BlockFile(self.name, self.lines, is_said=self._is_said)

    def has_ours(self, text: str) -> bool:
        return self._block.has_ours(text)

    def with_ours(self, text: str | None) -> str:
        self._parsed(text or "")
        added = self._block.with_ours(text)
        try:
            self._parsed(added)
        except CannotMerge as error:
            by_hand = f"add by hand what means the same: {' '.join(self.lines)}"
            raise CannotMerge("takes no further table at its end", None, by_hand) from error
        return added

    def without_ours(self, text: str) -> str | None:
        return self._block.without_ours(text)

    def is_left(self, text: str) -> bool:
        return self._is_said(text)

    def _is_said(self, text: str) -> bool:
        return _at(self._parsed(text), self.path) is not None

    def _parsed(self, text: str) -> Any:
        try:
            return tomllib.loads(text.replace("\r\n", "\n"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise CannotMerge(f"is no TOML: {error}", None, "mend it first") from error


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file of our own, with a seal in it. `is_renewed`: an older one of ours is replaced."""

    name: str
    text: str
    comment: str
    is_renewed: bool = True

    def has_ours(self, text: str) -> bool:
        return is_untouched(text, self.comment)

    def with_ours(self, text: str | None) -> str:
        if text is None:
            return self.text
        return self.text if self.is_renewed and self.has_ours(text) else text

    def without_ours(self, text: str) -> str | None:
        return None if self.has_ours(text) else text

    def is_left(self, text: str) -> bool:
        return not self.has_ours(text)


def _at(data: Any, path: Sequence[str]) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _wrapped(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _commands(entry: dict[str, Any]) -> set[str]:
    hooks = entry.get("hooks")
    entries = [one for one in hooks if isinstance(one, dict)] if isinstance(hooks, list) else []
    return {one["command"] for one in entries if isinstance(one.get("command"), str)}


def _is_ours(entry: Any) -> bool:
    """Whether it has our commands and none of somebody else."""
    commands = _commands(entry) if isinstance(entry, dict) else set()
    return bool(commands) and all(one.startswith(HOOK_PROGRAM) for one in commands)
