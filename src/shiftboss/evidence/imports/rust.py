"""What a Rust file names: its modules, and paths into its own crate and those of the workspace."""

from __future__ import annotations

import posixpath

from shiftboss.evidence.imports.cargo import Crate, crate_of, libraries, library_of
from shiftboss.evidence.imports.repo_view import RepoView, joined
from shiftboss.evidence.imports.rust_paths import NamedPath, named_paths

SUFFIXES = (".rs",)


def imported_by(path: str, text: str, repo: RepoView) -> set[str]:
    """The deepest module on each path that is named; an item lies in the file of its module."""
    crate = crate_of(path, repo)
    found: set[str] = set()
    for named in named_paths(text, crate.module_of(path)):
        if named.segments[0].startswith('"'):
            file = joined(posixpath.dirname(path), named.segments[0].strip('"'))
            found |= {file or ""} & repo.files
        else:
            found |= _files_of(named, crate, repo)
    return found - {path}


def _files_of(named: NamedPath, crate: Crate, repo: RepoView) -> set[str]:
    module, (first, *rest) = named
    if first == "crate":
        module = crate.folder
    elif first == "super":
        module = posixpath.dirname(module)
        while rest[:1] == ["super"]:
            module, rest = posixpath.dirname(module), rest[1:]
    elif first != "self":
        child = posixpath.join(module, first)
        package = libraries(crate.package, repo).get(first)
        if crate.files_of(child, repo):
            module = child
        elif package is not None:
            crate = library_of(package, repo)
            module = crate.folder
        else:
            return set()
    for segment in rest:
        child = posixpath.join(module, segment)
        if not crate.files_of(child, repo):
            break
        module = child
    return crate.files_of(module, repo)
