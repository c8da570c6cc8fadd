"""Mirrors: our own copies of repositories.

Git checks the hash of every object that it fetches, and fetches nothing else: no configuration,
hooks, attributes, replacements or grafts. So what is read here is what the commits contain.

Before git reads a repository on this machine, its files are checked: git opens whatever it finds,
and a named pipe in the place of a ref would make it wait forever.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from shiftboss.defaults import STATE_FOLDER
from shiftboss.errors import EvidenceElsewhere, EvidenceUnavailable, UnknownRepo
from shiftboss.evidence.mirror.object_reader import ObjectReader
from shiftboss.evidence.mirror.objects import (
    ALL_BYTES_MAX,
    GitObject,
    SingleCommands,
    look_up,
    read_blobs,
    regular_files,
)
from shiftboss.evidence.mirror.partial_clones import incomplete, promisors_of
from shiftboss.evidence.mirror.repository import REPO_HINT, existing_folder
from shiftboss.evidence.mirror.transport import credentials_file, transport_environment
from shiftboss.rules.paths.branch_names import is_branch_name
from shiftboss.rules.paths.repo_urls import checked_url, is_url
from shiftboss.system.git import GitOutput, checked, git

FETCH_SECONDS: Final = 600.0
# For updates from a repository on this machine: a worker can make them slow.
LOCAL_FETCH_SECONDS: Final = 30.0
QUERY_SECONDS: Final = 10.0
BRANCHES: Final = "refs/repo/"
BASES: Final = "refs/bases/"
PROMISED: Final = "refs/promised/"

# Git does not pass these settings to the git that serves a fetch. They disable grafts and
# replacements, and keep that git from fetching missing objects from elsewhere.
_UPLOAD_PACK: Final = (
    "env GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1 "
    "GIT_GRAFT_FILE=/dev/null git-upload-pack"
)

# Of a 256th part of the objects. Git itself decides, but is not asked before.
LOOSE_OBJECTS_MAX: Final = 20
PACK_FILES_MAX: Final = 60

URL_HINT: Final = "give https://host/path, ssh://user@host/path or user@host:path"
_CONFIG: Final = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"

_GIT_FILES: Final = ("HEAD", "config", "packed-refs", "shallow", "commondir")
_GIT_FOLDERS: Final = ("refs", "info", "objects/info", "objects/pack")
# With more entries, only the time limit of git helps.
_ENTRIES_MAX: Final = 500_000


class Mirror:
    """A bare repository with the branches of another one under `refs/repo/`. Commands in a checkout
    must see neither the `hidden` folders and files, nor the state beside the other repository."""

    def __init__(self, path: Path, source: str, hidden: Sequence[Path]) -> None:
        self.path = path
        self.hidden = [*hidden, *_state_beside(source)]
        # Held while a claim is verified: a slow repository must not take all turns.
        self.in_use = asyncio.Lock()
        self.source = source
        self._fetching = asyncio.Lock()
        self._plain = SingleCommands(self.run)
        self._reader: ObjectReader | None = None

    @asynccontextmanager
    async def one_reader(self) -> AsyncIterator[None]:
        """Within, one git process answers all questions about objects. Only for the owner of
        `in_use`."""
        self._reader = reader = ObjectReader(self.path, self._plain)
        try:
            yield
        finally:
            self._reader = None
            await reader.close()

    async def run(self, arguments: Sequence[str], stdin: bytes = b"") -> GitOutput:
        return await git(arguments, self.path, stdin=stdin, environment={"GIT_DIR": str(self.path)})

    async def output(self, what: str, *arguments: str, stdin: bytes = b"") -> bytes:
        """The output of git. Raises EvidenceUnavailable, with `what` it was about, if git
        failed."""
        return checked(await self.run(arguments, stdin), what)

    async def refresh(self, *, maintain: bool = True) -> None:
        """Fetch the branches as they are now. `maintain` lets git repack when it is due."""
        async with self._fetching:
            is_new = not self.path.exists()
            if is_new:
                await self._create()
            is_due = (
                maintain and not is_new and await asyncio.to_thread(_may_need_repacking, self.path)
            )
            maintenance = "--auto-maintenance" if is_due else "--no-auto-maintenance"
            options, refspec = [maintenance, "--prune"], f"+refs/heads/*:{BRANCHES}*"
            output = await self._fetch(self.source, options, refspec)
            if output.code != 0 and await self._fetch_promised(output.first_error):
                output = await self._fetch(self.source, options, refspec)
        if output.code != 0:
            raise self._unfetched(output.first_error)

    def _unfetched(self, error: str) -> EvidenceUnavailable:
        """A worker can break a repository on this machine. Whether another one can be reached
        depends on the network and the credentials of this machine."""
        text = f"{self.source} cannot be fetched: {error}"
        if self.is_local:
            return EvidenceUnavailable(text, hint="check the repository with git fsck")
        return EvidenceElsewhere(text, hint="check the address, the network and the credentials")

    async def hold(self, commit: str) -> None:
        """Fetch a commit that may be on no branch, and keep it."""
        async with self._fetching:
            refspec = f"+{commit}:{BASES}{commit}"
            await self._fetch(self.source, ["--no-auto-maintenance"], refspec)

    async def default_branch(self) -> str | None:
        """The branch that HEAD of a repository on another machine names."""
        output = await git(
            ["ls-remote", "--symref", "--", self.source, "HEAD"],
            self.path,
            seconds=FETCH_SECONDS,
            environment={"GIT_DIR": str(self.path), **transport_environment(self.is_local)},
        )
        if output.code != 0:
            raise self._unfetched(output.first_error)
        first = output.out.decode(errors="replace").partition("\n")[0]
        ref = first.removeprefix("ref: ").partition("\t")[0]
        branch = ref.removeprefix("refs/heads/")
        return branch if branch != ref and is_branch_name(branch) else None

    async def kind_at_source(self, name: str) -> str | None:
        """The kind of the object in the repository itself. None: it is missing, or the repository
        is on another machine."""
        if not self.is_local:
            return None
        output = await git(["cat-file", "-t", name], Path(self.source), seconds=QUERY_SECONDS)
        return output.out.decode().strip() if output.code == 0 else None

    async def tips_at_source(self, branches: Sequence[str]) -> dict[str, str] | None:
        """The commits of these branches in the repository itself, as far as they exist. None: it is
        on another machine, or cannot be read."""
        if not self.is_local:
            return None
        await self._check_before_fetch(self.source)
        refs = [f"refs/heads/{branch}" for branch in branches]
        output = await git(
            ["for-each-ref", "--format=%(objectname) %(refname)", *refs],
            Path(self.source),
            seconds=QUERY_SECONDS,
        )
        if output.code != 0 or output.err:
            return None
        listed = output.out.decode(errors="surrogateescape").splitlines()
        tips = {ref: commit for commit, _, ref in (line.partition(" ") for line in listed)}
        return {
            branch: tips[ref] for branch, ref in zip(branches, refs, strict=True) if ref in tips
        }

    async def look_up(self, names: Sequence[str]) -> list[GitObject | None]:
        return await look_up(self._reader or self._plain, names)

    async def read(
        self, names: Sequence[str], size_max: int, total_max: int = ALL_BYTES_MAX
    ) -> dict[str, bytes]:
        return await read_blobs(self._reader or self._plain, names, size_max, total_max)

    async def regular_files(self, commit: str) -> dict[str, str]:
        """The blob of each regular file of the commit, by its path. Listed only once."""
        known = self._reader.regular_files if self._reader is not None else {}
        if commit not in known:
            known[commit] = await regular_files(self.run, commit)
        return known[commit]

    async def commits_since(self, base: str, commit: str) -> dict[str, list[str]] | None:
        """As far as it is known without a process of its own: see the reader."""
        return await self._reader.commits_since(base, commit) if self._reader else None

    async def is_ancestor(self, older: str, newer: str) -> bool:
        if await self.commits_since(older, newer) is not None:
            return True
        output = await self.run(["merge-base", "--is-ancestor", older, newer])
        if output.code not in (0, 1):
            raise EvidenceUnavailable(f"the history of {newer}: {output.first_error}")
        return output.code == 0

    async def _create(self) -> None:
        """Under a temporary name first: a mirror with its final name is complete."""
        parent = self.path.parent
        await asyncio.to_thread(parent.mkdir, parents=True, exist_ok=True, mode=0o700)
        temporary = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="new-", dir=parent))
        try:
            await asyncio.to_thread(_init_bare, temporary)
            await asyncio.to_thread(temporary.rename, self.path)
        except BaseException as error:
            shutil.rmtree(temporary, ignore_errors=True)
            if isinstance(error, OSError):
                raise EvidenceElsewhere(f"creating a mirror: {error.strerror}") from error
            raise

    @property
    def is_local(self) -> bool:
        """Whether the repository is a folder on this machine."""
        return self.source.startswith("/")

    async def _fetch_promised(self, error: str) -> bool:
        """Fetch what a partial clone lacks. False if the repository is complete.

        Raises EvidenceUnavailable if the objects are on another machine."""
        promisors = await promisors_of(Path(self.source)) if self.is_local else []
        for number, promisor in enumerate(promisors):
            if promisor.folder is None:
                raise incomplete(self.source, promisor, error)
            refspec = f"+refs/heads/*:{PROMISED}{number}/*"
            output = await self._fetch(str(promisor.folder), ["--no-auto-maintenance"], refspec)
            if output.code != 0:
                raise incomplete(self.source, promisor, output.first_error)
        return bool(promisors)

    async def _fetch(self, source: str, options: Sequence[str], refspec: str) -> GitOutput:
        # A local repository is served by a git that we start with our own settings.
        upload_pack = [f"--upload-pack={_UPLOAD_PACK}"] if self.is_local else []
        seconds = await self._check_before_fetch(source) if self.is_local else FETCH_SECONDS
        return await git(
            [
                *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--refmap="),
                *("--no-recurse-submodules", *upload_pack, *options, "--", source, refspec),
            ],
            self.path,
            seconds=seconds,
            environment={"GIT_DIR": str(self.path), **transport_environment(self.is_local)},
        )

    async def _check_before_fetch(self, source: str) -> float:
        """The time limit of the fetch. The first fetch copies everything, which may take long; then
        the objects are checked, too."""
        is_first = not ((self.path / BRANCHES).exists() or (self.path / "packed-refs").exists())
        special = await asyncio.to_thread(special_file, Path(source), with_objects=is_first)
        if special is not None:
            raise EvidenceUnavailable(
                f"{source} cannot be fetched: {special} is neither a file nor a folder",
                hint="remove it",
            )
        return FETCH_SECONDS if is_first else LOCAL_FETCH_SECONDS


class Mirrors:
    """One mirror for each repository, regardless of the work tree that names it."""

    def __init__(self, folder: Path, hidden: Sequence[Path]) -> None:
        self._folder = folder
        credentials = credentials_file()
        self._hidden = [*hidden, *([credentials] if credentials is not None else [])]
        self._mirrors: dict[str, Mirror] = {}

    async def of(self, repo: str) -> Mirror:
        source = await source_of(repo)
        if source not in self._mirrors:
            name = hashlib.sha256(source.encode(errors="surrogateescape")).hexdigest()[:32]
            self._mirrors[source] = Mirror(self._folder / f"{name}.git", source, self._hidden)
        return self._mirrors[source]


def _init_bare(folder: Path) -> None:
    """The files of `git init --bare`, without a process. HEAD must name no branch of the
    repository: git reads attributes from HEAD."""
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (folder / name).mkdir(parents=True)
    (folder / "config").write_text(_CONFIG)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")


def _may_need_repacking(mirror: Path) -> bool:
    """Whether it is worth two processes to ask git, which repacks when a 256th part of all objects,
    those in this folder, are more than 27, or the packs more than 50."""
    loose, packs = mirror / "objects" / "17", mirror / "objects" / "pack"
    return _entries(loose) > LOOSE_OBJECTS_MAX or _entries(packs) > PACK_FILES_MAX


def _entries(folder: Path) -> int:
    try:
        return sum(1 for _ in folder.iterdir())
    except FileNotFoundError:
        return 0


def _state_beside(source: str) -> list[Path]:
    """The state folder of runs in the repository, where it usually is."""
    return [Path(source).parent / STATE_FOLDER] if source.startswith("/") else []


async def source_of(repo: str) -> str:
    """The folder that the work trees of a repository share, or its URL."""
    if is_url(repo):
        try:
            repo = checked_url(repo)
        except ValueError as error:
            raise UnknownRepo(f"repo: {error}", field="repo", hint=URL_HINT) from None
        if not repo.startswith("/"):
            return repo
    folder = existing_folder(repo)
    output = await git(
        [
            *("rev-parse", "--is-shallow-repository"),
            *("--path-format=absolute", "--git-common-dir"),
        ],
        folder,
        seconds=QUERY_SECONDS,
    )
    if output.code != 0:
        raise UnknownRepo(
            f"{repo} is not a git repository",
            field="repo",
            hint=REPO_HINT,
        )
    is_shallow, _, path = output.out.decode(errors="surrogateescape").rstrip("\n").partition("\n")
    if is_shallow == "true":
        raise EvidenceElsewhere(f"{repo} is a shallow clone", hint="git fetch --unshallow")
    common = Path(path)
    return str(await asyncio.to_thread(common.resolve))


def special_file(repository: Path, *, with_objects: bool) -> Path | None:
    """The first entry that git may read and that is neither a file nor a folder."""
    for name in _GIT_FILES:
        if _kind(repository / name) == "special":
            return repository / name
    seen: set[tuple[int, int]] = set()
    pending = [
        repository / name for name in (*_GIT_FOLDERS, *(["objects"] if with_objects else []))
    ]
    entries = 0
    while pending and entries < _ENTRIES_MAX:
        folder = pending.pop()
        if not _is_new(folder, seen):
            continue
        with os.scandir(folder) as listing:
            for entry in listing:
                entries += 1
                kind = _kind_of_entry(entry)
                if kind == "special":
                    return Path(entry.path)
                if kind == "folder":
                    pending.append(Path(entry.path))
    return None


def _is_new(folder: Path, seen: set[tuple[int, int]]) -> bool:
    """Whether the folder can be read and was not seen yet: links can make cycles."""
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
    """Needs another system call only for links."""
    if entry.is_symlink():
        return _kind(Path(entry.path))
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "special"


def _kind(path: Path) -> str:
    """A missing file is harmless."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return "nothing"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "special"
