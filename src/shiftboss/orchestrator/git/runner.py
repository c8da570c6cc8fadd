"""Running git in the user's own repositories: with the user's identity, filters and merge drivers,
without hooks, editors and questions.

The evidence room has a git of its own, which trusts nothing that a repository says.
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
from shiftboss.system.child_process import exchange, kill_group, start_process
from shiftboss.system.git import GitOutput

GIT_SECONDS: Final = 120.0
OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024
_ERROR_BYTES_MAX: Final = 64 * 1024
# Others use the repository, too: agents, editors, people.
_LOCKED: Final = (".lock': File exists", "could not lock config file")
LOCK_SECONDS: Final = 4.0
_LOCK_PAUSE_SECONDS: Final = 0.1
_LOCK: Final = re.compile(r"Unable to create '(.+\.lock)': File exists")

_SETTINGS: Final = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.quotePath=false"),
    *("-c", "core.commitGraph=false"),
    *("-c", "advice.detachedHead=false"),
    *("-c", "advice.graftFileDeprecated=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
# What points git to another repository (`git rev-parse --local-env-vars`): we may have been started
# from a hook.
_ELSEWHERE: Final = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"),
        *("GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_GRAFT_FILE"),
        *("GIT_SHALLOW_FILE", "GIT_REPLACE_REF_BASE", "GIT_IMPLICIT_WORK_TREE"),
    )
)
_QUIET: Final = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_OPTIONAL_LOCKS": "0",
    # What an agent has written beside the objects must not change what they are taken for.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
}


def plain_environment() -> dict[str, str]:
    """Ours, without what is for us alone and without what would lead git elsewhere."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _ELSEWHERE and not name.startswith("SHIFTBOSS_")
    }


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
    """Output beyond `output_max` is dropped. While somebody else holds one of git's locks, it is
    tried again for `lock_seconds`. `keeps_open` are descriptors that git has, too."""
    until = time.monotonic() + lock_seconds
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
                said = GitOutput(code, out, err.decode(errors="replace"))
        except TimeoutError:
            raise TreeUnavailable(
                f"git {arguments[0]} did not end within {seconds:.0f} seconds in {folder}"
            ) from None
        finally:
            await kill_group(process)
        is_locked = said.code != 0 and any(words in said.err for words in _LOCKED)
        if not is_locked or time.monotonic() >= until:
            return said
        await asyncio.sleep(_LOCK_PAUSE_SECONDS)


def refuse_locked(said: GitOutput, what: str) -> None:
    """A lock that outlasts all tries is most often one that a killed git has left."""
    lock = _LOCK.search(said.err)
    if said.code != 0 and lock is not None:
        raise TreeUnavailable(
            f"{what}: there is the lock {lock[1]}. If no git is at work there, one that was killed "
            f"has left it: rm {shlex.quote(lock[1])}",
            hint="remove it, then try again",
        )


def checked(said: GitOutput, what: str) -> str:
    refuse_locked(said, what)
    if said.code != 0:
        raise TreeUnavailable(f"{what}: {said.first_error}", hint="look at it with git, try again")
    return said.out.decode(errors="surrogateescape").rstrip("\n")


async def _start(
    arguments: Sequence[str],
    folder: Path,
    has_input: bool,
    environment: Mapping[str, str],
    keeps_open: Sequence[int],
) -> asyncio.subprocess.Process:
    try:
        return await start_process(
            ("git", "--no-pager", "--literal-pathspecs", *_SETTINGS, *arguments),
            kill_group,
            cwd=folder,
            env={**plain_environment(), **_QUIET, **environment},
            stdin=asyncio.subprocess.PIPE if has_input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            process_group=0,
            pass_fds=keeps_open,
        )
    except OSError as error:
        raise TreeUnavailable(f"git cannot be run in {folder}: {error.strerror}") from error
