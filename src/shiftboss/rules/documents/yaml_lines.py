"""Reads YAML and keeps the line of every key, so that problems can be reported with their line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

KeyPath = tuple[str | int, ...]

CHARACTERS_MAX: Final = 1_000_000


class Problem(NamedTuple):
    line: int
    path: KeyPath
    message: str


@dataclass
class YamlDocument:
    """`lines` has the line of every key and list item; `problems` are errors in the YAML itself."""

    data: Any = None
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: KeyPath, message: str) -> Problem:
        """A problem at the line of `path`, or of the nearest key above it that exists."""
        above = path
        while above and above not in self.lines:
            above = above[:-1]
        return Problem(self.lines.get(above, 1), path, message)


def read_yaml(text: str) -> YamlDocument:
    """Never raises, whatever the text contains."""
    if len(text) > CHARACTERS_MAX:
        message = f"must have at most {CHARACTERS_MAX} characters"
        return YamlDocument(problems=[Problem(1, (), message)])
    # Most commands, and a server without a policy file, read none.
    from shiftboss.rules.documents.yaml_reader import read_document

    return read_document(text)
