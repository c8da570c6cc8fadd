"""The difference between two commits for people to read, from our own mirror of the repository.

A worker chooses what is in its commits, so every part is bounded before git prints it: the number
of files, the size of each and of all of them, and the lines of the patch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from operator import le
from typing import Final

from shiftboss.evidence.mirror.changes import RENAMES_MAX, CountedChange, counted_changes
from shiftboss.evidence.mirror.mirror import BRANCHES, Mirror, Mirrors
from shiftboss.protocol.claims.diffs import DiffHunk, FileDiff, WorkDiff
from shiftboss.rules.documents.printable import printable, printable_source

FILES_MAX: Final = 300
FILE_BYTES_MAX: Final = 1 << 20
ALL_BYTES_MAX: Final = 16 << 20
FILE_LINES_MAX: Final = 3000
ALL_LINES_MAX: Final = 10_000
# The names are arguments of git.
NAME_CHARACTERS_MAX: Final = 100_000


class DiffReader:
    def __init__(self, mirrors: Mirrors) -> None:
        self._mirrors = mirrors

    async def diff(self, repo: str, base: str, rev: str) -> WorkDiff | None:
        """The differences from a commit to another one, or to a branch: `refs/heads/NAME`. None:
        there is no such commit, or no such branch."""
        mirror = await self._mirrors.of(repo)
        if rev.startswith("refs/heads/"):
            await mirror.refresh(maintain=False)
            commit = await _commit(mirror, BRANCHES + rev.removeprefix("refs/heads/"))
        else:
            commit = await _fetched(mirror, rev)
        start = None if commit is None else await _fetched(mirror, base)
        return None if commit is None or start is None else await _work_diff(mirror, start, commit)


async def _fetched(mirror: Mirror, commit: str) -> str | None:
    """The full id of a commit, which is fetched if the mirror does not have it yet."""
    if not mirror.path.exists():
        await mirror.refresh(maintain=False)
    found = await _commit(mirror, commit)
    if found is None:
        await mirror.refresh(maintain=False)
        found = await _commit(mirror, commit)
    if found is None:
        await mirror.hold(commit)
        found = await _commit(mirror, commit)
    return found


async def _commit(mirror: Mirror, name: str) -> str | None:
    found = (await mirror.look_up([f"{name}^{{commit}}"]))[0]
    return found.id if found is not None and found.kind == "commit" else None


async def _work_diff(mirror: Mirror, base: str, commit: str) -> WorkDiff:
    changes = await counted_changes(mirror, base, commit)
    shown = changes[:FILES_MAX]
    readable = await _readable(mirror, shown)
    hunks = await _hunks(mirror, base, commit, [change for change in shown if change in readable])
    files = [_file_diff(change, hunks.get(change.file.path)) for change in shown]
    return WorkDiff(
        base=base,
        commit=commit,
        files=files,
        files_changed=len(changes),
        truncated=len(shown) < len(changes),
    )


async def _readable(mirror: Mirror, changes: Sequence[CountedChange]) -> set[CountedChange]:
    """Those that are small enough, together as well. Others are listed without their lines."""
    names = [name for change in changes for name in (change.file.old_blob, change.file.blob)]
    sizes = [0 if found is None else found.size for found in await mirror.look_up(names)]
    readable: set[CountedChange] = set()
    left = (ALL_BYTES_MAX, ALL_LINES_MAX, NAME_CHARACTERS_MAX)
    for change, before, after in zip(changes, sizes[::2], sizes[1::2], strict=True):
        lines = (change.added or 0) + (change.removed or 0)
        is_small = max(before, after) <= FILE_BYTES_MAX and lines <= FILE_LINES_MAX
        if not is_small or change.added is None or not change.file.is_utf8:
            continue
        cost = (before + after, lines, sum(map(len, change.file.paths)))
        if all(map(le, cost, left)):
            readable.add(change)
            left = (left[0] - cost[0], left[1] - cost[1], left[2] - cost[2])
    return readable


async def _hunks(
    mirror: Mirror, base: str, commit: str, changes: Sequence[CountedChange]
) -> dict[str, list[DiffHunk]]:
    """The hunks of each file, by its path."""
    if not changes:
        return {}
    names = [path for change in changes for path in change.file.paths]
    arguments = (
        *("diff-tree", "-r", "-p", "--unified=3", "--no-ext-diff", "--no-textconv", "--no-color"),
        *("-M", f"-l{RENAMES_MAX}", "--src-prefix=a/", "--dst-prefix=b/", base, commit, "--"),
    )
    patch = await mirror.output("the changed lines", *arguments, *names)
    # A change of the type is printed as two: the old file is deleted, and the new one added.
    parts = [1 if change.file.status != "T" else 2 for change in changes]
    sections = parse_patch(patch, ALL_LINES_MAX * 4)
    if len(sections) != sum(parts):
        return {}  # among fewer files, git has found other renames
    hunks = {}
    for change, count in zip(changes, parts, strict=True):
        hunks[change.file.path] = [hunk for part in sections[:count] for hunk in part]
        sections = sections[count:]
    return hunks


def _file_diff(change: CountedChange, hunks: list[DiffHunk] | None) -> FileDiff:
    file = change.file
    is_binary = change.added is None
    return FileDiff(
        path=printable(file.path),
        old_path=None if file.old_path is None else printable(file.old_path),
        status=file.status,
        added=change.added,
        removed=change.removed,
        binary=is_binary,
        truncated=hunks is None and not is_binary,
        hunks=hunks or [],
    )


LINE_CHARACTERS_MAX: Final = 2000
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
# How many lines of the old and of the new file a line stands for.
_SIDES: Final = {b" ": (1, 1), b"-": (1, 0), b"+": (0, 1)}


def parse_patch(patch: bytes, lines_max: int) -> list[list[DiffHunk]]:
    """The hunks of each file, in the order of the files; after `lines_max` lines, none."""
    files: list[list[DiffHunk]] = []
    lines = iter(patch.split(b"\n"))
    for line in lines:
        if line.startswith(b"diff --git "):
            files.append([])
        elif files and (head := _HUNK.match(line)):
            hunk = _hunk(line, head, lines)
            lines_max -= len(hunk.lines)
            if lines_max >= 0:
                files[-1].append(hunk)
    return files


def _hunk(line: bytes, head: re.Match[bytes], lines: Iterator[bytes]) -> DiffHunk:
    old_left, new_left = int(head[2] or 1), int(head[4] or 1)
    content: list[tuple[str, str]] = []
    while old_left > 0 or new_left > 0:
        text = next(lines, None)
        if text is None:
            break
        sides = _SIDES.get(text[:1])
        if sides is None:  # such as "\ No newline at end of file"
            continue
        old_left, new_left = old_left - sides[0], new_left - sides[1]
        content.append((text[:1].decode(), _shown(text[1:])))
    return DiffHunk(
        header=_shown(line), old_start=int(head[1]), new_start=int(head[3]), lines=content
    )


def _shown(text: bytes) -> str:
    line = text.decode(errors="replace").removesuffix("\r")
    more = "..." if len(line) > LINE_CHARACTERS_MAX else ""
    return printable_source(line[:LINE_CHARACTERS_MAX]) + more
