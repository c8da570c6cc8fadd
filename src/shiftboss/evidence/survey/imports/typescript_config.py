"""`baseUrl` and `paths` of tsconfig.json and jsconfig.json: aliases of files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any, NamedTuple

from shiftboss.evidence.survey.imports.node_packages import json_object_with_comments, package_files
from shiftboss.evidence.survey.imports.repo_view import RepoView, joined

_NAMES = ("tsconfig.json", "jsconfig.json")
_EXTENDS_MAX = 10


class Aliases(NamedTuple):
    """Names and `paths` are relative to `base`; without it, `paths` are relative to their file."""

    base: str | None = None
    paths: dict[str, list[str]] | None = None
    paths_folder: str = ""


def aliased(specifier: str, folder: str, repo: RepoView) -> Iterator[str]:
    """The paths that the specifier may mean in a file of the folder, the likeliest first."""
    config = repo.nearest(folder, *_NAMES)
    if config is None:
        return
    for aliases in repo.once(_all_aliases).get(config, ()):
        yield from _targets(specifier, aliases)


def is_config(path: str) -> bool:
    return posixpath.basename(path).startswith(("tsconfig", "jsconfig"))


def extended_by(config: str, repo: RepoView) -> list[str]:
    """The files of the repo that a configuration extends."""
    value = json_object_with_comments(repo.read(config)).get("extends", [])
    named = value if isinstance(value, list) else [value]
    files = (_config_file(name, config, repo) for name in named if isinstance(name, str))
    return [file for file in files if file is not None]


def referenced_by(config: str, repo: RepoView) -> list[str]:
    """The projects that a configuration references."""
    value = json_object_with_comments(repo.read(config)).get("references", [])
    paths = [entry.get("path") for entry in value if isinstance(entry, dict)] if value else []
    projects = []
    for path in paths:
        target = joined(posixpath.dirname(config), path) if isinstance(path, str) else None
        for name in (target, posixpath.join(target or "", _NAMES[0])):
            if name in repo.files and name is not None:
                projects.append(name)
                break
    return projects


def _all_aliases(repo: RepoView) -> dict[str, list[Aliases]]:
    """By configuration: its own aliases, then those of the projects that it references."""
    configs = [config for name in _NAMES for config in repo.named(name)]
    return {
        config: [_aliases(name, repo, 0) for name in (config, *referenced_by(config, repo))]
        for config in configs
    }


def _config_file(named: str, config: str, repo: RepoView) -> str | None:
    if named.startswith("."):
        target = joined(posixpath.dirname(config), named)
        targets = [] if target is None else [target]
    else:
        targets = list(package_files(named, repo))
    for target in targets:
        for name in (target, f"{target}.json", posixpath.join(target, _NAMES[0])):
            if name in repo.files:
                return name
    return None


def _aliases(config: str, repo: RepoView, depth: int) -> Aliases:
    """A configuration overrides what it extends, member by member."""
    inherited = Aliases()
    if depth < _EXTENDS_MAX:
        for name in extended_by(config, repo):
            inherited = _replaced(inherited, _aliases(name, repo, depth + 1))
    return _replaced(inherited, _own_aliases(config, repo))


def _own_aliases(config: str, repo: RepoView) -> Aliases:
    options: Any = json_object_with_comments(repo.read(config)).get("compilerOptions")
    options = options if isinstance(options, dict) else {}
    folder = posixpath.dirname(config)
    base = options.get("baseUrl")
    base = joined(folder, base) if isinstance(base, str) else None
    paths = options.get("paths")
    if not isinstance(paths, dict):
        return Aliases(base)
    texts = {
        key: [path for path in value if isinstance(path, str)]
        for key, value in paths.items()
        if isinstance(value, list)
    }
    return Aliases(base, texts, folder)


def _replaced(old: Aliases, new: Aliases) -> Aliases:
    base = old.base if new.base is None else new.base
    if new.paths is None:
        return Aliases(base, old.paths, old.paths_folder)
    return Aliases(base, new.paths, new.paths_folder)


def _targets(specifier: str, aliases: Aliases) -> Iterator[str]:
    folder = aliases.paths_folder if aliases.base is None else aliases.base
    for pattern, named in sorted((aliases.paths or {}).items(), key=_most_exact):
        before, star, after = pattern.partition("*")
        if star:
            is_match = len(specifier) >= len(before) + len(after)
            is_match &= specifier.startswith(before) and specifier.endswith(after)
            middle = specifier[len(before) : len(specifier) - len(after)]
        else:
            is_match, middle = specifier == pattern, ""
        if is_match:
            for path in named:
                target = joined(folder, path.replace("*", middle, 1))
                if target is not None:
                    yield target
            return
    if aliases.base is not None and (target := joined(aliases.base, specifier)) is not None:
        yield target


def _most_exact(item: tuple[str, list[str]]) -> tuple[bool, int]:
    before, star, _ = item[0].partition("*")
    return bool(star), -len(before)
