"""Reading many objects with one git."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

from shiftboss.system.git import GitOutput, checked

# Together, so that a thousand large files do not fill the memory.
ALL_BYTES_MAX: Final = 48 * 1024 * 1024

RunGit = Callable[[Sequence[str], bytes], Awaitable[GitOutput]]


class GitObject(NamedTuple):
    """An object: its full id, its kind and its size. Ambiguous: the name fits several."""

    id: str
    kind: str
    size: int


async def look_up(run: RunGit, names: Sequence[str]) -> list[GitObject | None]:
    """What each name (an id, a prefix of one, a ref, `commit:path`) stands for, in order.

    A prefix that fits several objects gives a `kind` of "ambiguous".
    """
    plain = [name for name in names if "\n" not in name]
    lines = "".join(f"{name}\n" for name in plain).encode(errors="surrogateescape")
    out = checked(await run(["cat-file", "--batch-check"], lines), "looking up objects")
    answers = [_found(line) for line in out.split(b"\n")[: len(plain)]]
    by_name = dict(zip(plain, answers, strict=True))
    return [by_name.get(name) for name in names]


async def read_blobs(
    run: RunGit, names: Sequence[str], size_max: int, total_max: int = ALL_BYTES_MAX
) -> dict[str, bytes]:
    """The blobs among the names by name, without those above `size_max`. When it becomes too much,
    the first ones are read."""
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
    lines = "".join(f"{one}\n" for _, one in wanted).encode()
    out = checked(await run(["cat-file", "--batch"], lines), "reading objects")
    return dict(zip((name for name, _ in wanted), _contents(out), strict=True))


def _found(line: bytes) -> GitObject | None:
    # A name may hold spaces; what git adds is at the end.
    words = line.decode(errors="surrogateescape").split(" ")
    if words[-1] == "missing":
        return None
    if words[-1] == "ambiguous":
        return GitObject("", "ambiguous", 0)
    return GitObject(words[0], words[1], int(words[2]))


def _contents(out: bytes) -> list[bytes]:
    contents = []
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        size = int(out[at:end].rsplit(b" ", 1)[1])
        contents.append(out[end + 1 : end + 1 + size])
        at = end + 1 + size + 1
    return contents
