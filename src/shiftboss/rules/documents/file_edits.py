"""Adding something to a file that belongs to somebody else, and removing it again.

Text in, text out: nothing here reads or writes a file.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from shiftboss.rules.documents.json_edits import (
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
from shiftboss.rules.documents.text_blocks import (
    HASH,
    BrokenBlock,
    Markers,
    find_block,
    is_untouched,
    with_block,
    without_block,
)

_HOOK_PROGRAM: Final = "shiftboss hook "
# The settings are committed: a colleague without the program must not notice them.
_IF_INSTALLED: Final = "sh -c 'command -v shiftboss >/dev/null 2>&1 || exit 0; exec "


def hook_command(kind: str) -> str:
    """Runs `shiftboss hook KIND`, or nothing where Shiftboss is not installed."""
    return f"{_IF_INSTALLED}{_HOOK_PROGRAM}{kind}'"


class CannotMerge(Exception):
    """The file cannot be changed automatically. `line` counts from 1; `by_hand` says what to do."""

    def __init__(self, reason: str, line: int | None = None, by_hand: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.by_hand = by_hand


class FileEdit(Protocol):
    """What one file should contain. `None` stands for a missing file."""

    @property
    def name(self) -> str: ...

    def has_ours(self, text: str) -> bool:
        """Whether the file contains something that a removal would take out."""

    def with_ours(self, text: str | None) -> str | None:
        """The text with our part; the same text if it is there already. None: the file is to be
        removed, or to stay away."""

    def without_ours(self, text: str) -> str | None:
        """The text without our part; None if nothing is left of the file."""

    def is_left(self, text: str) -> bool:
        """Whether the file still has our part after a removal, because somebody has changed it."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a JSON object. If there is one of the same name, it is left as it is; with
    `replaces`, it is replaced if that says so of its value, and refused if not. `is_ours` tells
    which other values a removal takes out."""

    path: tuple[str, ...]
    value: Any
    is_ours: Callable[[Any], bool] = lambda _: False
    replaces: Callable[[Any], bool] | None = None

    def is_in(self, data: Any) -> bool:
        if not self._is_present(data):
            return False
        return self.replaces is None or bool(_member(data, self.path) == self.value)

    def _is_present(self, data: Any) -> bool:
        parent = _member(data, self.path[:-1])
        return isinstance(parent, dict) and self.path[-1] in parent

    def is_ours_in(self, data: Any) -> bool:
        return self._is_present(data) and self._is_removable(_member(data, self.path))

    def _is_removable(self, value: Any) -> bool:
        return bool(value == self.value) or self.is_ours(value)

    def added(self, text: str) -> str:
        data = value_with_comments(text)
        if self.replaces is None or not self._is_present(data):
            return set_member(text, self.path, self.value)
        if not self.replaces(_member(data, self.path)):
            name = ".".join(self.path)
            raise CannotMerge(f"{name} was changed by hand", None, "remove it first")
        rest = remove_member(text, self.path, lambda _: True)
        return fresh(self.shown()) if rest is None else set_member(rest, self.path, self.value)

    def removed(self, text: str) -> str | None:
        return remove_member(text, self.path, self._is_removable)

    def shown(self) -> Any:
        return _wrapped(self.path, self.value)


@dataclass(frozen=True, slots=True)
class HookEntry:
    """An entry in a list of hooks. It is present if its command is, whatever else the entry has.
    Adding it replaces an older version of it, unless a user has put other commands beside it."""

    path: tuple[str, ...]
    value: dict[str, Any]

    def is_in(self, data: Any) -> bool:
        entries = _member(data, self.path)
        return isinstance(entries, list) and any(
            self._is_like(entry) for entry in entries if isinstance(entry, dict)
        )

    def _is_like(self, entry: dict[str, Any]) -> bool:
        wanted, commands = _commands(self.value), _commands(entry)
        if wanted <= commands:
            return True
        return not _is_ours(entry) and set(map(_plain, wanted)) <= set(map(_plain, commands))

    def is_ours_in(self, data: Any) -> bool:
        entries = _member(data, self.path)
        return isinstance(entries, list) and any(map(_is_ours, entries))

    def added(self, text: str) -> str:
        rest = self.removed(text)
        if rest is None:
            return fresh(self.shown())
        return append_item(rest, self.path, self.value)

    def removed(self, text: str) -> str | None:
        return remove_items(text, self.path, _is_ours)

    def shown(self) -> Any:
        return _wrapped(self.path, [self.value])


@dataclass(frozen=True, slots=True)
class JsonFile:
    name: str
    parts: Sequence[Member | HookEntry]

    def has_ours(self, text: str) -> bool:
        data = value_with_comments(text)
        return any(part.is_ours_in(data) for part in self.parts)

    def with_ours(self, text: str | None) -> str:
        if text is None:
            return self._added(fresh(self.parts[0].shown()), self.parts[1:])
        missing = [part for part in self.parts if not part.is_in(value_with_comments(text))]
        return self._added(text, missing)

    def _added(self, text: str, parts: Sequence[Member | HookEntry]) -> str:
        try:
            for part in parts:
                text = part.added(text)
        except NotJson as error:
            raise self._refused(error, "add", [part.shown() for part in parts]) from error
        except WrongKind as error:
            raise CannotMerge(error.reason) from error
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
            raise self._refused(error, "remove", [part.shown() for part in ours]) from error
        return left

    def is_left(self, text: str) -> bool:
        return any(part.is_in(value_with_comments(text)) for part in self.parts)

    def _refused(self, error: NotJson, action: str, parts: Sequence[Any]) -> CannotMerge:
        if error.has_comments:
            by_hand = f"{action} by hand: {' and '.join(map(json.dumps, parts))}"
            return CannotMerge("has comments or trailing commas", error.line, by_hand)
        return CannotMerge(f"is not valid JSON: {error.reason}", error.line, "fix the file first")


@dataclass(frozen=True, slots=True)
class BlockFile:
    """Lines between markers. `is_present`: whether the rest of the file already says the same."""

    name: str
    lines: Sequence[str]
    markers: Markers = HASH
    is_present: Callable[[str], bool] = lambda _: False

    def has_ours(self, text: str) -> bool:
        return self._span(text) is not None

    def with_ours(self, text: str | None) -> str:
        if text is not None and self._span(text) is None and self.is_present(text):
            return text
        return with_block(text, self.lines, self.markers)

    def without_ours(self, text: str) -> str | None:
        self._span(text)
        return without_block(text, self.markers)

    def is_left(self, text: str) -> bool:  # noqa: ARG002 -- everything between the markers is ours
        return False

    def _span(self, text: str) -> tuple[int, int] | None:
        try:
            return find_block(text, self.markers)
        except BrokenBlock as error:
            raise CannotMerge(
                error.reason, error.line, "fix the markers, or remove both"
            ) from error


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A table in a block of its own. `path` is the name of the table. `is_kept` tells which tables
    of an earlier block are left as they are."""

    name: str
    path: tuple[str, ...]
    lines: Sequence[str]
    is_kept: Callable[[Any], bool] = lambda _: False

    @property
    def _block(self) -> BlockFile:
        return BlockFile(self.name, self.lines, is_present=self._is_present)

    def has_ours(self, text: str) -> bool:
        return self._block.has_ours(text)

    def with_ours(self, text: str | None) -> str:
        member = _member(self._parsed(text or ""), self.path)
        if text is not None and self.has_ours(text) and member is not None and self.is_kept(member):
            return text
        added = self._block.with_ours(text)
        try:
            self._parsed(added)
        except CannotMerge as error:
            by_hand = f"add the same settings by hand: {' '.join(self.lines)}"
            raise CannotMerge("cannot take another table at its end", None, by_hand) from error
        return added

    def without_ours(self, text: str) -> str | None:
        return self._block.without_ours(text)

    def is_left(self, text: str) -> bool:
        return self._is_present(text)

    def _is_present(self, text: str) -> bool:
        return _member(self._parsed(text), self.path) is not None

    def _parsed(self, text: str) -> Any:
        try:
            return tomllib.loads(text.replace("\r\n", "\n"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise CannotMerge(f"is not valid TOML: {error}", None, "fix the file first") from error


@dataclass(frozen=True, slots=True)
class WholeFile:
    """A file of our own, with a seal. `is_renewed`: an older version of it is replaced."""

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


@dataclass(frozen=True, slots=True)
class FormerFile:
    """A file of our own that has another name now: one that nobody has changed is removed."""

    name: str
    comment: str

    def has_ours(self, text: str) -> bool:
        return is_untouched(text, self.comment)

    def with_ours(self, text: str | None) -> str | None:
        return None if text is None else self.without_ours(text)

    def without_ours(self, text: str) -> str | None:
        return None if self.has_ours(text) else text

    def is_left(self, text: str) -> bool:
        return not self.has_ours(text)


def _member(data: Any, path: Sequence[str]) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _wrapped(path: Sequence[str], value: Any) -> Any:
    for name in reversed(path):
        value = {name: value}
    return value


def _commands(entry: dict[str, Any]) -> set[str]:
    hooks = entry.get("hooks")
    entries = [hook for hook in hooks if isinstance(hook, dict)] if isinstance(hooks, list) else []
    return {hook["command"] for hook in entries if isinstance(hook.get("command"), str)}


def _is_ours(entry: Any) -> bool:
    """Whether all commands of the entry are ours."""
    commands = _commands(entry) if isinstance(entry, dict) else set()
    return bool(commands) and all(map(_is_our_command, commands))


def _is_our_command(command: str) -> bool:
    return _plain(command).startswith(_HOOK_PROGRAM)


def _plain(command: str) -> str:
    """`shiftboss hook KIND` for every form of the command that `init` has ever written."""
    if not command.startswith(_IF_INSTALLED):
        return command
    return command.removeprefix(_IF_INSTALLED).removesuffix("'")
