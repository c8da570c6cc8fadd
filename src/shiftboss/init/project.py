"""What a repository says of itself: its name, its branch, and how it is tested."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from shiftboss.errors import InvalidRequest
from shiftboss.rules.documents.text_blocks import sealed

# Jobs for the local CI, guessed from the files at the top of a repository.


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


# The first `shiftboss.yaml` of a repository.


_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
# Plain words that YAML reads as something else.
_NOT_TEXTS: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
COMMENT: Final = "#"
_HEAD: Final = """\
# The policy of Shiftboss. What it does not say has a default, which
# `shiftboss policy show --effective` prints; `shiftboss policy check` looks for mistakes.
# Work on a repo that is named here counts when its CI has passed, and its tasks take turns.
"""
# A repo without jobs is not named: no CI would ever pass its commits.
_NO_JOBS: Final = """\
# Nothing was found that tests this one. Once there is something, put this in the place of `{}`:
"""
_SOME_JOB: Final = {"test": ["make test"]}


def repo_name(folder: str) -> str:
    """The name of the folder, as names of repos are."""
    return _NOT_IN_NAMES.sub("-", folder).strip("-._")[:100] or "repo"


def policy_draft(name: str, branch: str, jobs: Mapping[str, Sequence[str]]) -> str:
    if jobs:
        return sealed("".join([_HEAD, "repos:\n", *_repo(name, branch, jobs)]), COMMENT)
    example = [f"{COMMENT}{line}" for line in _repo(name, branch, _SOME_JOB)]
    return sealed("".join([_HEAD, "repos: {}\n", _NO_JOBS, *example]), COMMENT)


def _repo(name: str, branch: str, jobs: Mapping[str, Sequence[str]]) -> list[str]:
    lines = [
        f"  {_policy_text(name)}:\n",
        "    path: .\n",
        f"    branch: {_policy_text(branch)}  # where accepted work lands\n",
        "    ci:\n",
        "      jobs:  # run here without a shell, in a clean checkout of the commit\n",
    ]
    for job, commands in jobs.items():
        words = ", ".join(map(_policy_text, commands))
        lines.append(f"        {_policy_text(job)}: {{run: [{words}]}}\n")
    return [*lines, f"      required_jobs: [{', '.join(map(_policy_text, jobs))}]\n"]


def _policy_text(text: str) -> str:
    """A plain word of YAML where it is one for sure, else in quotes."""
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", text) and text.lower() not in _NOT_TEXTS
    return text if is_plain else json.dumps(text)


_TEXT_BYTES_MAX: Final = 1_000_000
_GIT_SECONDS: Final = 20
_USUAL_BRANCHES: Final = ("main", "master", "trunk")


def check_is_repository(folder: Path) -> None:
    """Raises InvalidRequest for a folder that is not the top of a work tree of git."""
    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {folder}", field="folder")
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top is None:
        raise InvalidRequest(
            f"{folder} is in no git repository with files",
            field="folder",
            hint="`git init` first, or name the folder of a repository",
        )
    if Path(top).resolve() != folder.resolve():
        raise InvalidRequest(
            f"{folder} is not the top of its repository", field="folder", hint=f"use {top}"
        )


def draft_for(folder: Path) -> str:
    """The first policy of the repository."""
    files = {name: text for name in MANIFESTS if (text := _text(folder / name)) is not None}
    return policy_draft(repo_name(folder.resolve().name), _branch(folder), guessed_jobs(files))


def _branch(folder: Path) -> str:
    """Where work lands: what the origin calls its main branch, else a usual one, else this one."""
    has = set(
        (_git(folder, "for-each-ref", "--format=%(refname:short)", "refs/heads") or "").split()
    )
    origin = _git(folder, "symbolic-ref", "--short", "refs/remotes/origin/HEAD") or ""
    names = [origin.removeprefix("origin/"), *_USUAL_BRANCHES]
    current = _git(folder, "symbolic-ref", "--short", "HEAD")
    return next((name for name in names if name in has), current or _USUAL_BRANCHES[0])


def _git(folder: Path, *arguments: str) -> str | None:
    """None: git says no, or is not there."""
    program = shutil.which("git")
    if program is None:
        raise InvalidRequest("git is not installed", field="folder", hint="install git first")
    # As if it were called in the folder, whatever hook or tool we are called from.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    done = subprocess.run(
        [program, "-C", str(folder), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_GIT_SECONDS,
        check=False,
    )
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else None


def _text(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return file.read(_TEXT_BYTES_MAX).decode(errors="replace")
    except OSError:
        return None
