"""The verifier's own copies of repositories.

Git checks every object by its hash when it is fetched, and nothing else comes with it: no
configuration, hooks, attributes, replacements or grafts. What is read here is what the commits say.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shiftboss.errors import EvidenceUnavailable, UnknownRepo
from shiftboss.evidence.mirror.objects import ALL_BYTES_MAX, GitObject, look_up, read_blobs
from shiftboss.evidence.mirror.repository import existing_folder
from shiftboss.system.git import GitOutput, checked, git

# What a repository is made of, looked at before git reads it.
#
# Git opens what it finds. A pipe with nobody at its other end in the place of a ref, and it waits
# for ever.


_FILES: Final = ("HEAD", "config", "packed-refs", "shallow", "commondir")
_FOLDERS: Final = ("refs", "info", "objects/info", "objects/pack")
# Beyond this it is left to the time limit of git.
_ENTRIES_MAX: Final = 500_000


def strange_file(repository: Path, *, with_objects: bool) -> Path | None:
    """The first thing that git may read and that is neither a file nor a folder."""
    for name in _FILES:
        if _kind(repository / name) == "strange":
            return repository / name
    seen: set[tuple[int, int]] = set()
    waiting = [repository / name for name in (*_FOLDERS, *(["objects"] if with_objects else []))]
    entries = 0
    while waiting and entries < _ENTRIES_MAX:
        folder = waiting.pop()
        if not _is_new(folder, seen):
            continue
        with os.scandir(folder) as found:
            for entry in found:
                entries += 1
                kind = _kind_of_entry(entry)
                if kind == "strange":
                    return Path(entry.path)
                if kind == "folder":
                    waiting.append(Path(entry.path))
    return None


def _is_new(folder: Path, seen: set[tuple[int, int]]) -> bool:
    """Links can make circles."""
    try:
        status = folder.stat()
    except OSError:
        return False
    key = (status.st_dev, status.st_ino)
    if key in seen or not os.access(folder, os.R_OK | os.X_OK):
        return False
    seen.add(key)
    return True


def _kind_of_entry(entry: os.DirEntry[str]) -> str:
    """Without asking the file system again, but for links."""
    if entry.is_symlink():
        return _kind(Path(entry.path))
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "strange"


def _kind(path: Path) -> str:
    """What is not there is no trouble."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "nothing"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "strange"


FETCH_SECONDS: Final = 600.0
# What is new in a repository on this machine, and what it is: a worker can make them wait.
LOCAL_FETCH_SECONDS: Final = 30.0
LOOK_SECONDS: Final = 10.0
BRANCHES: Final = "refs/repo/"
BASES: Final = "refs/bases/"

_REMOTE: Final = re.compile(r"(https?|ssh)://[^-].*|[\w.-]+@[\w][\w.-]*:[^-].*")
# Git does not hand these settings on to the git at the other end by itself. They keep grafts and
# replacements of the repository out, and keep it from asking others for objects that it lacks.
_OTHER_END: Final = (
    "env GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1 "
    "GIT_GRAFT_FILE=/dev/null git-upload-pack"
)


