"""Real git repositories, away from the user's configuration."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from shiftboss.demo.surroundings import clean_environment
from shiftboss.errors import ShiftbossError

GIT_SECONDS: Final = 20
_IDENTITY: Final = ("-c", "user.name=Shiftboss demo", "-c", "user.email=demo@shiftboss.invalid")


class GitFailed(ShiftbossError):
    code = "git_failed"
    title = "git did not do it"


def git(repo: Path, *arguments: str) -> str:
    program = shutil.which("git")
    if program is None:
        raise GitFailed("git is not installed", hint="the demo's workers commit their work with it")
    done = subprocess.run(
        [program, *_IDENTITY, *arguments],
        cwd=repo,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GIT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise GitFailed(f"git {' '.join(arguments)} in {repo}: {done.stderr.strip()}")
    return done.stdout.strip()


def make_repo(repo: Path, title: str) -> None:
    """A repository with one commit."""
    repo.mkdir(parents=True)
    git(repo, "init", "--quiet", "--initial-branch=main")
    commit_file(repo, "README.md", f"# {title}\n", "Start")


def commit_file(repo: Path, name: str, text: str, message: str) -> str:
    """The commit that has the file. Done before: the commit there is."""
    (repo / name).write_text(text)
    git(repo, "add", "--", name)
    if git(repo, "status", "--porcelain", "--", name):
        git(repo, "commit", "--quiet", "--message", message)
    return head(repo)


def head(repo: Path) -> str:
    return git(repo, "rev-parse", "HEAD")


def commits(repo: Path) -> list[str]:
    """From the first to the last."""
    return git(repo, "rev-list", "--reverse", "HEAD").splitlines()


def tracked_files(repo: Path) -> list[str]:
    return git(repo, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
