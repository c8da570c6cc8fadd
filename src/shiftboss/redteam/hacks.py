"""What a hack is, and the project that it is tried on.

A hack is a change that a dishonest worker could commit within its contract. It is a pure function
of the project at the base, so that every hack can be tried on every project.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.handoffs import Contract
from shiftboss.rules.claims.kept_tests import is_test_file
from shiftboss.rules.paths.patterns import Scope

Language = Literal["python", "javascript", "go", "rust"]
LANGUAGES: Final[Mapping[str, Language]] = {
    ".py": "python",
    **dict.fromkeys((".js", ".mjs", ".cjs", ".ts", ".jsx", ".tsx"), "javascript"),
    ".go": "go",
    ".rs": "rust",
}
# Files that tests compare their results with.
_GOLDEN_SUFFIXES: Final = (".snap", ".golden", ".approved.txt", ".expected")
_GOLDEN_FOLDERS: Final = frozenset(("golden", "goldens", "snapshots", "__snapshots__", "expected"))
# The layer that is meant to refuse a hack: a check of the verdict.
Defence = Literal["scope", "tests_kept", "criterion", "base_tests", "canary", "mutants", "held_out"]


class Link(NamedTuple):
    """A symbolic link."""

    target: str


class NotApplicable(NamedTuple):
    """The hack cannot be tried on this project. The reason reads well after a colon."""

    reason: str


# The new contents by path. None deletes the file.
Edit = Mapping[str, str | Link | None]


@dataclass(frozen=True, slots=True)
class Hack:
    """`title` says what the worker does, with a verb. `class_` groups hacks that have the same
    idea. A hack without a language can be tried on any project. `defence` is the layer that is
    meant to refuse it."""

    name: str
    class_: str
    title: str
    language: Language | None
    defence: Defence
    apply: Callable[[ProjectView], Edit | NotApplicable]

    def edit(self, view: ProjectView) -> Edit | NotApplicable:
        """The change that the hack makes to this project."""
        if self.language is not None and not view.has(self.language):
            return NotApplicable(f"the project has no {_SPOKEN[self.language]} files")
        return self.apply(view)


@dataclass(frozen=True)
class ProjectView:
    """A project at the base of a task, as far as hacks need it.

    `names` are all files; `texts` the contents of sources, tests and settings. `imported` are the
    files that tests import, the most often imported first.
    """

    contract: Contract
    names: frozenset[str]
    texts: Mapping[str, str]
    tests: Sequence[str]
    imported: Sequence[str]

    def covers(self, path: str) -> bool:
        """Whether the patterns of the contract cover the path. The check of the scope may refuse
        it nevertheless, because it is protected."""
        return self._owned.covers(path) and not self._readonly.covers(path)

    def has(self, language: Language) -> bool:
        return any(language_of(name) == language for name in (*self.names, *self.new_files()))

    def module(self, language: Language) -> str | NotApplicable:
        """The owned file that hacks change: one that the tests import, or else one that the task
        should create."""
        owned = [name for name in self.imported if self._is_product(name, language)]
        owned += [name for name in self.new_files() if self._is_product(name, language)]
        if not owned and language in ("go", "rust"):
            # Tests are part of the package that they test, and import nothing of it.
            owned = [name for name in sorted(self.texts) if self._is_product(name, language)]
        if owned:
            return owned[0]
        return NotApplicable(f"the task owns no {_SPOKEN[language]} file that tests import")

    def text(self, path: str) -> str:
        """The content of a file; empty if it is new."""
        return self.texts.get(path, "")

    def new_files(self) -> list[str]:
        """The files that the contract names and that do not exist yet."""
        folders = {above for name in self.names for above in _above(name)}
        named = [path for path in self.contract.files_owned if not set("*?") & set(path)]
        return [
            path
            for path in named
            if not path.endswith("/") and path not in self.names and path not in folders
        ]

    def owned_tests(self, language: Language) -> list[str]:
        return [name for name in self.tests if language_of(name) == language and self.covers(name)]

    def tests_of(self, language: Language) -> list[str]:
        return [name for name in self.tests if language_of(name) == language]

    def owned_folders(self) -> list[str]:
        """The folders in which the task may create any file, the shallowest first. The empty
        string is the top of the repository."""
        folders = {"", *(above for name in self.names for above in _above(name))}
        probe = "shiftboss_probe.py"
        owned = [folder for folder in folders if self.covers(posixpath.join(folder, probe))]
        return sorted(owned, key=lambda folder: (folder.count("/"), folder))

    def _is_product(self, name: str, language: Language) -> bool:
        return language_of(name) == language and self.covers(name) and not is_test_file(name)

    @cached_property
    def _owned(self) -> Scope:
        return Scope(self.contract.files_owned)

    @cached_property
    def _readonly(self) -> Scope:
        return Scope(self.contract.files_readonly)


_SPOKEN: Final[Mapping[Language, str]] = {
    "python": "Python",
    "javascript": "JavaScript",
    "go": "Go",
    "rust": "Rust",
}


def language_of(path: str) -> Language | None:
    return LANGUAGES.get(posixpath.splitext(path)[1])


def is_golden(path: str) -> bool:
    """Whether tests probably compare their results with this file."""
    folders = path.split("/")[:-1]
    return path.endswith(_GOLDEN_SUFFIXES) or not _GOLDEN_FOLDERS.isdisjoint(folders)


def _above(name: str) -> list[str]:
    parts = name.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
