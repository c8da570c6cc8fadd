"""The changes of commits, parsed from the output of git."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.rules.paths.changes import CommitChange, FileChange, NetChange

# With more deleted or added files, only renames without a change of the content are found.
RENAMES_MAX: Final = 1000
# Of the files whose changed lines are asked for at once. Their names are arguments of git.
DIFFED_FILES_MAX: Final = 100

_LISTING: Final = (
    "diff-tree",
    "-r",
    "-z",
    "--raw",
    "--no-abbrev",
    "--no-ext-diff",
    "--no-textconv",
)
_HUNK: Final = re.compile(rb"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")


class CountedChange(NamedTuple):
    """A changed file with its numbers of lines; None for a binary file."""

    file: FileChange
    added: int | None
    removed: int | None


async def counted_changes(mirror: Mirror, before: str, after: str) -> list[CountedChange]:
    arguments = (*_LISTING, "--numstat", "-M", f"-l{RENAMES_MAX}", before, after)
    tokens = iter((await mirror.output("the changes", *arguments)).split(b"\0"))
    files: list[FileChange] = []
    counts: list[tuple[int | None, int | None]] = []  # in the same order
    for token in tokens:
        if token.startswith(b":"):
            files.append(_file_change(token, tokens))
        elif token:
            plus, minus, path = token.split(b"\t", 2)
            counts.append((_count(plus), _count(minus)))
            if not path:  # a rename: both names follow
                next(tokens)
                next(tokens)
    return [CountedChange(file, *count) for file, count in zip(files, counts, strict=True)]


def _count(number: bytes) -> int | None:
    return None if number == b"-" else int(number)


async def net_change(mirror: Mirror, before: str, after: str) -> NetChange:
    changes = await counted_changes(mirror, before, after)
    added = sum(change.added or 0 for change in changes)
    removed = sum(change.removed or 0 for change in changes)
    return NetChange([change.file for change in changes], added, removed)


async def plain_change(mirror: Mirror, before: str, after: str) -> list[FileChange]:
    """The changes path by path. A rename counts as one deleted and one new file."""
    arguments = (*_LISTING, "--no-renames", before, after)
    tokens = iter((await mirror.output("the changes", *arguments)).split(b"\0"))
    return [_file_change(token, tokens) for token in tokens if token]


async def changes_of(mirror: Mirror, commits: Sequence[str]) -> list[CommitChange]:
    """The changes of each commit, in order. A rename counts as one deleted and one new file."""
    lines = "".join(f"{commit}\n" for commit in commits).encode()
    arguments = (*_LISTING, "--stdin", "--root", "-c", "--no-renames")
    tokens = iter((await mirror.output("the changes", *arguments, stdin=lines)).split(b"\0"))
    changes = []
    commit = ""
    for token in tokens:
        if token.startswith(b":"):
            changes.append(
                CommitChange(commit, token.startswith(b"::"), _file_change(token, tokens))
            )
        elif token:
            commit = token.decode()
    return changes


async def changed_lines(
    mirror: Mirror, before: str, after: str, files: Sequence[FileChange]
) -> dict[str, frozenset[int]]:
    """The numbers of the new and changed lines of these files, at most of the first 100."""
    names = [path for file in files[:DIFFED_FILES_MAX] if file.is_utf8 for path in file.paths]
    if not names:
        return {}
    arguments = (
        *("-c", "core.quotePath=false", "diff-tree", "-r", "-p", "--unified=0", "--text"),
        *("--no-ext-diff", "--no-textconv", "--no-color", "-M", f"-l{RENAMES_MAX}"),
        *("--src-prefix=a/", "--dst-prefix=b/", before, after, "--", *names),
    )
    return _lines_of_patch(await mirror.output("the changed lines", *arguments))


def _lines_of_patch(patch: bytes) -> dict[str, frozenset[int]]:
    """Without context, lines of a file start with plus, minus or a backslash, other lines do not.
    Names with control characters are quoted, and left out."""
    lines: dict[str, set[int]] = {}
    path: str | None = None
    is_header = False
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):
            path, is_header = None, True
        elif is_header and line.startswith(b"+++ b/"):
            # Git marks the end of a name that has a space.
            path = line[6:].removesuffix(b"\t").decode(errors="replace")
        elif path is not None and (hunk := _HUNK.match(line)):
            is_header = False
            start, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(start, start + count))
    return {path: frozenset(numbers) for path, numbers in lines.items() if numbers}


def _file_change(token: bytes, tokens: Iterator[bytes]) -> FileChange:
    """A merge lists a mode and an object per parent; those of the first parent are used."""
    parents = len(token) - len(token.lstrip(b":"))
    fields = token[parents:].decode().split(" ")
    modes, blobs, status = fields[: parents + 1], fields[parents + 1 : -1], fields[-1]
    first, is_utf8 = _name(next(tokens))
    change = FileChange(
        path=first,
        status=status[0],
        old_mode=modes[0],
        new_mode=modes[-1],
        old_blob=blobs[0],
        blob=blobs[-1],
        is_utf8=is_utf8,
    )
    if status[0] != "R" or parents != 1:
        return change
    second, second_is_utf8 = _name(next(tokens))
    return change._replace(path=second, old_path=first, is_utf8=is_utf8 and second_is_utf8)


def _name(raw: bytes) -> tuple[str, bool]:
    try:
        return raw.decode(), True
    except UnicodeDecodeError:
        return raw.decode(errors="backslashreplace"), False
