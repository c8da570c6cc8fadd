"""Partial clones: repositories without objects that another repository, their promisor, has.

Git would fetch a missing object when it needs it, with the settings of the clone, which can name
any command. So we never let it. A promisor on this machine is fetched into the mirror instead, like
any other repository: objects are checked by their hashes, and nothing else is taken over.
"""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from shiftboss.errors import EvidenceUnavailable
from shiftboss.system.git import git

QUERY_SECONDS: Final = 10.0
# More remotes than this are not tried.
PROMISORS_MAX: Final = 3


class Promisor(NamedTuple):
    """The remote that has the missing objects. `folder` is None if it is on another machine."""

    remote: str
    folder: Path | None


async def promisors_of(repository: Path) -> list[Promisor]:
    """Empty for a repository that is complete. Its settings are read, but not used."""
    output = await git(
        ["config", "--local", "--null", "--get-regexp", r"^remote\..*\.(promisor|url)$"],
        repository,
        seconds=QUERY_SECONDS,
    )
    urls: dict[str, str] = {}
    promised: list[str] = []
    for entry in output.out.decode(errors="surrogateescape").split("\0"):
        key, _, value = entry.partition("\n")
        remote, _, name = key.removeprefix("remote.").rpartition(".")
        if name == "url":
            urls[remote] = value
        elif name == "promisor" and value.lower() in ("", "true", "yes", "on", "1"):
            promised.append(remote)
    return [
        Promisor(remote, await asyncio.to_thread(_folder, urls.get(remote, "")))
        for remote in promised[:PROMISORS_MAX]
    ]


def incomplete(repository: str, promisor: Promisor, error: str) -> EvidenceUnavailable:
    fetch = ["git", "-C", repository, "fetch", "--refetch", "--no-filter", promisor.remote]
    return EvidenceUnavailable(
        f"{repository} is a partial clone that lacks objects: {error}",
        hint=f"fetch everything: {shlex.join(fetch)}",
    )


def _folder(url: str) -> Path | None:
    """The git folder of a repository on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        folder = Path(unquote(parts.path))
    elif url.startswith("/"):
        folder = Path(url)
    else:
        return None
    if "\0" in url or not folder.is_dir():
        return None
    inner = folder / ".git"
    return (inner if inner.is_dir() else folder).resolve()
