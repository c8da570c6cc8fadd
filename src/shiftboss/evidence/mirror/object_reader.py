"""One git process that reads objects of a mirror for as long as a claim is verified.

Starting a git process costs more than its answer. Whatever goes wrong with this one (git before
2.36 does not have its command, and any process can be killed), a process of its own answers the
question, and says what is wrong if it cannot answer either.

The process sees what is fetched while it runs: git reads a ref whenever it is named, and looks for
new packs before it says that an object is missing.
"""

from __future__ import annotations

import asyncio
import re
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final, TypeVar

from shiftboss.evidence.mirror.objects import ALL_BYTES_MAX, Objects
from shiftboss.system.git import GIT_SECONDS, running_git, too_slow
from shiftboss.system.processes.cancellation import run_to_completion

T = TypeVar("T")

# The answer about a missing object repeats its name.
LINE_BYTES_MAX: Final = 1 << 20
COMMIT_BYTES_MAX: Final = 1 << 20
# A longer history is a question for one `rev-list`, which takes as long as some twenty answers.
WALK_STEPS_MAX: Final = 16
WALK_COMMITS_MAX: Final = 64
_COMMIT: Final = re.compile(
    rb"tree (?:[0-9a-f]{40}|[0-9a-f]{64})\n"
    rb"((?:parent (?:[0-9a-f]{40}|[0-9a-f]{64})\n)*)author "
)


class _UnreadableError(Exception):
    """An answer that is too large, or none of the format that git documents."""


class ObjectReader:
    """`plain` answers what the process does not. Several callers may ask at once."""

    def __init__(self, repository: Path, plain: Objects) -> None:
        self._repository = repository
        self._plain = plain
        self._turn = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._process: Process | None = None
        self._is_usable = True
        self._parents: dict[str, list[str]] = {}
        # Listings of commits while the reader is open, by commit and path.
        self.regular_files: dict[str, dict[str, str]] = {}

    async def close(self) -> None:
        """Kill the process. Callers that wait for an answer get it from a separate process."""
        self._is_usable = False
        await run_to_completion(self._end())

    async def facts(self, names: Sequence[str]) -> list[bytes]:
        async def read(pipe: asyncio.StreamReader) -> list[bytes]:
            return [await _line(pipe) for _ in names]

        answers = await self._ask([f"info {name}" for name in names], read)
        return await self._plain.facts(names) if answers is None else answers

    async def contents(self, ids: Sequence[str]) -> list[bytes]:
        answers = await self._contents(ids, ALL_BYTES_MAX)
        return await self._plain.contents(ids) if answers is None else answers

    async def commits_since(self, base: str, commit: str) -> dict[str, list[str]] | None:
        """The parents of each commit that the base does not have, the newest first, if all of them
        descend from the base and are few. None says nothing.

        If every line of parents ends at the base, none of these commits is in its history: that
        would lead past the base, to a commit without parents.
        """
        found: dict[str, list[str]] = {}
        frontier = [commit] if commit != base else []
        for _ in range(WALK_STEPS_MAX):
            if not frontier:
                return found
            if len(found) + len(frontier) > WALK_COMMITS_MAX or not await self._learn(frontier):
                return None
            found |= {sha: self._parents[sha] for sha in frontier}
            if not all(found[sha] for sha in frontier):
                return None  # a commit without parents
            parents = dict.fromkeys(parent for sha in frontier for parent in found[sha])
            frontier = [sha for sha in parents if sha != base and sha not in found]
        return None

    async def _learn(self, commits: Sequence[str]) -> bool:
        """Whether the parents of these commits are known."""
        unknown = [sha for sha in commits if sha not in self._parents]
        contents = await self._contents(unknown, COMMIT_BYTES_MAX) if unknown else []
        if contents is None:
            return False
        for sha, content in zip(unknown, contents, strict=True):
            parsed = _COMMIT.match(content)
            if parsed is None:
                return False
            self._parents[sha] = parsed[1].decode().replace("parent ", "").split()
        return True

    async def _contents(self, ids: Sequence[str], bytes_max: int) -> list[bytes] | None:
        async def read(pipe: asyncio.StreamReader) -> list[bytes]:
            contents: list[bytes] = []
            left = bytes_max
            for _ in ids:
                size = _size(await _line(pipe))
                left -= size
                if left < 0:
                    raise _UnreadableError
                contents.append((await pipe.readexactly(size + 1))[:-1])
            return contents

        return await self._ask([f"contents {name}" for name in ids], read)

    async def _ask(
        self, commands: Sequence[str], read: Callable[[asyncio.StreamReader], Awaitable[T]]
    ) -> T | None:
        """None if there is no answer, and then never again: the rest of one could be in the way."""
        async with self._turn:
            if not self._is_usable:
                return None
            self._is_usable = False
            try:
                async with asyncio.timeout(GIT_SECONDS):
                    answer = await self._exchange(commands, read)
            except TimeoutError:
                raise too_slow("cat-file", GIT_SECONDS) from None
            # RuntimeError: uvloop, if the process has closed its input.
            except (ConnectionError, EOFError, RuntimeError):
                return None
            except (_UnreadableError, asyncio.LimitOverrunError):
                return None
            self._is_usable = True
            return answer

    async def _exchange(
        self, commands: Sequence[str], read: Callable[[asyncio.StreamReader], Awaitable[T]]
    ) -> T:
        if self._process is None:
            self._process = await self._stack.enter_async_context(
                running_git(
                    ["cat-file", "--batch-command", "--buffer"],
                    self._repository,
                    {"GIT_DIR": str(self._repository)},
                    has_stdin=True,
                    stderr=DEVNULL,
                    line_bytes_max=LINE_BYTES_MAX,
                )
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Git answers after the last command, so that it reads all of them without a reader.
        lines = "".join(f"{command}\n" for command in (*commands, "flush"))
        self._process.stdin.write(lines.encode(errors="surrogateescape"))
        await self._process.stdin.drain()
        return await read(self._process.stdout)

    async def _end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        async with self._turn:
            self._is_usable = False
            await self._stack.aclose()


async def _line(pipe: asyncio.StreamReader) -> bytes:
    return (await pipe.readuntil())[:-1]


def _size(line: bytes) -> int:
    """That of an object, from the line before its content: its id, kind and size."""
    fields = line.split(b" ")
    if len(fields) != 3 or not fields[2].isdigit():
        raise _UnreadableError
    return int(fields[2])