class Mirror:
    """A bare repository with the branches of another one under `refs/repo/`."""

    def __init__(self, path: Path, source: str) -> None:
        self.path = path
        # Held by who looks at a claim: a slow repository takes one turn, not all of them.
        self.in_use = asyncio.Lock()
        self._source = source
        self._turn = asyncio.Lock()

    async def run(self, arguments: Sequence[str], stdin: bytes = b"") -> GitOutput:
        return await git(arguments, self.path, stdin=stdin, environment={"GIT_DIR": str(self.path)})

    async def output(self, what: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """Of a git that must not fail; `what` it was about is told when it does."""
        return checked(await self.run(arguments, stdin), what)

    async def refresh(self, *, tidy: bool = True) -> None:
        """Fetch the branches as they are now. `tidy` lets git pack up when it is time to."""
        async with self._turn:
            if not self.path.exists():
                await self._create()
            maintenance = "--auto-maintenance" if tidy else "--no-auto-maintenance"
            said = await self._fetch([maintenance, "--prune"], f"+refs/heads/*:{BRANCHES}*")
        if said.code != 0:
            raise EvidenceUnavailable(
                f"{self._source} cannot be fetched: {said.first_error}",
                hint="look whether the repository is whole: git fsck",
            )

    async def hold(self, commit: str) -> None:
        """Get a commit that may be on no branch, and keep it."""
        async with self._turn:
            await self._fetch(["--no-auto-maintenance"], f"+{commit}:{BASES}{commit}")

    async def kind_at_source(self, name: str) -> str | None:
        """What the repository itself has by this id. None: nothing, or it is elsewhere."""
        if not self._is_local:
            return None
        said = await git(["cat-file", "-t", name], Path(self._source), seconds=LOOK_SECONDS)
        return said.out.decode().strip() if said.code == 0 else None

    async def look_up(self, names: Sequence[str]) -> list[GitObject | None]:
        return await look_up(self.run, names)

    async def read(
        self, names: Sequence[str], size_max: int, total_max: int = ALL_BYTES_MAX
    ) -> dict[str, bytes]:
        return await read_blobs(self.run, names, size_max, total_max)

    async def is_ancestor(self, older: str, newer: str) -> bool:
        said = await self.run(["merge-base", "--is-ancestor", older, newer])
        if said.code not in (0, 1):
            raise EvidenceUnavailable(f"the history of {newer}: {said.first_error}")
        return said.code == 0

    async def _create(self) -> None:
        """Under another name first: a mirror that is there is whole."""
        parent = self.path.parent
        await asyncio.to_thread(parent.mkdir, parents=True, exist_ok=True, mode=0o700)
        made = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="new-", dir=parent))
        try:
            said = await git(
                # HEAD names no branch of the repository: git looks for attributes there.
                ["init", "--quiet", "--bare", "--template=", "--initial-branch=none", str(made)],
                parent,
            )
            checked(said, "making a mirror")
            await asyncio.to_thread(made.rename, self.path)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise

    @property
    def _is_local(self) -> bool:
        return self._source.startswith("/")

    async def _fetch(self, options: Sequence[str], refspec: str) -> GitOutput:
        # A local repository is served by a git that we start; it is told what to leave alone.
        other_end = [f"--upload-pack={_OTHER_END}"] if self._is_local else []
        seconds = await self._look_before_fetching() if self._is_local else FETCH_SECONDS
        return await git(
            [
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap="),
                *("--no-recurse-submodules", *other_end, *options, "--", self._source, refspec),
            ],
            self.path,
            seconds=seconds,
            environment={
                "GIT_DIR": str(self.path),
                "GIT_ALLOW_PROTOCOL": "file" if self._is_local else "http:https:ssh",
            },
        )

    async def _look_before_fetching(self) -> float:
        """How long the fetch may take. To copy all of a large repository takes its time; then all
        of it is looked at, too."""
        is_first = not ((self.path / BRANCHES).exists() or (self.path / "packed-refs").exists())
        strange = await asyncio.to_thread(strange_file, Path(self._source), with_objects=is_first)
        if strange is not None:
            raise EvidenceUnavailable(
                f"{self._source} cannot be fetched: {strange} is neither a file nor a folder",
                hint="remove it",
            )
        return FETCH_SECONDS if is_first else LOCAL_FETCH_SECONDS


class Mirrors:
    """One mirror for each repository, whichever of its work trees it is named by."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mirrors: dict[str, Mirror] = {}

    async def of(self, repo: str) -> Mirror:
        source = await _source_of(repo)
        if source not in self._mirrors:
            name = hashlib.sha256(source.encode(errors="surrogateescape")).hexdigest()[:32]
            self._mirrors[source] = Mirror(self._folder / f"{name}.git", source)
        return self._mirrors[source]


async def _source_of(repo: str) -> str:
    """The folder that the work trees of a repository share, or its address."""
    if _REMOTE.fullmatch(repo):
        return repo
    folder = existing_folder(repo)
    said = await git(
        [
            *("rev-parse", "--is-shallow-repository"),
            *("--path-format=absolute", "--git-common-dir"),
        ],
        folder,
        seconds=LOOK_SECONDS,
    )
    if said.code != 0:
        raise UnknownRepo(
            f"{repo} is not a git repository", field="repo", hint="give the path of a work tree"
        )
    is_shallow, _, path = said.out.decode(errors="surrogateescape").rstrip("\n").partition("\n")
    if is_shallow == "true":
        raise EvidenceUnavailable(
            f"{repo} is shallow: its history is cut off", hint="git fetch --unshallow"
        )
    common = Path(path)
    return str(await asyncio.to_thread(common.resolve))
