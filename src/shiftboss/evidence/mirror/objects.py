"""Reading many git objects at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

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


class Objects(Protocol):
    """Where objects are read."""

    async def facts(self, names: Sequence[str]) -> list[bytes]:
        """The output of `git cat-file --batch-check` for each name."""
        ...

    async def contents(self, ids: Sequence[str]) -> list[bytes]:
        """The contents of objects that exist."""
        ...


class SingleCommands:
    """Each answer comes from a git process of its own."""

    def __init__(self, run: RunGit) -> None:
        self._run = run

    async def facts(self, names: Sequence[str]) -> list[bytes]:
        output = await self._run(["cat-file", "--batch-check"], _lines(names))
        return checked(output, "looking up objects").split(b"\n")[: len(names)]

    async def contents(self, ids: Sequence[str]) -> list[bytes]:
        output = await self._run(["cat-file", "--batch"], _lines(ids))
        return _contents(checked(output, "reading objects"))


async def look_up(objects: Objects, names: Sequence[str]) -> list[GitObject | None]:
    """The object that each name means: an id, a prefix of one, a ref or `commit:path`."""
    plain = [name for name in names if "\n" not in name]
    if not plain:
        return [None for _ in names]
    found = [_parse_object(line) for line in await objects.facts(plain)]
    by_name = dict(zip(plain, found, strict=True))
    return [by_name.get(name) for name in names]


async def read_blobs(
    objects: Objects, names: Sequence[str], size_max: int, total_max: int = ALL_BYTES_MAX
) -> dict[str, bytes]:
    """The contents of the blobs among the names, by name. Blobs above `size_max` are left out, and
    all that follow when the sum exceeds `total_max`."""
    wanted: list[tuple[str, str]] = []
    total = 0
    for name, found in zip(names, await look_up(objects, names), strict=True):
        if found is None or found.kind != "blob" or found.size > size_max:
            continue
        total += found.size
        if total > total_max:
            break
        wanted.append((name, found.id))
    if not wanted:
        return {}
    contents = await objects.contents([blob for _, blob in wanted])
    return dict(zip((name for name, _ in wanted), contents, strict=True))


def _lines(names: Sequence[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode(errors="surrogateescape")


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
