"""Reading many git objects with one git process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from shiftboss.system.git import GitOutput, checked

# The sum of all objects, so that a thousand large files do not fill the memory.
ALL_BYTES_MAX: Final = 48 * 1024 * 1024

RunGit = Callable[[Sequence[str], bytes], Awaitable[GitOutput]]


class GitObject(NamedTuple):
    """`kind` is "ambiguous" if the name fits several objects."""

    id: str
    kind: str
    size: int


async def regular_files(run: RunGit, commit: str) -> dict[str, str]:
    """The blob of each regular file of the commit, by its path. Names that are not UTF-8 are left
    out."""
    listed = checked(await run(["ls-tree", "-r", "-z", commit], b""), "the files")
    blobs = {}
    for entry in listed.split(b"\0"):
        if entry.startswith(b"100"):
            facts, _, path = entry.partition(b"\t")
            with suppress(UnicodeDecodeError):
                blobs[path.decode()] = facts.split()[2].decode()
    return blobs


async def look_up(run: RunGit, names: Sequence[str]) -> list[GitObject | None]:
    """The object that each name means: an id, a prefix of one, a ref or `commit:path`."""
    plain = [name for name in names if "\n" not in name]
    if not plain:
        return [None for _ in names]
    lines = "".join(f"{name}\n" for name in plain).encode(errors="surrogateescape")
    out = checked(await run(["cat-file", "--batch-check"], lines), "looking up objects")
    objects = [_parse_object(line) for line in out.split(b"\n")[: len(plain)]]
    by_name = dict(zip(plain, objects, strict=True))
    return [by_name.get(name) for name in names]


async def read_blobs(
    run: RunGit, names: Sequence[str], size_max: int, total_max: int = ALL_BYTES_MAX
) -> dict[str, bytes]:
    """The contents of the blobs among the names, by name. Blobs above `size_max` are left out, and
    all that follow when the sum exceeds `total_max`."""
    wanted: list[tuple[str, str]] = []
    total = 0
    for name, found in zip(names, await look_up(run, names), strict=True):
        if found is None or found.kind != "blob" or found.size > size_max:
            continue
        total += found.size
        if total > total_max:
            break
        wanted.append((name, found.id))
    if not wanted:
        return {}
    lines = "".join(f"{blob}\n" for _, blob in wanted).encode()
    out = checked(await run(["cat-file", "--batch"], lines), "reading objects")
    return dict(zip((name for name, _ in wanted), _contents(out), strict=True))


def _parse_object(line: bytes) -> GitObject | None:
    # A name may contain spaces; git appends its answer.
    fields = line.decode(errors="surrogateescape").split(" ")
    if fields[-1] == "missing":
        return None
    if fields[-1] == "ambiguous":
        return GitObject("", "ambiguous", 0)
    return GitObject(fields[0], fields[1], int(fields[2]))


def _contents(out: bytes) -> list[bytes]:
    contents = []
    start = 0
    while start < len(out):
        header_end = out.index(b"\n", start)
        size = int(out[start:header_end].rsplit(b" ", 1)[1])
        contents.append(out[header_end + 1 : header_end + 1 + size])
        start = header_end + 1 + size + 1
    return contents
