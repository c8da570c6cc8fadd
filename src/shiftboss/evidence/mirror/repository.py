"""Reading a repository in place, for handoffs.

Only objects are read, never the work tree or the index. So uncommitted changes are not seen, and
nothing that git would run for a work tree (filters, monitors, hooks) is run.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import UnknownRepo
from shiftboss.evidence.mirror.objects import SingleCommands, read_blobs
from shiftboss.evidence.mirror.squashes import RunGit, SquashHistory
from shiftboss.rules.claims.claims import is_object_name
from shiftboss.rules.contract.checkpoints import COMMITS_KEPT_MAX, FILES_KEPT_MAX, WorkSinceBase
from shiftboss.system.git import checked, git

BLOB_BYTES_MAX: Final = 1024 * 1024
# In the worker integration contract, a commit has 7 to 40 digits.
LONG_NAMES: Final = "uses SHA-256 commit ids, but reports allow 40 digits at most"
LONG_NAMES_HINT: Final = "use a repository created with --object-format=sha1, git's default"
# A server or a verifier of a team is on another machine than who names the repository.
REPO_HINT: Final = "give the absolute path of a work tree on the machine that reads it, or a URL"
_FULL_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# The lines that git prints for `facts`.
_FACTS: Final = 5


class Head(NamedTuple):
    """`branch` is None when HEAD is detached."""

    commit: str
    branch: str | None
    toplevel: str


class RepositoryFacts(NamedTuple):
    """`identity` is the folder that all its work trees share. `has_long_names`: its object ids are
    SHA-256."""

    head: Head
    identity: str
    has_long_names: bool


class LoggedCommit(NamedTuple):
    sha: str
    at_seconds: int
    subject: str


class Repository:
    """The repositories of this machine; each is identified by a path inside it.

    Every question raises UnknownRepo if there is no repository. That is looked up only after git
    has failed, because each git process takes milliseconds.
    """

    def __init__(self, branches: str = "refs/heads/") -> None:
        """`branches` is where the branches are: elsewhere in a mirror."""
        self._branches = branches

    async def facts(self, path: str) -> RepositoryFacts:
        """Everything that a handoff needs to know, usually from one git process. Raises UnknownRepo
        if there is no repository, or if it has no commit."""
        output = await git(
            [
                *("rev-parse", "--path-format=absolute", "--show-object-format", "HEAD^{commit}"),
                *("--git-common-dir", "--show-toplevel", "--symbolic-full-name", "HEAD"),
            ],
            existing_folder(path),
        )
        answers = _text(output.out).split("\n")
        if output.code == 0 and len(answers) == _FACTS:
            object_format, commit, shared, toplevel, ref = answers
            branch = ref.removeprefix("refs/heads/")
            if branch != ref or ref == "HEAD":
                head = Head(commit, None if ref == "HEAD" else branch, toplevel)
                identity = await asyncio.to_thread(os.path.realpath, shared)
                return RepositoryFacts(head, identity, object_format != "sha1")
        # A bare repository, a line break in a path, a ref of an unusual name, or an error.
        has_long_names, head = await self.has_long_names(path), await self.head(path)
        return RepositoryFacts(head, await self.identity(path), has_long_names)

    async def head(self, path: str) -> Head:
        """Raises UnknownRepo if there is no repository, or if it has no commit."""
        folder = existing_folder(path)
        commit = await self.commit_of(path, "HEAD")
        if commit is None:
            raise UnknownRepo(f"{path} has no commit", field="repo", hint="create a first commit")
        name = await git(["symbolic-ref", "--quiet", "--short", "HEAD"], folder)
        return Head(commit, _text(name.out) or None, await _toplevel(folder))

    async def identity(self, path: str) -> str:
        """The folder that all work trees of the repository share."""
        folder = existing_folder(path)
        output = await git(["rev-parse", "--path-format=absolute", "--git-common-dir"], folder)
        if output.code != 0:
            await _toplevel(folder)
        shared = _text(checked(output, "the folder of the repository"))
        return await asyncio.to_thread(os.path.realpath, shared)

    async def has_long_names(self, path: str) -> bool:
        """Whether its object ids are SHA-256."""
        folder = existing_folder(path)
        output = await git(["rev-parse", "--show-object-format"], folder)
        if output.code != 0:
            await _toplevel(folder)
        return _text(checked(output, "the format of the objects")) != "sha1"

    async def commit_of(self, path: str, rev: str) -> str | None:
        """The full id of the commit that a revision names. None: there is none."""
        folder = existing_folder(path)
        output = await git(
            ["rev-parse", "--quiet", "--verify", "--end-of-options", f"{rev}^{{commit}}"], folder
        )
        # An exclusion (`^main`) is a revision to git, and its name is no object's.
        if output.code == 0 and is_object_name(name := _text(output.out)):
            return name
        await _toplevel(folder)
        return None

    async def is_on_branch(self, path: str, commit: str, branch: str) -> bool:
        folder = existing_folder(path)
        tip = f"{self._branches}{branch}^{{commit}}"
        output = await git(["merge-base", "--is-ancestor", commit, tip], folder)
        if output.code not in (0, 1):  # no such branch, or no repository
            await _toplevel(folder)
        return output.code == 0

    async def is_squash_of(
        self, path: str, squash: str, commit: str, accepted: list[str], branch: str
    ) -> bool:
        tip = await self.commit_of(path, f"{self._branches}{branch}")
        if tip is None:
            return False
        async with _scratch_repository(existing_folder(path)) as run:
            return await SquashHistory(run).is_squash(tip, squash, commit, accepted)

    async def work_since(self, path: str, base: str, rev: str) -> WorkSinceBase | None:
        """The commits from `base` to a revision, and the files that differ, up to the limits of a
        checkpoint. None: there is no such revision."""
        folder = existing_folder(path)
        # A branch may move between two questions, a commit does not.
        commit = rev if _FULL_ID.fullmatch(rev) else await self.commit_of(path, rev)
        if commit is None:
            return None
        since = ["--reverse", f"--max-count={COMMITS_KEPT_MAX}", f"{base}..{commit}^{{commit}}"]
        listed = await git(["rev-list", *since], folder)
        if listed.code != 0 and await self.commit_of(path, commit) is None:
            return None
        commits = _text(checked(listed, f"the commits since {base}")).split()
        arguments = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", base, commit]
        changed = checked(await git(arguments, folder), f"the changes since {base}").split(b"\0")
        files = [name for raw in changed if raw and (name := _utf8(raw)) is not None]
        return WorkSinceBase(commits, files[:FILES_KEPT_MAX])

    async def files(self, path: str, commit: str) -> list[str]:
        """The files of a commit, in git's order, without names that are not UTF-8."""
        output = await git(
            ["ls-tree", "-r", "-z", "--full-tree", "--name-only", "--end-of-options", commit],
            existing_folder(path),
        )
        names = checked(output, f"the files of {commit}").split(b"\0")
        return [name for raw in names if raw and (name := _utf8(raw)) is not None]

    async def read(self, path: str, commit: str, names: Sequence[str]) -> dict[str, bytes]:
        """The contents of the files, without those that are missing or larger than 1 MB."""
        folder = existing_folder(path)
        objects = SingleCommands(lambda arguments, stdin: git(arguments, folder, stdin=stdin))
        keys = [f"{commit}:{name}" for name in names]
        blobs = await read_blobs(objects, keys, BLOB_BYTES_MAX)
        return {name: blobs[key] for name, key in zip(names, keys, strict=True) if key in blobs}

    async def commits(
        self, path: str, rev: str, limit: int, files: Sequence[str] = ()
    ) -> list[LoggedCommit]:
        """The history, newest first; with `files`, only the commits that changed one of them."""
        output = await git(
            [
                *("rev-list", f"--max-count={limit}", "--no-commit-header"),
                *("--format=%H %ct %s", "--end-of-options", rev, "--", *files),
            ],
            existing_folder(path),
        )
        lines = checked(output, f"the history of {rev}").decode(errors="replace").split("\n")
        return [_parse_commit(line) for line in lines if line]


