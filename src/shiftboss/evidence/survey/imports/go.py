"""Imports of Go files: packages of the modules of the repo, each with all its files."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from shiftboss.evidence.survey.imports.repo_view import RepoView

SUFFIXES = (".go",)
_TOKEN = re.compile(
    r"""
    \s+|//[^\n]*|/\*.*?(?:\*/|\Z)
  | (?P<text>"(?:[^"\\\n]|\\.)*"|`[^`]*`)
  | (?P<word>\w+)
  | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_MODULE = re.compile(r"^\s*module\s+[\"`]?([^\s\"`]+)", re.MULTILINE)
# Imports come before everything else.
_DECLARATIONS = frozenset(("func", "var", "const", "type"))


def imported_by(path: str, text: str, repo: RepoView) -> set[str]:
    files: set[str] = set()
    for imported in _import_paths(text):
        folder = _folder_of(imported, repo)
        if folder is not None:
            files.update(_package_files(folder, repo))
    return files - {path}


def _import_paths(text: str) -> Iterator[str]:
    inside_import = in_brackets = False
    for token in _TOKEN.finditer(text):
        word, literal, mark = token.group("word"), token.group("text"), token.group("mark")
        if word in _DECLARATIONS and not in_brackets:
            return
        if word == "import" and not in_brackets:
            inside_import = True
        elif inside_import and literal:
            yield literal[1:-1]
            inside_import = in_brackets
        elif inside_import and mark in ("(", ")"):
            inside_import = in_brackets = mark == "("


def _folder_of(imported: str, repo: RepoView) -> str | None:
    """The package belongs to the module with the longest name that is a prefix of the path."""
    modules = repo.once(_modules)
    prefix = imported
    while prefix not in modules:
        prefix, slash, _ = prefix.rpartition("/")
        if not slash:
            return None
    return posixpath.join(modules[prefix], imported[len(prefix) + 1 :]).rstrip("/")


def _modules(repo: RepoView) -> dict[str, str]:
    """The folder of each module of the repo, by module name."""
    folders: dict[str, str] = {}
    for manifest in repo.named("go.mod"):
        if module := _MODULE.search(repo.read(manifest) or ""):
            folders.setdefault(module.group(1), posixpath.dirname(manifest))
    return folders


def _package_files(folder: str, repo: RepoView) -> list[str]:
    return [
        name
        for name in repo.by_folder.get(folder, ())
        if name.endswith(".go") and not name.endswith("_test.go")
    ]
