"""A repository of 10,000 files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

FOLDERS = 200
FILES_PER_FOLDER = 50

_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Bench",
    "GIT_AUTHOR_EMAIL": "bench@shiftboss.invalid",
    "GIT_COMMITTER_NAME": "Bench",
    "GIT_COMMITTER_EMAIL": "bench@shiftboss.invalid",
}


def make_repo(repo: Path) -> str:
    """Commit all files to `main`, in one pack, as after a clone. Return the commit."""
    repo.mkdir(parents=True)
    git(repo, "init", "--quiet", "--initial-branch=main")
    for folder in range(FOLDERS):
        (repo / f"src/area_{folder:03}").mkdir(parents=True)
        for number in range(FILES_PER_FOLDER):
            name = repo / f"src/area_{folder:03}/part_{number:02}.py"
            name.write_text(f"# {folder} {number}\n" + "value = 1\n" * 60)
    commit(repo, "base")
    git(repo, "repack", "-a", "-d", "--quiet")
    return git(repo, "rev-parse", "HEAD")


def commit(repo: Path, message: str) -> None:
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", message)


def git(repo: Path, *arguments: str) -> str:
    process = subprocess.run(
        ["git", *arguments], cwd=repo, env=_ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return process.stdout.strip()
