"""Imports of Python files, from the syntax tree."""

from __future__ import annotations

import ast
import posixpath
import sys
from collections.abc import Iterator

from shiftboss.evidence.survey.imports.repo_view import RepoView, self_and_above
from shiftboss.rules.claims.test_scanners.python import parse_python

SUFFIXES = (".py", ".pyi", ".pyw")
_MODULE_SUFFIXES = (".py", ".pyi")
_SOURCE_FOLDERS = ("src", "lib", "python")


def imported_by(path: str, text: str, repo: RepoView) -> set[str]:
    """The modules that the file names, without the `__init__.py` files above them."""
    tree = _parsed(text)
    if tree is None:
        return set()
    files: set[str] = set()
    for node in ast.walk(tree):
        for level, module, names in _imports_in(node):
            files |= _files_of(path, level, module, names, repo)
    return files - {path}


def _parsed(text: str) -> ast.Module | None:
    try:
        return parse_python(text)
    except SyntaxError:
        return None


def _imports_in(node: ast.AST) -> Iterator[tuple[int, list[str], list[str]]]:
    """(dots, module, imported names) of each import in the node."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield 0, alias.name.split("."), []
    elif isinstance(node, ast.ImportFrom):
        module = node.module.split(".") if node.module else []
        yield node.level, module, [alias.name for alias in node.names]
    elif isinstance(node, ast.Call) and (literal := _literal_import(node)):
        dots = len(literal) - len(literal.lstrip("."))
        yield dots, [part for part in literal[dots:].split(".") if part], []


def _literal_import(call: ast.Call) -> str | None:
    """The module of `importlib.import_module("a.b")` and `__import__("a.b")`."""
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name not in ("import_module", "__import__") or not call.args:
        return None
    first = call.args[0]
    is_text = isinstance(first, ast.Constant) and isinstance(first.value, str)
    return str(first.value) if isinstance(first, ast.Constant) and is_text else None


def _files_of(
    path: str, level: int, module: list[str], names: list[str], repo: RepoView
) -> set[str]:
    if level:
        package = _package_above(posixpath.dirname(path), level)
        return set() if package is None else _imported_files(package, module, names, repo)
    roots = _roots_of(path, module[0], repo)
    for root in roots:
        if _module_files(posixpath.join(root, module[0]), repo):
            return _imported_files(root, module, names, repo)
    # Like Python, use a package without `__init__.py` only if there is nothing else.
    return next(
        (files for root in roots if (files := _imported_files(root, module, names, repo))), set()
    )


def _imported_files(root: str, module: list[str], names: list[str], repo: RepoView) -> set[str]:
    target = posixpath.join(root, *module)
    files = _module_files(target, repo)
    for name in names:
        files |= _module_files(posixpath.join(target, name), repo)
    return files


def _package_above(folder: str, level: int) -> str | None:
    """The folder that `level` dots mean; one dot is the file's own package."""
    above = list(self_and_above(folder))
    return above[level - 1] if level <= len(above) else None


def _module_files(target: str, repo: RepoView) -> set[str]:
    """A package wins over a module of the same name; a stub is added to the code."""
    for stem in (posixpath.join(target, "__init__"), target):
        files = {stem + suffix for suffix in _MODULE_SUFFIXES} & repo.files
        if files:
            return files
    return set()


def _roots_of(path: str, name: str, repo: RepoView) -> list[str]:
    """The folders that may contain the top-level module `name`, the likeliest first."""
    own = posixpath.dirname(path)
    while own and _is_package(own, repo):
        own = posixpath.dirname(own)
    if name in sys.stdlib_module_names:
        return [own]
    roots = [own]
    for above in self_and_above(own):
        roots += [above, *(posixpath.join(above, folder) for folder in _SOURCE_FOLDERS)]
    elsewhere = repo.once(_roots_by_package).get(name, set())
    # If two other projects have such a package, it is unknown which one is meant.
    return roots + (list(elsewhere) if len(elsewhere) == 1 else [])


def _roots_by_package(repo: RepoView) -> dict[str, set[str]]:
    """The folders that contain the top-level packages of all projects, by package."""
    roots: dict[str, set[str]] = {}
    for file in repo.files:
        package = posixpath.dirname(file)
        root = posixpath.dirname(package)
        if file.endswith("/__init__.py") and not _is_package(root, repo):
            roots.setdefault(posixpath.basename(package), set()).add(root)
    return roots


def _is_package(folder: str, repo: RepoView) -> bool:
    return posixpath.join(folder, "__init__.py") in repo.files
