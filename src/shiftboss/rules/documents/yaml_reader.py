"""Reads the nodes of YAML, each with its line.

`yaml_lines` imports it when there is a text to read: the parser takes long to import.
"""

from __future__ import annotations

from typing import Any, Final

import yaml
from yaml.reader import ReaderError

from shiftboss.rules.documents.yaml_lines import KeyPath, Problem, YamlDocument

# Limits nested aliases, which can grow exponentially.
VALUES_MAX: Final = 100_000

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = f"{_TAG}merge"
_PLAIN: Final = {f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float")}
# Dates stay strings: no field is a date, and not every text that looks like one is valid.
_TEXTS: Final = {f"{_TAG}{kind}" for kind in ("str", "timestamp", "value")}


def read_document(text: str) -> YamlDocument:
    """Never raises."""
    loader = None
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        reader = _YamlReader(loader)
        reader.document.data = None if root is None else reader.value(root, ())
    except RecursionError:
        return YamlDocument(problems=[Problem(1, (), "is nested too deeply")])
    except _TooLarge:
        return YamlDocument(problems=[Problem(1, (), f"must have at most {VALUES_MAX} values")])
    except yaml.YAMLError as error:
        return YamlDocument(problems=[_syntax_problem(error, text)])
    finally:
        if loader is not None:
            loader.dispose()
    return reader.document


class _TooLarge(Exception):
    pass


class _YamlReader:
    def __init__(self, loader: yaml.SafeLoader) -> None:
        self._loader = loader
        self._open: list[yaml.Node] = []
        self._values = 0
        self.document = YamlDocument()

    def value(self, node: yaml.Node, path: KeyPath) -> Any:
        self._values += 1
        if self._values > VALUES_MAX:
            raise _TooLarge
        if any(node is parent for parent in self._open):
            self._report(node, path, "refers to itself")
            return None
        self._open.append(node)
        try:
            return self._value(node, path)
        finally:
            self._open.pop()

    def _value(self, node: yaml.Node, path: KeyPath) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return self._sequence(node, path)
        self._report(node, path, f"has the tag {node.tag}, which is not supported")
        return None

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged = self._merged(value_node, path) | merged
        own: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._report(key_node, path, "has a key that is not a string")
                continue
            # The key as written: `on`, `1.0` and `2026-01-01` are valid names.
            key = key_node.value
            here = (*path, key)
            if key in own:
                first = self.document.lines[here]
                self._report(key_node, here, f"is set twice; the first is on line {first}")
                continue
            self.document.lines[here] = _line(key_node)
            own[key] = self.value(value_node, here)
        return merged | own

    def _merged(self, node: yaml.Node, path: KeyPath) -> dict[str, Any]:
        """The first of several mappings wins. Keys of the mapping itself win over all of them."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for part in parts:
            value = self.value(part, path)
            if isinstance(value, dict):
                merged = value | merged
            else:
                self._report(part, (*path, "<<"), "must be a mapping or a list of mappings")
        return merged

    def _sequence(self, node: yaml.SequenceNode, path: KeyPath) -> list[Any]:
        items = []
        for index, item in enumerate(node.value):
            self.document.lines[(*path, index)] = _line(item)
            items.append(self.value(item, (*path, index)))
        return items

    def _scalar(self, node: yaml.Node, path: KeyPath) -> Any:
        # YAML 1.1 reads 15:00 as the number 900, which nobody means.
        if node.tag in _TEXTS or (node.tag in _PLAIN and ":" in node.value):
            return node.value
        if node.tag not in _PLAIN:
            self._report(node, path, f"has the tag {node.tag}, which is not supported")
            return None
        try:
            return self._loader.construct_object(node)
        except (ValueError, KeyError, yaml.YAMLError):
            self._report(node, path, "is not a valid value")
            return None

    def _report(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        self.document.problems.append(Problem(_line(node), path, message))


def _line(node: yaml.Node) -> int:
    mark = node.start_mark
    return 1 if mark is None else int(mark.line) + 1


def _syntax_problem(error: yaml.YAMLError, text: str) -> Problem:
    if isinstance(error, ReaderError):
        line = text.count("\n", 0, error.position) + 1
        return Problem(line, (), f"is not valid YAML: {error.reason}")
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    context = getattr(error, "context", None)
    message = f"{problem} {context}" if context else str(problem)
    return Problem(1 if mark is None else mark.line + 1, (), f"is not valid YAML: {message}")
