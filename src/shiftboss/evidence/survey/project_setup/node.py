"""Criteria of projects with a package.json: its scripts, run by the package manager in use."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from shiftboss.evidence.survey.imports.javascript import SUFFIXES
from shiftboss.evidence.survey.imports.node_packages import json_object, json_object_with_comments
from shiftboss.evidence.survey.imports.repo_view import RepoView, self_and_above
from shiftboss.evidence.survey.imports.typescript_config import referenced_by
from shiftboss.evidence.survey.ownership import OwnedFiles, Project, command

_MANIFESTS = ("package.json",)
_TYPED = (".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte")
_TYPE_CHECKS = ("typecheck", "type-check", "check-types", "types:check", "test:typecheck", "tsc")
_LOCKS = {
    "package-lock.json": "npm",
    "npm-shrinkwrap.json": "npm",
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
}
_FOLDER_OPTIONS = {"npm": "--prefix", "pnpm": "-C", "yarn": "--cwd", "bun": "--cwd"}
_TEST_NAME = re.compile(r".+[._](?:test|spec)\.[cm]?[jt]sx?|.*/__tests__/.+")


class _PackageScript(NamedTuple):
    """A script of a package.json. `argv` runs it."""

    argv: list[str]
    text: str


def criteria(owned: OwnedFiles) -> Iterator[str]:
    for project in owned.projects(SUFFIXES, _MANIFESTS):
        yield from _tests(project, owned.repo)
        yield from _type_checks(project, owned.repo)
        if lint := _script(project.folder, "lint", owned.repo):
            yield "Command passes: " + shlex.join(lint.argv)


def _tests(project: Project, repo: RepoView) -> Iterator[str]:
    script = _nearest_script(project.folder, ("test",), repo)
    tests = [name for name in project.files if _TEST_NAME.fullmatch(name)]
    has_bun_tests = script is None or re.match(r"bun\s+test\b", script.text)
    if tests and has_bun_tests and _manager(project.folder, repo) == "bun":
        yield "Tests pass: " + command(["bun", "test"], tests)
    elif script is not None and "no test specified" not in script.text:
        yield "Tests pass: " + shlex.join(script.argv)


def _type_checks(project: Project, repo: RepoView) -> Iterator[str]:
    if script := _nearest_script(project.folder, _TYPE_CHECKS, repo):
        yield "Type check passes: " + shlex.join(script.argv)
        return
    typed = [name for name in project.files if name.endswith(_TYPED)]
    config = repo.nearest(posixpath.dirname(typed[0]), "tsconfig.json") if typed else None
    if config is None:
        return
    has_only_references = json_object_with_comments(repo.read(config)).get("files") == []
    for project_config in (referenced_by(config, repo) if has_only_references else []) or [config]:
        argv = ["npx", "--no-install", "tsc", "--noEmit", "-p", project_config]
        yield "Type check passes: " + shlex.join(argv)


def _nearest_script(folder: str, names: tuple[str, ...], repo: RepoView) -> _PackageScript | None:
    """In a repo with many packages, the top package may have the scripts."""
    for above in self_and_above(folder):
        for name in names:
            if script := _script(above, name, repo):
                return script
    return None


def _script(folder: str, name: str, repo: RepoView) -> _PackageScript | None:
    scripts = _manifest(folder, repo).get("scripts")
    text = scripts.get(name) if isinstance(scripts, dict) else None
    if not isinstance(text, str):
        return None
    manager = _manager(folder, repo)
    place = [_FOLDER_OPTIONS[manager], folder] if folder else []
    run = ["test"] if name == "test" and manager != "bun" else ["run", name]
    return _PackageScript([manager, *place, *run], text)


def _manager(folder: str, repo: RepoView) -> str:
    """The package manager that the nearest package.json or lock file names."""
    for above in self_and_above(folder):
        named = _manifest(above, repo).get("packageManager")
        manager = named.partition("@")[0] if isinstance(named, str) else ""
        if manager in _FOLDER_OPTIONS:
            return manager
        for lock, manager in _LOCKS.items():
            if posixpath.join(above, lock) in repo.files:
                return manager
    return "npm"


def _manifest(folder: str, repo: RepoView) -> dict[str, Any]:
    return json_object(repo.read(posixpath.join(folder, "package.json")))
