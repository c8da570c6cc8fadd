"""What setup commands may change in a checkout: the commands run code of the worker, and what they
leave behind must not take the place of what was committed."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from shiftboss.protocol.claims.verdicts import Violation
from shiftboss.rules.paths.ownership import is_import_root, is_protected, shadowed_module
from shiftboss.rules.paths.patterns import Scope

# Folders that tools make for packages, builds and caches.
_TOOLS: Final = """
    node_modules bower_components .yarn .pnpm-store .npm
    .venv venv env .tox .nox .eggs .pytest_cache .mypy_cache .ruff_cache .hypothesis .cache
    target build dist out .gradle .next .nuxt .svelte-kit .turbo .parcel-cache _build deps
"""
_TOOL_FOLDERS: Final = frozenset(_TOOLS.split())
# An editable installation leaves it beside the sources.
_EDITABLE: Final = ".egg-info"
# Installed packages have it, in a folder of a tool. Elsewhere it can make Python load plug-ins.
_INSTALLED: Final = ".dist-info"
# Package managers rewrite them on installation.
_LOCKS: Final = """
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock
    poetry.lock uv.lock pdm.lock pipfile.lock cargo.lock go.sum gemfile.lock composer.lock mix.lock
"""
_LOCK_FILES: Final = frozenset(_LOCKS.split())
_IGNORE_FILE: Final = ".gitignore"
_BYTECODE: Final = "__pycache__"
_GENERATED_HINT: Final = (
    "if a tool makes it, ask the operator to list it under `generated` in the policy"
)


class SetupChanges(NamedTuple):
    """What differs from the commit after the setup. `added` are new files, and folders that end
    with a slash; `ignored` are those that a `.gitignore` covers, one of the commit unless it is
    itself new. `tracked` are the files of the commit. `plugins` are new folders with metadata that
    makes pytest load a plug-in which the project does not declare."""

    changed: Sequence[str]
    added: Sequence[str]
    ignored: Collection[str]
    tracked: Collection[str]
    plugins: Collection[str] = ()


def setup_violations(changes: SetupChanges, generated: Iterable[str]) -> list[Violation]:
    scope = Scope(generated)
    refused = {
        path: "was changed by the setup"
        for path in changes.changed
        if not (_is_lock_file(path) or scope.covers(path))
    }
    for path in changes.added:
        reason = None if _is_generated(path, scope) else _objection(path, changes)
        if reason is not None:
            refused[path] = reason
    return [
        Violation(check="setup", message=f"{path} {reason}", hint=_hint(reason), path=path)
        for path, reason in refused.items()
    ]


def must_be_expanded(folder: str) -> bool:
    """Whether the files of a new folder must be checked one by one: Python may import modules
    from it under their own names."""
    return is_import_root(folder)


def is_bytecode(path: str) -> bool:
    """Compiled modules beside the sources of the commit. Python would load them instead of these,
    and nobody needs them."""
    *folders, name = path.rstrip("/").split("/")
    return name == _BYTECODE and not _is_tool_made(folders)


def _is_generated(path: str, scope: Scope) -> bool:
    return scope.covers(path.rstrip("/")) or (path.endswith("/") and scope.covers(f"{path}x"))


def _objection(path: str, changes: SetupChanges) -> str | None:
    """Why a new file or folder must not be there, worded to follow its path."""
    if path in changes.plugins:
        return "is new and names a plug-in of pytest that the project does not declare"
    parts = path.rstrip("/").split("/")
    if _is_tool_made(parts):
        return None
    module = f"{path}__init__.py" if path.endswith("/") else path
    shadowed = shadowed_module(module)
    if shadowed is not None:
        return f"is new and would be imported instead of the module {shadowed}"
    twin = _imported_after(path)
    if twin in changes.tracked:
        return f"is new and would be imported instead of {twin}"
    is_metadata = parts[-1].casefold().endswith(_INSTALLED)
    if is_metadata or (not path.endswith("/") and is_protected(path)):
        return "is new and configures tests or tools"
    if parts[-1] == _IGNORE_FILE:
        return "is new and changes what git ignores"
    return None if _is_ignored(parts, changes.ignored) else "is new"


def _is_ignored(parts: Sequence[str], ignored: Collection[str]) -> bool:
    """Itself, or a folder that it is in."""
    folders = ("/".join(parts[:depth]) + "/" for depth in range(1, len(parts) + 1))
    return "/".join(parts) in ignored or any(folder in ignored for folder in folders)


def _is_tool_made(parts: Sequence[str]) -> bool:
    return any(
        part.casefold() in _TOOL_FOLDERS or part.casefold().endswith(_EDITABLE) for part in parts
    )


def _is_lock_file(path: str) -> bool:
    return posixpath.basename(path).casefold() in _LOCK_FILES


def _imported_after(path: str) -> str | None:
    """The module that Python would no longer find: a package and a compiled module come before
    a .py file of the same name."""
    if path.endswith("/"):
        return f"{path.rstrip('/')}.py"
    folder, name = posixpath.split(path)
    if not name.endswith((".so", ".pyd")):
        return None
    return posixpath.join(folder, f"{name.partition('.')[0]}.py")


def _hint(reason: str) -> str:
    if reason == "is new":
        return f"add it to .gitignore or commit it; {_GENERATED_HINT}"
    return f"the setup must leave the files of the commit as they are; {_GENERATED_HINT}"
