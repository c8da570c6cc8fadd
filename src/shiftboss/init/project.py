"""What a repository says of itself: its name, its branch, and how it is tested."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from shiftboss.errors import InvalidRequest
from shiftboss.init.jobs import MANIFESTS, guessed_jobs
from shiftboss.init.policy_draft import policy_draft, repo_name

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
