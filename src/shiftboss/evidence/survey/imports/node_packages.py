"""The packages of a workspace: resolves `@shop/cart` if it is a folder of the same repo."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any

from shiftboss.evidence.survey.imports.repo_view import RepoView, joined
from shiftboss.rules.paths.patterns import Scope, normalize_path

_PIECE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)


def json_object(text: str | None) -> dict[str, Any]:
    """The object in the text; empty if there is none."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def json_object_with_comments(text: str | None) -> dict[str, Any]:
    """JSON with comments and trailing commas, as many tools accept it."""
    # Twice, because a comment may be between the comma and the bracket.
    return json_object(_PIECE.sub(_blanked, _PIECE.sub(_blanked, text or "")))


def _blanked(piece: re.Match[str]) -> str:
    return piece.group() if piece.group().startswith('"') else " "


_YAML_ITEM = re.compile(r"""\s*-\s+['"]?([^'"#]+?)['"]?\s*(?:#.*)?$""")
# A package often exports built files; these patterns lead to their sources.
_BUILT = re.compile(r"^(?:dist|build|out|lib|esm|cjs)/(?:esm/|cjs/|types/)?")
_BUILT_ENDING = re.compile(r"(?:\.d)?\.[cm]?[jt]sx?$")


def package_files(specifier: str, repo: RepoView) -> Iterator[str]:
    """The paths that a specifier such as `@shop/cart/money` may mean, the likeliest first."""
    parts = specifier.split("/")
    name = "/".join(parts[:2] if specifier.startswith("@") else parts[:1])
    folder = repo.once(_packages).get(name)
    if folder is None:
        return
    inner = specifier[len(name) + 1 :]
    manifest = json_object(repo.read(posixpath.join(folder, "package.json")))
    exported = list(_exported(manifest, inner))
    sources = [_BUILT.sub("src/", _BUILT_ENDING.sub("", path)) for path in exported]
    guesses = [inner, posixpath.join("src", inner)] if inner else ["src/index", "index"]
    for path in (*exported, *sources, *guesses):
        if (target := joined(folder, path)) is not None:
            yield target


def _packages(repo: RepoView) -> dict[str, str]:
    """The folder of each package of the repo's workspaces, by its name."""
    folders: dict[str, str] = {}
    for manifest in repo.named("package.json"):
        folder = posixpath.dirname(manifest)
        name = json_object(repo.read(manifest)).get("name")
        if isinstance(name, str) and _is_member(folder, repo):
            folders.setdefault(name, folder)
    return folders


def _is_member(folder: str, repo: RepoView) -> bool:
    for root, scope in repo.once(_workspaces):
        is_below = not root or folder.startswith(f"{root}/")
        if folder == root or (is_below and scope.covers(folder[len(root) :].lstrip("/"))):
            return True
    return False


def _workspaces(repo: RepoView) -> list[tuple[str, Scope]]:
    """The folder of each workspace, and its members."""
    workspaces: list[tuple[str, list[Any]]] = []
    for manifest in repo.named("package.json"):
        value = json_object(repo.read(manifest)).get("workspaces")
        value = value.get("packages") if isinstance(value, dict) else value
        workspaces.append((posixpath.dirname(manifest), value if isinstance(value, list) else []))
    workspaces += [
        (posixpath.dirname(manifest), _listed(repo.read(manifest) or ""))
        for manifest in repo.named("pnpm-workspace.yaml")
    ]
    return [(root, Scope(members)) for root, listed in workspaces if (members := _plain(listed))]


def _listed(yaml: str) -> list[str]:
    """The items under `packages:` of a pnpm-workspace.yaml."""
    items, inside = [], False
    for line in yaml.splitlines():
        if line[:1].strip(" -#"):
            inside = line.startswith("packages:")
        elif inside and (item := _YAML_ITEM.match(line)):
            items.append(item.group(1))
    return items


def _plain(patterns: list[Any]) -> list[str]:
    plain = [text.removeprefix("./").strip("/") for text in patterns if isinstance(text, str)]
    return [text for text in plain if not text.startswith("!") and _is_pattern(text)]


def _is_pattern(text: str) -> bool:
    try:
        normalize_path(text)
    except ValueError:
        return False
    return True


def _exported(manifest: dict[str, Any], inner: str) -> Iterator[str]:
    exports = manifest.get("exports")
    if isinstance(exports, dict) and any(key.startswith(".") for key in exports):
        yield from _leaves(_matching(exports, f"./{inner}" if inner else "."))
    elif not inner:
        yield from _leaves(exports)
    if not inner:
        for key in ("source", "types", "module", "main"):
            yield from _leaves(manifest.get(key))


def _matching(exports: dict[str, Any], wanted: str) -> Any:
    if wanted in exports:
        return exports[wanted]
    for key, value in exports.items():
        before, star, after = key.partition("*")
        if star and wanted.startswith(before) and wanted.endswith(after):
            middle = wanted[len(before) : len(wanted) - len(after)]
            return [path.replace("*", middle) for path in _leaves(value)]
    return None


def _leaves(value: Any) -> list[str]:
    """All files that an entry names, under any condition."""
    paths, pending = [], [value]
    while pending:
        entry = pending.pop(0)
        if isinstance(entry, str):
            paths.append(entry.removeprefix("./"))
        elif isinstance(entry, dict | list):
            pending[:0] = entry.values() if isinstance(entry, dict) else entry
    return paths
