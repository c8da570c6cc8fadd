"""The files that a task may read but not change: what its own files import."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from shiftboss.evidence.imports import go, javascript, python, rust
from shiftboss.evidence.imports.repo_view import RepoView
from shiftboss.evidence.ownership import Ownership

FILES_MAX = 200
NAME_CHARACTERS_MAX = 1000

_LANGUAGES = (python, javascript, go, rust)
_IMPORTED_BY: dict[str, Callable[[str, str, RepoView], set[str]]] = {
    suffix: language.imported_by for language in _LANGUAGES for suffix in language.SUFFIXES
}


def is_source(path: str) -> bool:
    """Whether the file is in a language whose imports are understood."""
    return posixpath.splitext(path)[1] in _IMPORTED_BY


def readonly_files(owned: Ownership) -> list[str]:
    """What the owned files import and the task does not own. Of too many, the nearest are kept."""
    distances: dict[str, int] = {}
    for path in sorted(filter(is_source, owned.existing)):
        for name in _imported_by(path, owned.repo) - owned.existing:
            if _can_be_listed(name):
                distances[name] = min(_distance(path, name), distances.get(name, len(name)))
    nearest = sorted(distances, key=lambda name: (distances[name], name))
    return sorted(nearest[:FILES_MAX])


def _imported_by(path: str, repo: RepoView) -> set[str]:
    text = repo.read(path)
    return set() if text is None else _IMPORTED_BY[posixpath.splitext(path)[1]](path, text, repo)


def _can_be_listed(name: str) -> bool:
    """In a contract a star stands for other names, too."""
    return not set("*?") & set(name) and len(name) <= NAME_CHARACTERS_MAX


def _distance(path: str, other: str) -> int:
    """The steps from one folder to the other."""
    here, there = posixpath.dirname(path), posixpath.dirname(other)
    if here == there:
        return 0
    left, right = here.split("/"), there.split("/")
    shared = len(posixpath.commonprefix([left, right]))
    return len(left) + len(right) - 2 * shared
