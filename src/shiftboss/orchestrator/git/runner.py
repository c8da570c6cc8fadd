"""Runs git in the user's repositories: with the user's identity, filters and merge drivers, but
without hooks, editors and prompts.

The evidence package has its own runner, which does not trust the settings of a repository.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from shiftboss.errors import TreeUnavailable
from shiftboss.system.git import GitOutput
from shiftboss.system.processes.child_process import exchange, kill_group, start_process

GIT_SECONDS: Final = 120.0
OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024
_ERROR_BYTES_MAX: Final = 64 * 1024
# Agents, editors and people use the repository at the same time.
_LOCKED: Final = (".lock': File exists", "could not lock config file")
LOCK_SECONDS: Final = 4.0
_LOCK_PAUSE_SECONDS: Final = 0.1
_LOCK: Final = re.compile(r"Unable to create '(.+\.lock)': File exists")

SETTINGS: Final = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "core.commitGraph=false"),
    *("-c", "advice.detachedHead=false"),
    *("-c", "advice.graftFileDeprecated=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
# Variables that point git to another repository (`git rev-parse --local-env-vars`). They are set if
# the orchestrator was started from a git hook.
_REPOSITORY_VARIABLES: Final = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"),
        *("GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_GRAFT_FILE"),
        *("GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_IMPLICIT_WORK_TREE"),
    )
)
_VARIABLES: Final = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_OPTIONAL_LOCKS": "0",
    # An agent could write replacement refs or grafts, which change what git shows for an object.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
}


def plain_environment() -> dict[str, str]:
    """The environment of this process, without the variables of Shiftboss and without those that
    point git to another repository."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _REPOSITORY_VARIABLES and not name.startswith("SHIFTBOSS_")
    }


def git_environment(variables: Mapping[str, str]) -> dict[str, str]:
    return {**plain_environment(), **_VARIABLES, **variables}


async def run_git(
    arguments: Sequence[str],
    folder: Path,
    *,
    stdin: bytes = b"",
    seconds: float = GIT_SECONDS,
    environment: Mapping[str, str] | None = None,
    output_max: int = OUTPUT_BYTES_MAX,
    keeps_open: Sequence[int] = (),
    lock_seconds: float = LOCK_SECONDS,
) -> GitOutput:
    """Run a git command. Output beyond `output_max` is dropped. If another process holds one of
    git's locks, the command is repeated for up to `lock_seconds`. `keeps_open` are file descriptors
    that git inherits."""
    deadline = time.monotonic() + lock_seconds
    while True:
        process = await _start(arguments, folder, bool(stdin), environment or {}, keeps_open)
        try:
            async with asyncio.timeout(seconds):
                code, out, err = await exchange(
                    process,
                    stdin,
                    output_max=output_max,
                    error_max=_ERROR_BYTES_MAX,
                    drops_excess=True,
                )
                output = GitOutput(code, out, err.decode(errors="replace"))
        except TimeoutError:
            raise TreeUnavailable(
                f"git {arguments[0]} took longer than {seconds:.0f} seconds in {folder}"
            ) from None
        finally:
            await kill_group(process)
        is_locked = output.code != 0 and any(message in output.err for message in _LOCKED)
        if not is_locked or time.monotonic() >= deadline:
            return output
        await asyncio.sleep(_LOCK_PAUSE_SECONDS)


def refuse_locked(output: GitOutput, what: str) -> None:
    """Raise TreeUnavailable if git failed on a lock. A lock that outlasts all tries was usually
    left by a git process that was killed."""
    lock = _LOCK.search(output.err)
    if output.code != 0 and lock is not None:
        raise TreeUnavailable(
            f"{what}: the lock {lock[1]} exists. If no git command is running there, a killed one "
            f"has left it: rm {shlex.quote(lock[1])}",
            hint="remove the lock, then try again",
        )


def checked(output: GitOutput, what: str) -> str:
    """The output as text. Raises TreeUnavailable if git failed; `what` names what it did."""
    refuse_locked(output, what)
    if output.code != 0:
        raise TreeUnavailable(
            f"{what}: {output.first_error}", hint="check the repository with git, then try again"
        )
    return output.out.decode(errors="surrogateescape").rstrip("\n")


async def _start(
    arguments: Sequence[str],
    folder: Path,
    has_input: bool,
    environment: Mapping[str, str],
    keeps_open: Sequence[int],
) -> asyncio.subprocess.Process:
    try:
        return await start_process(
            ("git", "--no-pager", "--literal-pathspecs", *SETTINGS, *arguments),
            kill_group,
            cwd=folder,
            env=git_environment(environment),
            stdin=asyncio.subprocess.PIPE if has_input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            process_group=0,
            pass_fds=keeps_open,
        )
    except OSError as error:
        raise TreeUnavailable(f"git cannot be run in {folder}: {error.strerror}") from error
