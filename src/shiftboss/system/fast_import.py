"""The input of `git fast-import`, which makes commits without a work tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

FILE: Final = "100644"
PROGRAM: Final = "100755"
SYMLINK: Final = "120000"


def commit_start(
    ref: str, people: Sequence[bytes], message: bytes, parents: Sequence[bytes]
) -> bytes:
    """A commit on the ref, as the mark 1. `people` are lines such as `committer NAME <MAIL> TIME`.
    What it changes in the files of its first parent follows."""
    lines = [f"commit {ref}".encode(), b"mark :1", *people]
    merges = [
        b"%b %b\n" % (b"merge" if number else b"from", parent)
        for number, parent in enumerate(parents)
    ]
    return b"\n".join(lines) + b"\n" + _data(message) + b"".join(merges)


def written_file(path: str, content: bytes, mode: str = FILE) -> bytes:
    return b"M %b inline %b\n%b" % (mode.encode(), _quoted(path), _data(content))


def deleted_file(path: str) -> bytes:
    return b"D %b\n" % _quoted(path)


def written_note(commit: str, content: bytes) -> bytes:
    return b"N inline %b\n%b" % (commit.encode(), _data(content))


def _data(content: bytes) -> bytes:
    return b"data %d\n%b\n" % (len(content), content)


def _quoted(path: str) -> bytes:
    """Always in quotes: a path may begin with one, or contain a line break."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'.encode(errors="surrogateescape")
