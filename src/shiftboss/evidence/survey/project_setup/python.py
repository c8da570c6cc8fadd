"""Criteria of Python projects: pytest, and mypy or pyright if they are configured."""

from __future__ import annotations

import configparser
import posixpath
import tomllib
from collections.abc import Iterator
from typing import Any, NamedTuple

from shiftboss.evidence.survey.imports.python import SUFFIXES
from shiftboss.evidence.survey.imports.repo_view import RepoView, self_and_above
from shiftboss.evidence.survey.ownership import OwnedFiles, Project, below, command
from shiftboss.rules.paths.patterns import Scope

_MANIFESTS = ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", "setup.py")
_TEST_FOLDERS = ("tests", "test")


class _TypeChecker(NamedTuple):
    """`files` are those that its configuration names; empty means all."""

    argv: list[str]
    folder: str
    files: list[str]


def criteria(owned: OwnedFiles) -> Iterator[str]:
    for project in owned.projects(SUFFIXES, _MANIFESTS):
        if tests := _tests(project, owned.repo):
            yield "Tests pass: " + command(["python", "-m", "pytest"], tests)
        checker = _type_checker(project.folder, owned.repo)
        if checker is not None and (files := _checked_files(project, checker)):
            yield "Type check passes: " + command(checker.argv, files)


def is_test(path: str) -> bool:
    name = posixpath.basename(path)
    return name.endswith("_test.py") or (name.startswith("test_") and name.endswith(".py"))


def _tests(project: Project, repo: RepoView) -> list[str]:
    """The owned tests and those of the owned sources; failing that, all tests of the project."""
    all_tests = [name for name in below(project.folder, sorted(repo.files)) if is_test(name)]
    tests = {name for name in project.files if is_test(name)}
    for source in project.files:
        tests |= _tests_of(source, all_tests)
    if tests or not all_tests:
        return sorted(tests)
    for name in _TEST_FOLDERS:
        folder = posixpath.join(project.folder, name)
        if below(folder, all_tests):
            return [folder]
    return [project.folder or "."]


def _tests_of(source: str, all_tests: list[str]) -> set[str]:
    """The tests that are named after it; of several, those with the most similar folders."""
    folder, name = posixpath.split(source)
    stem = posixpath.splitext(name)[0]
    stem = posixpath.basename(folder) if stem == "__init__" else stem
    names = (f"test_{stem}.py", f"{stem}_test.py")
    folders = set(folder.split("/"))
    similarity = {
        test: len(folders & set(test.split("/")[:-1]))
        for test in all_tests
        if posixpath.basename(test) in names
    }
    return {test for test, similar in similarity.items() if similar == max(similarity.values())}


def _checked_files(project: Project, checker: _TypeChecker) -> list[str]:
    files = [name for name in project.files if name.endswith((".py", ".pyi"))]
    if not checker.files:
        return files
    patterns = [posixpath.join(checker.folder, path.removeprefix("./")) for path in checker.files]
    try:
        scope = Scope(patterns)
    except ValueError:
        return files
    return [name for name in files if scope.covers(name)]


def _type_checker(project: str, repo: RepoView) -> _TypeChecker | None:
    for folder in self_and_above(project):
        for name, settings in _mypy_settings(folder, repo):
            place = ["--config-file", posixpath.join(folder, name)] if folder else []
            argv = ["python", "-m", "mypy", *place]
            return _TypeChecker(argv, folder, _texts(settings.get("files")))
        tools = _tools(folder, repo)
        if "pyright" in tools or posixpath.join(folder, "pyrightconfig.json") in repo.files:
            place = ["-p", folder] if folder else []
            return _TypeChecker(["python", "-m", "pyright", *place], folder, [])
    return None


def _mypy_settings(folder: str, repo: RepoView) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files of the folder that configure mypy, in the order in which mypy searches."""
    for name in ("mypy.ini", ".mypy.ini"):
        if posixpath.join(folder, name) in repo.files:
            yield name, _section(repo.read(posixpath.join(folder, name)), "mypy") or {}
    settings = _tools(folder, repo).get("mypy")
    if isinstance(settings, dict):
        yield "pyproject.toml", settings
    section = _section(repo.read(posixpath.join(folder, "setup.cfg")), "mypy")
    if section is not None:
        yield "setup.cfg", section


def _tools(folder: str, repo: RepoView) -> dict[str, Any]:
    try:
        tools = tomllib.loads(repo.read(posixpath.join(folder, "pyproject.toml")) or "").get("tool")
    except (tomllib.TOMLDecodeError, RecursionError):
        tools = None
    return tools if isinstance(tools, dict) else {}


def _section(text: str | None, name: str) -> dict[str, Any] | None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(text or "")
    except configparser.Error:
        return None
    return dict(parser[name]) if parser.has_section(name) else None


def _texts(value: Any) -> list[str]:
    """The value is a list, or names separated by commas."""
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return [str(part).strip() for part in parts if str(part).strip()]
