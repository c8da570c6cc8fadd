"""Runs git without its hooks, in a few milliseconds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

_SECONDS: Final = 20
_QUIET: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")


class GitFailed(Exception):
    """The error message of git."""


def git(
    folder: str, arguments: Sequence[str], *, also: Sequence[int] = (), stdin: bytes = b""
) -> tuple[int, bytes]:
    """The exit code and the output. Raises GitFailed unless the code is 0 or one of `also`."""
    import subprocess  # late: most hooks need no git

    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *_QUIET, *arguments],  # noqa: S607 -- the git on the PATH
            cwd=folder,
            env=environment,
            input=stdin,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise GitFailed(str(error)) from error
    if done.returncode != 0 and done.returncode not in also:
        message = done.stderr.decode(errors="replace").strip()
        raise GitFailed(f"git {arguments[0]} ended with exit code {done.returncode}: {message}")
    return done.returncode, done.stdout


def git_lines(folder: str, arguments: Sequence[str]) -> list[str]:
    """The output of a git command that separates its lines with NUL."""
    _, out = git(folder, arguments)
    return [os.fsdecode(line) for line in out.split(b"\0") if line]


def is_ignored(tree: str, path: str) -> bool:
    """Whether git ignores the path, so that it cannot end up in a commit."""
    code, _ = git(tree, ["check-ignore", "--quiet", "--", path], also=(1,))
    return code == 0
