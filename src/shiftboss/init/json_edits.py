"""Adding to a JSON text and taking it out again, with every other byte as it was.

What is added stands behind the last value of its object or list. An object that is made for it has
space in front of its closing bracket; one that was there and empty gets none. By that a later
removal knows which objects go with what was in them, without keeping notes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from shiftboss.init.json_spans import Node, read_json

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