@asynccontextmanager
async def _scratch_repository(folder: Path) -> AsyncIterator[RunGit]:
    """Runs git with the objects of the repository, but without its settings, because a merge may
    run programs that they name. Git writes to a temporary folder."""
    shared = await git(["rev-parse", "--path-format=absolute", "--git-common-dir"], folder)
    common = Path(_text(checked(shared, "the folder of the repository")))
    scratch = await asyncio.to_thread(tempfile.mkdtemp, prefix="shiftboss-squash-")
    environment = {
        "GIT_DIR": scratch,
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(common / "objects"),
    }
    if await asyncio.to_thread((common / "shallow").exists):
        environment["GIT_SHALLOW_FILE"] = str(common / "shallow")
    try:
        init = ["init", "--quiet", "--bare", "--template=", "--initial-branch=none", scratch]
        checked(await git(init, Path(scratch)), "creating a temporary repository")
        yield lambda arguments: git(arguments, Path(scratch), environment=environment)
    finally:
        await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)


def _quoted(path: Path) -> str:
    """A path in a list that git separates at colons."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _parse_commit(line: str) -> LoggedCommit:
    sha, seconds, subject = line.split(" ", 2)
    return LoggedCommit(sha, int(seconds), subject.replace("\0", " "))


def existing_folder(path: str) -> Path:
    folder = Path(path)
    if "\0" in path or not folder.is_absolute() or not folder.is_dir():
        raise UnknownRepo(f"There is no folder {path}", field="repo", hint=REPO_HINT)
    return folder


async def _toplevel(folder: Path) -> str:
    """The top folder of the work tree, or the folder of a bare repository. Raises UnknownRepo."""
    output = await git(["rev-parse", "--path-format=absolute", "--show-toplevel"], folder)
    if output.code == 0:
        return _text(output.out)
    bare = await git(["rev-parse", "--path-format=absolute", "--git-dir"], folder)
    if bare.code != 0:
        raise UnknownRepo(
            f"{folder} is not a git repository",
            field="repo",
            hint=REPO_HINT,
        )
    return _text(bare.out)


def _text(out: bytes) -> str:
    return out.decode(errors="surrogateescape").rstrip("\n")


def _utf8(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
