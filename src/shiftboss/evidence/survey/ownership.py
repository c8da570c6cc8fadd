"""What a task owns at the commit on which it begins: files, and the projects they are in."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shiftboss.evidence.survey.imports.repo_view import RepoView
from shiftboss.rules.paths.patterns import Scope

PROJECTS_MAX = 5
# Longer commands name the folders instead of the files.
COMMAND_CHARACTERS_MAX = 1000


class Project(NamedTuple):
    """The folder of a manifest, and the owned files of one language that belong to it."""

    folder: str
    files: list[str]


class OwnedFiles:
    """`existing` are the files that the patterns cover; `files` has also those that they announce
    by their full names."""

    def __init__(self, patterns: Sequence[str], existing: Iterable[str], repo: RepoView) -> None:
        self.repo = repo
        self.existing = frozenset(existing)
        literal = [one for one in patterns if not set("*?") & set(one)]
        announced = {one for one in literal if posixpath.splitext(one)[1]}
        self.files = sorted(self.existing | {one for one in announced if not self._is_folder(one)})
        # Folders in which there is nothing yet: their language is not known.
        self.new_folders = sorted(
            {one.rstrip("/") for one in literal if one not in self.files}
            - {above for name in self.existing for above in _parents(name)}
        )

    def _is_folder(self, name: str) -> bool:
        return name.endswith("/") or name in self.repo.by_folder

    def projects(self, suffixes: Sequence[str], manifests: Sequence[str]) -> list[Project]:
        """The projects of such manifests in which files of such a language are owned."""
        found: dict[str, list[str]] = {}
        for name in self.files:
            manifest = self.repo.nearest(posixpath.dirname(name), *manifests)
            if name.endswith(tuple(suffixes)) and manifest is not None:
                found.setdefault(posixpath.dirname(manifest), []).append(name)
        for folder in self.new_folders:
            manifest = self.repo.nearest(folder, *manifests)
            if manifest is not None:
                found.setdefault(posixpath.dirname(manifest), [])
        return [Project(*item) for item in sorted(found.items())[:PROJECTS_MAX]]


def covered(patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    scope = Scope(patterns)
    return [name for name in names if scope.covers(name)]


def below(folder: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if not folder or name.startswith(f"{folder}/")]


def command(words: Sequence[str], paths: Sequence[str]) -> str:
    """A command line about some paths; about their folders, when there are too many."""
    # A name that begins with a dash must not be read as an option.
    paths = [f"./{path}" if path.startswith("-") else path for path in paths]
    line = shlex.join([*words, *paths])
    if len(line) <= COMMAND_CHARACTERS_MAX:
        return line
    folders = sorted({posixpath.dirname(path) or "." for path in paths})
    tops = [one for one in folders if not any(above in folders for above in _parents(one))]
    line = shlex.join([*words, *tops])
    return line if len(line) <= COMMAND_CHARACTERS_MAX else shlex.join([*words, "."])


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
