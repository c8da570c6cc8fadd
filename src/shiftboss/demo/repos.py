"""The demo's git repositories and environment, isolated from the user's configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from shiftboss.demo.files import REPOS, Files
from shiftboss.errors import ShiftbossError

GIT_SECONDS: Final = 30


class DemoGitFailed(ShiftbossError):
    code = "git_failed"
    title = "A git command failed"


def clean_environment() -> dict[str, str]:
    """The environment of this process, without variables that point to other servers, repositories
    or settings."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SHIFTBOSS_", "GIT_"))
    }
    return variables | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def isolate_process(folder: Path) -> None:
    """Clean the environment of the whole process: the run of the plan and its agents use it. Caches
    go to `folder` instead of the home folder."""
    variables = clean_environment()
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables | {"XDG_CACHE_HOME": str(folder / "cache")})


def git(repo: Path, *arguments: str) -> str:
    program = shutil.which("git")
    if program is None:
        raise DemoGitFailed(
            "git is not installed", hint="install it: the demo's agents commit their work with git"
        )
    result = subprocess.run(
        [program, *arguments],
        cwd=repo,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GIT_SECONDS,
        check=False,
    )
    if result.returncode != 0:
        raise DemoGitFailed(f"git {' '.join(arguments)} in {repo}: {result.stderr.strip()}")
    return result.stdout.strip()


def create_repos(folder: Path) -> None:
    for name, files in REPOS.items():
        _create_repo(folder / name, files)


def _create_repo(repo: Path, files: Files) -> None:
    """One commit on `main`, and an identity for more."""
    repo.mkdir(parents=True)
    git(repo, "init", "--quiet", "--initial-branch=main")
    git(repo, "config", "user.name", "Shiftboss demo")
    git(repo, "config", "user.email", "demo@shiftboss.invalid")
    for name, text in files.items():
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(text)
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "Initial commit")


def is_on_main(repo: Path, commit: str) -> bool:
    return commit in git(repo, "rev-list", "main").splitlines()


def text_on_main(repo: Path, name: str) -> str:
    return git(repo, "show", f"main:{name}")


def leftovers(repo: Path) -> list[str]:
    """Work trees and branches of tasks that still exist."""
    worktrees = git(repo, "worktree", "list", "--porcelain").split("\n\n")[1:]
    branches = git(repo, "for-each-ref", "--format=%(refname)", "refs/heads/shiftboss")
    return [*worktrees, *branches.splitlines()]
