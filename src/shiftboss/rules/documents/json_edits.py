"""Adding to a JSON text and removing it again, without changing any other byte.

An addition goes behind the last value of its object or list. An object that is created for it has a
space before its closing bracket; an empty object that was there gets none. This is how a later
removal knows which objects to remove with their contents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()
_COMMENT_OR_COMMA: Final = re.compile(
    r'"(?:[^"\\]|\\.)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL
)


class NotJson(Exception):
    """`line` counts from 1. `has_comments`: it is JSON but for comments or trailing commas."""

    def __init__(self, reason: str, line: int, *, has_comments: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.has_comments = has_comments


@dataclass(slots=True, eq=False)
class Node:
    """A value and its place in the text, from `start` to `end`. `members` are those of an object,
    `items` those of a list. Of two members of the same name the last one counts, as in any JSON
    parser."""

    value: Any
    start: int
    end: int
    members: dict[str, Node] = field(default_factory=dict)
    items: list[Node] = field(default_factory=list)
    # For a member: where its name begins.
    name_start: int = 0

    @property
    def inner(self) -> list[Node]:
        return self.items or list(self.members.values())


def read_json(text: str) -> Node:
    """Parse a text together with the places of its values. Raises NotJson."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        has_comments = value_with_comments(text) is not None
        raise NotJson(error.msg, error.lineno, has_comments=has_comments) from error
    except RecursionError as error:
        raise NotJson("the brackets are nested too deeply", 1) from error
    except ValueError as error:
        raise NotJson("a number has too many digits", 1) from error
    return _value(text, _after_space(text, 0))


def value_with_comments(text: str) -> Any:
    """The value of a JSON text in which comments and trailing commas are allowed; None if it is
    invalid even so."""
    # Twice: there may be a comment between the comma and the bracket.
    for _ in range(2):
        text = _COMMENT_OR_COMMA.sub(_blank, text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _blank(piece: re.Match[str]) -> str:
    return piece.group() if piece.group().startswith('"') else " "


def _value(text: str, at: int) -> Node:
    """The text has to be valid JSON."""
    if text[at] == "{":
        return _object(text, at)
    if text[at] == "[":
        return _list(text, at)
    value, end = _DECODER.raw_decode(text, at)
    return Node(value, at, end)


def _object(text: str, start: int) -> Node:
    node = Node({}, start, start)
    for at in _part_starts(text, start, node):
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
    for at in _part_starts(text, start, node):
        item = _value(text, at)
        item.name_start = at
        node.items.append(item)
        node.value.append(item.value)
        node.end = item.end
    return _closed(text, node)


def _part_starts(text: str, start: int, node: Node) -> Iterator[int]:
    """Where the parts of an object or a list begin. The caller keeps `node.end` at the end of the
    last one."""
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
    """The value at `path` is not an object, or not a list, as it has to be."""

    def __init__(self, path: Sequence[str], wanted: str) -> None:
        super().__init__(f"{'.'.join(path) or 'the file'} is not {wanted}")
        self.reason = str(self)


def fresh(value: Any) -> str:
    """The text of a new file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def set_member(text: str, path: Sequence[str], value: Any) -> str:
    """Add a member to an object, unless the object has it; `path` ends with its name."""
    return _added(text, path[:-1], "an object", path[-1], value)


def append_item(text: str, path: Sequence[str], value: Any) -> str:
    """Append a value to the list at `path`."""
    return _added(text, path, "a list", None, value)


def _added(text: str, path: Sequence[str], kind: str, name: str | None, value: Any) -> str:
    node = read_json(text)
    for depth, step in enumerate(path):
        _check(node, "an object", path[:depth])
        if step not in node.members:
            rest = path[depth + 1 :]
            last = [value] if name is None else {name: value}
            for parent in reversed(rest):
                last = {parent: last}
            return _insert(text, node, depth, step, last)
        node = node.members[step]
    _check(node, kind, path)
    if name is not None and name in node.members:
        return text
    return _insert(text, node, len(path), name, value)


def _check(node: Node, kind: str, path: Sequence[str]) -> None:
    if not isinstance(node.value, dict if kind == "an object" else list):
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
    """With a space inside its brackets, see the module's docstring."""
    if isinstance(value, dict) and value:
        inner = (f"{json.dumps(key)}: {_on_one_line(item)}" for key, item in value.items())
        return "{ " + ", ".join(inner) + " }"
    if isinstance(value, list) and value:
        return "[ " + ", ".join(map(_on_one_line, value)) + " ]"
    return json.dumps(value, ensure_ascii=False)


def _unit(text: str) -> str:
    indented = _INDENTED.search(text)
    return indented[1] if indented else "  "


def _margin(text: str, node: Node, usual: str) -> str:
    """The indentation of the other parts of the object."""
    begins = node.inner[-1].name_start
    line = text[text.rfind("\n", 0, begins) + 1 : begins]
    return line if not line.strip() else usual


def remove_member(text: str, path: Sequence[str], is_ours: Callable[[Any], bool]) -> str | None:
    """Remove the member at `path` if it is ours, and the objects that were created for it. None:
    nothing is left of the file."""
    return _removed(text, path, is_ours)


def remove_items(text: str, path: Sequence[str], is_ours: Callable[[Any], bool]) -> str | None:
    """Remove items of the list at `path` in the same way."""
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
    """From the inside out, as long as an empty object of ours is left."""
    node = _find(read_json(text), path)
    if node is None or not is_ours(node.value):
        return text
    for depth in range(len(path) - 1, -1, -1):
        parent = _find(read_json(text), path[:depth])
        assert parent is not None
        left = _cut(text, parent, parent.members[path[depth]])
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
    """None: the object or list was created for this part alone."""
    parts = node.inner
    at = parts.index(part)
    if at > 0:
        return text[: parts[at - 1].end] + text[part.end :]
    if len(parts) > 1:
        return text[: part.name_start] + text[parts[1].name_start :]
    if text[part.end : node.end - 1]:
        return None
    return text[: part.name_start] + text[part.end :]
