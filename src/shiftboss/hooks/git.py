"""Asks git, with none of its hooks, in a few milliseconds."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

_SECONDS: Final = 20
_QUIET: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")


class GitFailed(Exception):
    """What git said."""


def git(
    folder: str, arguments: Sequence[str], *, also: Sequence[int] = (), stdin: bytes = b""
) -> tuple[int, bytes]:
    """The exit code, one of 0 and `also`, and what it printed. Raises GitFailed."""
    import subprocess  # late: most calls of a hook need no git

    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *_QUIET, *arguments],  # noqa: S607 -- that of the user, wherever it is
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
        said = done.stderr.decode(errors="replace").strip()
        raise GitFailed(f"git {arguments[0]} ended with {done.returncode}: {said}")
    return done.returncode, done.stdout


def git_lines(folder: str, arguments: Sequence[str]) -> list[str]:
    """What it printed, between the NULs."""
    _, out = git(folder, arguments)
    return [os.fsdecode(one) for one in out.split(b"\0") if one]


def ignored(tree: str, path: str) -> bool:
    """Whether git does not know the path and never will: nobody can commit it."""
    code, _ = git(tree, ["check-ignore", "--quiet", "--", path], also=(1,))
    return code == 0
