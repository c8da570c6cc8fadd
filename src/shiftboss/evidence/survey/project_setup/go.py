"""Criteria of Go modules."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from shiftboss.evidence.survey.imports.go import SUFFIXES
from shiftboss.evidence.survey.ownership import OwnedFiles, Project, command


def criteria(owned: OwnedFiles) -> Iterator[str]:
    for project in owned.projects(SUFFIXES, ("go.mod",)):
        place = ["-C", project.folder] if project.folder else []
        yield "Tests pass: " + command(["go", "test", *place], _packages(project))
        yield "Type check passes: " + command(["go", "vet", *place], ["./..."])


def _packages(project: Project) -> list[str]:
    """The packages of the owned files, with all below them, relative to the module."""
    start = len(project.folder) + 1 if project.folder else 0
    folders = {posixpath.dirname(name)[start:] for name in project.files}
    if not folders or "" in folders:
        return ["./..."]
    return [f"./{folder}/..." for folder in sorted(folders)]
