"""The property of a task at its base commit: files, and the projects that they belong to."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from shiftboss.evidence.survey.imports.repo_view import RepoView
from shiftboss.rules.paths.patterns import Scope

PROJECTS_MAX = 5
# A longer command names folders instead of files.
COMMAND_CHARACTERS_MAX = 1000


class Project(NamedTuple):
    """The folder of a manifest, and the owned files of one language that belong to it."""

    folder: str
    files: list[str]


class OwnedFiles:
    """`existing` are the files that the patterns cover; `files` also has new files, which the
    patterns name in full."""

    def __init__(self, patterns: Sequence[str], existing: Iterable[str], repo: RepoView) -> None:
        self.repo = repo
        self.existing = frozenset(existing)
        literal = [pattern for pattern in patterns if not set("*?") & set(pattern)]
        new = {path for path in literal if posixpath.splitext(path)[1]}
        self.files = sorted(self.existing | {path for path in new if not self._is_folder(path)})
        # Folders without files: their language is not known.
        self.new_folders = sorted(
            {path.rstrip("/") for path in literal if path not in self.files}
            - {above for name in self.existing for above in _parents(name)}
        )

    def _is_folder(self, name: str) -> bool:
        return name.endswith("/") or name in self.repo.by_folder

    def projects(self, suffixes: Sequence[str], manifests: Sequence[str]) -> list[Project]:
        """The projects with such a manifest in which the task owns files with such a suffix."""
        files_by_folder: dict[str, list[str]] = {}
        for name in self.files:
            manifest = self.repo.nearest(posixpath.dirname(name), *manifests)
            if name.endswith(tuple(suffixes)) and manifest is not None:
                files_by_folder.setdefault(posixpath.dirname(manifest), []).append(name)
        for folder in self.new_folders:
            manifest = self.repo.nearest(folder, *manifests)
            if manifest is not None:
                files_by_folder.setdefault(posixpath.dirname(manifest), [])
        return [Project(*item) for item in sorted(files_by_folder.items())[:PROJECTS_MAX]]


def covered(patterns: Sequence[str], names: Iterable[str]) -> list[str]:
    scope = Scope(patterns)
    return [name for name in names if scope.covers(name)]


def below(folder: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if not folder or name.startswith(f"{folder}/")]


def command(argv: Sequence[str], paths: Sequence[str]) -> str:
    """A command line with the paths as arguments; with their folders, if there are too many."""
    # A path that begins with a dash must not be taken for an option.
    paths = [f"./{path}" if path.startswith("-") else path for path in paths]
    line = shlex.join([*argv, *paths])
    if len(line) <= COMMAND_CHARACTERS_MAX:
        return line
    folders = sorted({posixpath.dirname(path) or "." for path in paths})
    tops = [folder for folder in folders if not any(above in folders for above in _parents(folder))]
    line = shlex.join([*argv, *tops])
    return line if len(line) <= COMMAND_CHARACTERS_MAX else shlex.join([*argv, "."])


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
