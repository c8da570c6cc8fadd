"""The changes of commits, parsed from the output of git."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.rules.paths.changes import CommitChange, FileChange, NetChange

# With more deleted or added files, only renames without a change of the content are found.
RENAMES_MAX: Final = 1000

_LISTING: Final = (
    "diff-tree",
    "-r",
    "-z",
    "--raw",
    "--no-abbrev",
    "--no-ext-diff",
    "--no-textconv",
)


async def net_change(mirror: Mirror, before: str, after: str) -> NetChange:
    arguments = (*_LISTING, "--numstat", "-M", f"-l{RENAMES_MAX}", before, after)
    tokens = iter((await mirror.output("the changes", *arguments)).split(b"\0"))
    files = []
    added = deleted = 0
    for token in tokens:
        if token.startswith(b":"):
            files.append(_file_change(token, tokens))
        elif token:
            plus, minus, path = token.split(b"\t", 2)
            added += int(plus) if plus != b"-" else 0
            deleted += int(minus) if minus != b"-" else 0
            if not path:  # a rename: both names follow
                next(tokens)
                next(tokens)
    return NetChange(files, added, deleted)


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
