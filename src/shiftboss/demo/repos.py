"""Real git repositories, away from the user's configuration."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from shiftboss.demo.material import REPOS, Files
from shiftboss.errors import ShiftbossError

# What the demo and its processes see of the world around them.


def clean_environment() -> dict[str, str]:
    """Ours, without what would lead to other servers, repositories or settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SHIFTBOSS_", "GIT_"))
    }
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def stay_apart(folder: Path) -> None:
    """For the whole process: the run of the plan looks at the environment, and so do its agents.
    What would be kept in the home is kept in the folder."""
    wanted = clean_environment()
    for name in os.environ.keys() - wanted.keys():
        del os.environ[name]
    os.environ.update(wanted | {"XDG_CACHE_HOME": str(folder / "cache")})


GIT_SECONDS: Final = 30


class DemoGitFailed(ShiftbossError):
    code = "git_failed"
    title = "git did not do it"


def git(repo: Path, *arguments: str) -> str:
    program = shutil.which("git")
    if program is None:
        raise DemoGitFailed(
            "git is not installed", hint="the demo's agents commit their work with it"
        )
    done = subprocess.run(
        [program, *arguments],
        cwd=repo,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise DemoGitFailed(f"git {' '.join(arguments)} in {repo}: {done.stderr.strip()}")
    return done.stdout.strip()


def make_repos(folder: Path) -> None:
    for name, files in REPOS.items():
        _make_repo(folder / name, files)


def _make_repo(repo: Path, files: Files) -> None:
    """With one commit on `main`, and somebody to commit as."""
    repo.mkdir(parents=True)
    git(repo, "init", "--quiet", "--initial-branch=main")
    git(repo, "config", "user.name", "Shiftboss demo")
    git(repo, "config", "user.email", "demo@shiftboss.invalid")
    for name, text in files.items():
        (repo / name).parent.mkdir(exist_ok=True)
        (repo / name).write_text(text)
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "Begin")


def is_on_main(repo: Path, commit: str) -> bool:
    return commit in git(repo, "rev-list", "main").splitlines()


def text_on_main(repo: Path, name: str) -> str:
    return git(repo, "show", f"main:{name}")


def leftovers(repo: Path) -> list[str]:
    """Work trees and branches of tasks: nothing is to be left of them."""
    trees = git(repo, "worktree", "list", "--porcelain").split("\n\n")[1:]
    branches = git(repo, "for-each-ref", "--format=%(refname)", "refs/heads/shiftboss")
    return [*trees, *branches.splitlines()]
