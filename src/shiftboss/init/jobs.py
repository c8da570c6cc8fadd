"""Jobs for the local CI, guessed from the files at the top of a repository."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

# Those that a guess looks into, or at.
MANIFESTS: Final = (
    *(
        "GNUmakefile",
        "makefile",
        "Makefile",
        "pyproject.toml",
        "setup.cfg",
        "pytest.ini",
        "tox.ini",
    ),
    *("package.json", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"),
    *("Cargo.toml", "go.mod"),
)
_INSTALL: Final = {
    "package-lock.json": ("npm", "npm ci"),
    "pnpm-lock.yaml": ("pnpm", "pnpm install --frozen-lockfile"),
    "yarn.lock": ("yarn", "yarn install --frozen-lockfile"),
    "bun.lock": ("bun", "bun install --frozen-lockfile"),
    "bun.lockb": ("bun", "bun install --frozen-lockfile"),
}


def guessed_jobs(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Commands by the name of their job. `files` are texts by name. What a Makefile calls its test
    is the whole of it; otherwise every language has a job of its own."""
    make = _make_target(files)
    if make is not None:
        return {"test": [f"make {make}"]}
    found = dict(_languages(files))
    return {"test": next(iter(found.values()))} if len(found) == 1 else found


def _make_target(files: Mapping[str, str]) -> str | None:
    for name in ("GNUmakefile", "makefile", "Makefile"):
        for target in ("test", "check"):
            if re.search(rf"^{target}\s*::?(?!=)", files.get(name, ""), re.MULTILINE):
                return target
    return None


def _languages(files: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    python = ("pyproject.toml", "setup.cfg", "pytest.ini", "tox.ini")
    if "pytest.ini" in files or any("pytest" in files.get(name, "") for name in python):
        yield "test-python", ["python3 -m pytest"]
    node = _node(files)
    if node:
        yield "test-node", node
    if "Cargo.toml" in files:
        yield "test-rust", ["cargo test"]
    if "go.mod" in files:
        yield "test-go", ["go test ./..."]


def _node(files: Mapping[str, str]) -> list[str]:
    scripts = _scripts(files.get("package.json", ""))
    test = scripts.get("test")
    if not isinstance(test, str) or "no test specified" in test:
        return []
    for lock, (manager, install) in _INSTALL.items():
        if lock in files:
            return [install, f"{manager} run test"]
    return ["npm install", "npm run test"]


def _scripts(text: str) -> dict[str, Any]:
    try:
        scripts = json.loads(text).get("scripts")
    except (ValueError, RecursionError, AttributeError):
        return {}
    return scripts if isinstance(scripts, dict) else {}
