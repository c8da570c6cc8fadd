"""Adding to a JSON text and taking it out again, with every other byte as it was.

What is added stands behind the last value of its object or list. An object that is made for it has
space in front of its closing bracket; one that was there and empty gets none. By that a later
removal knows which objects go with what was in them, without keeping notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

# JSON that knows where its values stand, so that a file can be changed and all else in it kept.


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


_INDENTED: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class WrongKind(Exception):
    """At `path` there is something else than an object or a list, as is needed there."""

    def __init__(self, path: Sequence[str], wanted: str) -> None:
        super().__init__(f"{'.'.join(path) or 'the whole'} is no {wanted}")
        self.words = str(self)


def fresh(value: Any) -> str:
    """A new file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """Give the object at the front of `path` its last name, unless it has it."""
    return _added(text, path[:-1], "object", path[-1], value)


def append_item(text: str, path: Sequence[str], value: Any) -> str:
    """Put the value at the end of the list at `path`."""
    return _added(text, path, "list", None, value)


def _added(text: str, path: Sequence[str], kind: str, name: str | None, value: Any) -> str:
    node = read_json(text)
    for depth, step in enumerate(path):
        _check(node, "object", path[:depth])
        if step not in node.members:
            rest = path[depth + 1 :]
            last = [value] if name is None else {name: value}
            for one in reversed(rest):
                last = {one: last}
            return _insert(text, node, depth, step, last)
        node = node.members[step]
    _check(node, kind, path)
    if name is not None and name in node.members:
        return text
    return _insert(text, node, len(path), name, value)


def _check(node: Node, kind: str, path: Sequence[str]) -> None:
    if not isinstance(node.value, dict if kind == "object" else list):
        raise WrongKind(path, kind)


def _insert(text: str, node: Node, depth: int, name: str | None, value: Any) -> str:
    label = "" if name is None else f"{json.dumps(name, ensure_ascii=False)}: "
    if not node.inner:
        at = node.end - 1
        return text[:at] + label + _on_one_line(value) + text[at:]
    at = node.inner[-1].end
    if "\n" not in text[node.start : node.end]:
        return f"{text[:at]}, {label}{_on_one_line(value)}{text[at:]}"
    newline = "\r\n" if "\r\n" in text else "\n"
    unit = _unit(text)
    margin = newline + _margin(text, node, unit * (depth + 1))
    written = json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", margin)
    return f"{text[:at]},{margin}{label}{written}{text[at:]}"


def _on_one_line(value: Any) -> str:
    """With space inside of its brackets, see above."""
    if isinstance(value, dict) and value:
        inner = (f"{json.dumps(key)}: {_on_one_line(one)}" for key, one in value.items())
        return "{ " + ", ".join(inner) + " }"
    if isinstance(value, list) and value:
        return "[ " + ", ".join(map(_on_one_line, value)) + " ]"
    return json.dumps(value, ensure_ascii=False)


def _unit(text: str) -> str:
    found = _INDENTED.search(text)
    return found[1] if found else "  "


def _margin(text: str, node: Node, usual: str) -> str:
    """How far the other parts of the object stand from the left."""
    begins = node.inner[-1].name_start
    line = text[text.rfind("\n", 0, begins) + 1 : begins]
    return line if not line.strip() else usual


def remove_member(text: str, path: Sequence[str], is_ours: Callable[[Any], bool]) -> str | None:
    """Without the member at `path` if it is ours, and without objects that were made for it. None:
    nothing is left of the file."""
    return _removed(text, path, is_ours)


def remove_items(text: str, path: Sequence[str], is_ours: Callable[[Any], bool]) -> str | None:
    """The same of items of the list at `path`."""
    while True:
        node = _find(read_json(text), path)
        ours = [item for item in (node.items if node else []) if is_ours(item.value)]
        if not ours:
            return text
        assert node is not None
        left = _cut(text, node, ours[-1])
        if left is None:
            return _removed(text, path, lambda _: True)
        text = left


def _removed(text: str, path: Sequence[str], is_ours: Callable[[Any], bool]) -> str | None:
    """From the inside out, as long as what is left is an empty object of our making."""
    node = _find(read_json(text), path)
    if node is None or not is_ours(node.value):
        return text
    for depth in range(len(path) - 1, -1, -1):
        above = _find(read_json(text), path[:depth])
        assert above is not None
        left = _cut(text, above, above.members[path[depth]])
        if left is not None:
            return left
    return None


def _find(node: Node, path: Sequence[str]) -> Node | None:
    for step in path:
        if step not in node.members:
            return None
        node = node.members[step]
    return node


def _cut(text: str, node: Node, part: Node) -> str | None:
    """None: the object, or list, was made for the part alone."""
    parts = node.inner
    at = parts.index(part)
    if at > 0:
        return text[: parts[at - 1].end] + text[part.end :]
    if len(parts) > 1:
        return text[: part.name_start] + text[parts[1].name_start :]
    if text[part.end : node.end - 1]:
        return None
    return text[: part.name_start] + text[part.end :]
