"""JSON that knows where its values stand, so that a file can be changed and all else in it kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()
_COMMENT_OR_COMMA: Final = re.compile(
    r'"(?:[^"\\]|\\.)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)


class NotJson(Exception):
    """`line` counts from 1. `has_comments`: it would be JSON without comments and last commas."""

    def __init__(self, words: str, line: int, *, has_comments: bool = False) -> None:
        super().__init__(words)
        self.words = words
        self.line = line
        self.has_comments = has_comments


@dataclass(slots=True, eq=False)
class Node:
    """A value from `start` to `end`. `members` are those of an object, `items` those of a list; of
    a name that stands twice the last one counts, as for everybody who reads the file."""

    value: Any
    start: int
    end: int
    members: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    # Of a member: where its name begins.
    name_start: int = 0

    @property
    def inner(self) -> list[Node]:
        return self.items or list(self.members.values())


def read_json(text: str) -> Node:
    """Raises NotJson."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        has_comments = _without_comments(text) is not None
        raise NotJson(error.msg, error.lineno, has_comments=has_comments) from error
    except RecursionError as error:
        raise NotJson("too many brackets", 1) from error
    return _value(text, _after_space(text, 0))


def value_with_comments(text: str) -> Any:
    """What somebody reads who allows comments and last commas; None if it is no JSON even so."""
    return _without_comments(text)


def _without_comments(text: str) -> Any:
    # Twice: a comment may stand between the comma and the bracket.
    for _ in range(2):
        text = _COMMENT_OR_COMMA.sub(_blank, text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _blank(piece: re.Match[str]) -> str:
    return piece.group() if piece.group().startswith('"') else " "


def _value(text: str, at: int) -> Node:
    """The text is known to be JSON."""
    if text[at] == "{":
        return _object(text, at)
    if text[at] == "[":
        return _list(text, at)
    value, end = _DECODER.raw_decode(text, at)
    return Node(value, at, end)


def _object(text: str, start: int) -> Node:
    node = Node({}, start, start)
    for at in _places(text, start, node):
        name, end = _DECODER.raw_decode(text, at)
        colon = _after_space(text, end)
        member = _value(text, _after_space(text, colon + 1))
        member.name_start = at
        node.members.pop(name, None)  # so that the order is that of the text
        node.members[name] = member
        node.value[name] = member.value
        node.end = member.end
    return _closed(text, node)


def _list(text: str, start: int) -> Node:
    node = Node([], start, start)
    for at in _places(text, start, node):
        item = _value(text, at)
        item.name_start = at
        node.items.append(item)
        node.value.append(item.value)
        node.end = item.end
    return _closed(text, node)


def _places(text: str, start: int, node: Node) -> Iterator[int]:
    """Where the parts of an object or a list begin; `node.end` is the end of the last one."""
    at = _after_space(text, start + 1)
    while text[at] not in "}]":
        yield at
        at = _after_space(text, node.end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _closed(text: str, node: Node) -> Node:
    inside = node.end if node.inner else node.start + 1
    node.end = _after_space(text, inside) + 1
    return node


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None
    return space.end()
