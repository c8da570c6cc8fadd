"""The packages of a workspace: what `@shop/cart` means when it is a folder of the same repo."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any

from shiftboss.evidence.survey.imports.repo_view import RepoView, joined
from shiftboss.rules.paths.patterns import Scope, normalised

# JSON as tools write it: with comments, and a comma too many.


_PIECE = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)|,(?=\s*[}\]])', re.DOTALL)


def json_object(text: str | None) -> dict[str, Any]:
    """The members of the object; none where the text is not one."""
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def json_object_with_comments(text: str | None) -> dict[str, Any]:
    # Twice: a comment may stand between the comma and the bracket.
    return json_object(_PIECE.sub(_kept, _PIECE.sub(_kept, text or "")))


def _kept(piece: re.Match[str]) -> str:
    return piece.group() if piece.group().startswith('"') else " "


_YAML_ITEM = re.compile(r"""\s*-\s+['"]?([^'"#]+?)['"]?\s*(?:#.*)?$""")
# Where the sources of what a package offers lie: what it offers is often built first.
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
    offered = list(_offered(manifest, inner))
    sources = [_BUILT.sub("src/", _BUILT_ENDING.sub("", one)) for one in offered]
    guesses = [inner, posixpath.join("src", inner)] if inner else ["src/index", "index"]
    for one in (*offered, *sources, *guesses):
        if (target := joined(folder, one)) is not None:
            yield target


def _packages(repo: RepoView) -> dict[str, str]:
    """The folder of each package of the repo's workspaces, by its name."""
    found: dict[str, str] = {}
    for manifest in repo.named("package.json"):
        folder = posixpath.dirname(manifest)
        name = json_object(repo.read(manifest)).get("name")
        if isinstance(name, str) and _is_member(folder, repo):
            found.setdefault(name, folder)
    return found


def _is_member(folder: str, repo: RepoView) -> bool:
    for root, scope in repo.once(_workspaces):
        is_below = not root or folder.startswith(f"{root}/")
        if folder == root or (is_below and scope.covers(folder[len(root) :].lstrip("/"))):
            return True
    return False


def _workspaces(repo: RepoView) -> list[tuple[str, Scope]]:
    """(folder of the workspace, its members)."""
    found: list[tuple[str, list[Any]]] = []
    for manifest in repo.named("package.json"):
        value = json_object(repo.read(manifest)).get("workspaces")
        value = value.get("packages") if isinstance(value, dict) else value
        found.append((posixpath.dirname(manifest), value if isinstance(value, list) else []))
    found += [
        (posixpath.dirname(manifest), _listed(repo.read(manifest) or ""))
        for manifest in repo.named("pnpm-workspace.yaml")
    ]
    return [(root, Scope(members)) for root, listed in found if (members := _plain(listed))]


def _listed(yaml: str) -> list[str]:
    """The items under `packages:`; the file has no other form."""
    items, inside = [], False
    for line in yaml.splitlines():
        if line[:1].strip(" -#"):
            inside = line.startswith("packages:")
        elif inside and (item := _YAML_ITEM.match(line)):
            items.append(item.group(1))
    return items


def _plain(patterns: list[Any]) -> list[str]:
    plain = [one.removeprefix("./").strip("/") for one in patterns if isinstance(one, str)]
    return [one for one in plain if not one.startswith("!") and _is_pattern(one)]


def _is_pattern(text: str) -> bool:
    try:
        normalised(text)
    except ValueError:
        return False
    return True


def _offered(manifest: dict[str, Any], inner: str) -> Iterator[str]:
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
            return [one.replace("*", middle) for one in _leaves(value)]
    return None


def _leaves(value: Any) -> list[str]:
    """All files that an entry names, whatever the conditions."""
    found, waiting = [], [value]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, str):
            found.append(one.removeprefix("./"))
        elif isinstance(one, dict | list):
            waiting[:0] = one.values() if isinstance(one, dict) else one
    return found
