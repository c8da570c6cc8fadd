"""The first policy of a repository, from its name, its branch and how it is tested."""

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

# The files at the top of a repository from which its test jobs are guessed.
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
    """The commands of each job of the local CI. `files` are contents by file name. The test
    target of a Makefile covers everything; otherwise every language has a job of its own."""
    make = _make_target(files)
    if make is not None:
        return {"test": [f"make {make}"]}
    jobs = dict(_languages(files))
    return {"test": next(iter(jobs.values()))} if len(jobs) == 1 else jobs


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


_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
# Words that YAML does not read as strings.
_NOT_STRINGS: Final = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
COMMENT: Final = "#"
_HEAD: Final = """\
# The policy of Shiftboss. Everything else has a default: see `shiftboss policy show --effective`.
# `shiftboss policy check` reports mistakes in this file.
"""
# The repo is not listed: one task at a time would be a surprise to those who did not ask for it.
_NO_REPOS: Final = """\
# Tasks that own different files run side by side; each is verified by its own criteria. To accept
# work on this repository only after its CI has passed, one task at a time, replace `{}` by:
"""
_EXAMPLE_JOB: Final = {"test": ["make test"]}


def repo_name(folder: str) -> str:
    """The name of the folder, made a valid name of a repo."""
    return _NOT_IN_NAMES.sub("-", folder).strip("-._")[:100] or "repo"


def policy_draft(name: str, branch: str, jobs: Mapping[str, Sequence[str]]) -> str:
    """A policy without repos, and the entry of this one as a comment."""
    entry = [f"{COMMENT}{line}" for line in _repo(name, branch, jobs or _EXAMPLE_JOB)]
    return sealed("".join([_HEAD, "repos: {}\n", _NO_REPOS, *entry]), COMMENT)


def _repo(name: str, branch: str, jobs: Mapping[str, Sequence[str]]) -> list[str]:
    lines = [
        f"  {_policy_text(name)}:\n",
        "    path: .\n",
        f"    branch: {_policy_text(branch)}  # accepted work is merged into it\n",
        "    ci:\n",
        "      jobs:  # run on this machine without a shell, in a clean checkout\n",
    ]
    for job, commands in jobs.items():
        run = ", ".join(map(_policy_text, commands))
        lines.append(f"        {_policy_text(job)}: {{run: [{run}]}}\n")
    return [*lines, f"      required_jobs: [{', '.join(map(_policy_text, jobs))}]\n"]


def _policy_text(text: str) -> str:
    """A YAML string, quoted unless it certainly needs no quotes."""
    is_plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", text) and text.lower() not in _NOT_STRINGS
    return text if is_plain else json.dumps(text)


_TEXT_BYTES_MAX: Final = 1_000_000
_GIT_SECONDS: Final = 20
_USUAL_BRANCHES: Final = ("main", "master", "trunk")


def check_is_repository(folder: Path) -> None:
    """Raises InvalidRequest unless the folder is the top of a git work tree."""
    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {folder}", field="folder")
    top = _git(folder, "rev-parse", "--show-toplevel")
    if top is None:
        raise InvalidRequest(
            f"{folder} is not in a git repository with a work tree",
            field="folder",
            hint="run `git init` first, or give the folder of a repository",
        )
    if Path(top).resolve() != folder.resolve():
        raise InvalidRequest(
            f"{folder} is not the top folder of its repository", field="folder", hint=f"use {top}"
        )


def draft_for(folder: Path) -> str:
    """The text of the first policy of the repository."""
    files = {name: text for name in MANIFESTS if (text := _text(folder / name)) is not None}
    return policy_draft(repo_name(folder.resolve().name), _branch(folder), guessed_jobs(files))


def _branch(folder: Path) -> str:
    """Where work is merged: the default branch of origin, else a usual name, else this branch."""
    branches = set(
        (_git(folder, "for-each-ref", "--format=%(refname:short)", "refs/heads") or "").split()
    )
    origin = _git(folder, "symbolic-ref", "--short", "refs/remotes/origin/HEAD") or ""
    names = [origin.removeprefix("origin/"), *_USUAL_BRANCHES]
    current = _git(folder, "symbolic-ref", "--short", "HEAD")
    return next((name for name in names if name in branches), current or _USUAL_BRANCHES[0])


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of git; None if it fails."""
    program = shutil.which("git")
    if program is None:
        raise InvalidRequest("git is not installed", field="folder", hint="install git first")
    # Variables of a hook or a tool that called us would point git elsewhere.
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
