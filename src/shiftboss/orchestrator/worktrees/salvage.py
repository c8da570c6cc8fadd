"""Saves what an attempt leaves behind before its work tree is removed.

That is: files that were never committed, and commits that are on no branch. They are kept under
`refs/shiftboss/salvage/`.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import TreeUnavailable
from shiftboss.orchestrator.git.private_refs import break_stale_locks
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.git.runner import checked, run_git
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.rules.paths.branch_names import ref_part
from shiftboss.system.git import GitOutput

# A work tree can contain anything. Files beyond these limits are not saved; the message of the
# commit lists them.
FILE_BYTES_MAX: Final = 20 * 1024 * 1024
ALL_BYTES_MAX: Final = 200 * 1024 * 1024
FILES_MAX: Final = 20_000
_LIST_BYTES_MAX: Final = 8 * 1024 * 1024
_ADD_SECONDS: Final = 300.0
_COMMITS_MAX: Final = 1000
_NAMES_MAX: Final = 20
_TRIES: Final = 20
_SUBJECT: Final = "Uncommitted work in the work tree "


class _WrittenTree(NamedTuple):
    """A git tree object with the files of a work tree. `left_out` are the names of files that are
    too large or too many."""

    tree: str
    left_out: list[str]


def salvage_refs(bead_id: str) -> str:
    return f"refs/shiftboss/salvage/{ref_part(bead_id)}/"


async def newest_salvage(repo: GitRepo, bead_id: str) -> str | None:
    """The commit of the work that was saved last."""
    output = await repo.text(
        "the saved work",
        *("for-each-ref", "--sort=-version:refname", "--count=1", "--format=%(objectname)"),
        salvage_refs(bead_id),
    )
    return output or None


async def salvage_worktree(worktree: Worktree) -> str | None:
    """Save what is neither on a branch nor saved yet: the files as they are, and commits that were
    left behind. Returns the ref, or None if nothing would be lost."""
    repo = GitRepo(worktree.common)
    head = await _head(repo, worktree)
    if head is None:
        return None
    written = await _write_tree(repo, worktree, head)
    lost = await _lost_commits(repo, worktree, head)
    is_changed = written is not None and written.tree != await repo.tree_of(head)
    if not is_changed and lost in ([], [head]):
        return await keep_commit(repo, worktree.bead_id, head) if lost else None
    tree = written.tree if written is not None and is_changed else await repo.tree_of(head)
    parents = [head, *(commit for commit in lost if commit != head)]
    existing = await _existing_ref(repo, worktree.bead_id, tree, parents)
    if existing is not None:
        return existing
    left_out = written.left_out if written is not None else []
    commit = await repo.commit_tree(tree, parents, _message(worktree, left_out))
    return await keep_commit(repo, worktree.bead_id, commit)


async def keep_commit(repo: GitRepo, bead_id: str, commit: str) -> str:
    """Keep a commit under its own ref. Returns the existing ref if there is one already."""
    for _ in range(_TRIES):
        refs = await _refs(repo, bead_id)
        for ref, ids in refs.items():
            if ids[0] == commit:
                return ref
        numbers = [int(ref.rpartition("/")[2]) for ref in refs if ref.rpartition("/")[2].isdigit()]
        ref = f"{salvage_refs(bead_id)}{max(numbers, default=0) + 1}"
        await break_stale_locks(repo, [ref])
        if await repo.move_ref(ref, commit, None, f"shiftboss: salvage of {bead_id}"):
            return ref
    raise TreeUnavailable(f"{commit} cannot be saved under {salvage_refs(bead_id)}")


async def _refs(repo: GitRepo, bead_id: str) -> dict[str, list[str]]:
    """The commit, the tree and the parents of each salvage ref."""
    output = await repo.text(
        "the salvaged work",
        "for-each-ref",
        "--format=%(refname) %(objectname) %(tree) %(parent)",
        salvage_refs(bead_id),
    )
    return {line.split()[0]: line.split()[1:] for line in output.splitlines() if line}


async def _existing_ref(
    repo: GitRepo, bead_id: str, tree: str, parents: Sequence[str]
) -> str | None:
    """The ref of the same content. It exists if a process was killed after it saved the work and
    before it removed the work tree."""
    refs = await _refs(repo, bead_id)
    return next((ref for ref, ids in refs.items() if ids[1:] == [tree, *parents]), None)


async def _head(repo: GitRepo, worktree: Worktree) -> str | None:
    if await asyncio.to_thread((worktree.admin / "HEAD").is_file):
        output = await _run(worktree, ["rev-parse", "--quiet", "--verify", "HEAD^{commit}"])
        if output.code == 0:
            return output.out.decode().strip()
    for name in (f"refs/heads/{worktree.branch}", worktree.start):
        if name and (commit := await repo.commit_of(name)):
            return commit
    return None


async def _lost_commits(repo: GitRepo, worktree: Worktree, head: str) -> list[str]:
    """The newest commits of those that were HEAD of the work tree and that no ref contains."""
    former_heads = await asyncio.to_thread(_reflog, worktree.admin / "logs" / "HEAD")
    names = "".join(f"{commit}\n" for commit in dict.fromkeys([head, *former_heads]))
    output = await repo.run(
        [
            *("rev-list", "--parents", "--topo-order", "--ignore-missing"),
            *(f"--max-count={_COMMITS_MAX}", "--stdin", "--not", "--glob=refs/*"),
        ],
        stdin=names.encode(),
    )
    lines = [line.split() for line in checked(output, "the lost commits").splitlines()]
    parents = {parent for line in lines for parent in line[1:]}
    return [line[0] for line in lines if line[0] not in parents]


def _reflog(log: Path) -> list[str]:
    try:
        lines = log.read_text(errors="replace").splitlines()[-_COMMITS_MAX:]
    except OSError:
        return []
    return [fields[1] for line in lines if len(fields := line.split(" ", 2)) == 3]


async def _write_tree(repo: GitRepo, worktree: Worktree, head: str) -> _WrittenTree | None:
    """Write the files as they are to git, with a private index. None if there are no files."""
    if not await asyncio.to_thread(_has_files, worktree.path):
        return None
    # Without an index, the checkout was never completed: a missing file was not removed.
    is_complete = await asyncio.to_thread((worktree.admin / "index").is_file)
    async with _private_index(repo, worktree, head) as variables:
        output = await _run(
            worktree,
            ["ls-files", "-z", "--modified", "--others", "--exclude-standard"],
            environment=variables,
            output_max=_LIST_BYTES_MAX,
        )
        names = output.out.split(b"\0")[:-1]  # the last one is empty or truncated
        chosen, left_out = await asyncio.to_thread(_choose, worktree.path, names, is_complete)
        if chosen:
            await _add(worktree, chosen, variables)
        written = await _run(worktree, ["write-tree"], environment=variables)
        tree = checked(written, f"the files of {worktree.path}")
    if len(output.out) >= _LIST_BYTES_MAX:
        left_out.append("and more files that were not listed")
    return _WrittenTree(tree, left_out)


async def _add(worktree: Worktree, names: Sequence[bytes], variables: Mapping[str, str]) -> None:
    """Add the files to the index. The fast command stops at the first unreadable file; then the
    slower one adds the others."""
    for arguments in (
        ["update-index", "--add", "--remove", "-z", "--stdin"],
        [
            *("add", "--all", "--ignore-errors", "--sparse"),
            *("--pathspec-from-file=-", "--pathspec-file-nul"),
        ],
    ):
        output = await _run(
            worktree,
            arguments,
            stdin=b"".join(name + b"\0" for name in names),
            environment=variables,
            seconds=_ADD_SECONDS,
        )
        if output.code == 0:
            return


def _has_files(path: Path) -> bool:
    try:
        return not path.is_symlink() and any(entry.name != ".git" for entry in path.iterdir())
    except OSError:
        return False


@asynccontextmanager
async def _private_index(
    repo: GitRepo, worktree: Worktree, head: str
) -> AsyncIterator[dict[str, str]]:
    """A copy of the work tree's index, which knows the unchanged files and those that a sparse
    checkout leaves out."""
    folder = repo.common / "shiftboss"
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    index = folder / f"index-{uuid.uuid4().hex}"
    variables = {"GIT_INDEX_FILE": str(index)}
    try:
        try:
            # copy2 keeps the time: git compares the content of files that are not older than it.
            await asyncio.to_thread(shutil.copy2, worktree.admin / "index", index)
            is_valid = (await _run(worktree, ["ls-files", "-z"], environment=variables)).code == 0
        except OSError:
            is_valid = False
        if not is_valid:
            index.unlink(missing_ok=True)
            output = await _run(worktree, ["read-tree", head], environment=variables)
            checked(output, f"the files of {head}")
        yield variables
    finally:
        with contextlib.suppress(OSError):
            index.unlink(missing_ok=True)
            index.with_name(f"{index.name}.lock").unlink(missing_ok=True)


def _choose(
    folder: Path, names: Sequence[bytes], with_removed: bool
) -> tuple[list[bytes], list[str]]:
    """The files within the limits, and the names of the others. A folder in the list is a nested
    repository."""
    chosen: list[bytes] = []
    left_out: list[str] = []
    total = 0
    for name in dict.fromkeys(names):
        text = name.decode(errors="surrogateescape")
        try:
            size = (folder / text).lstat().st_size
        except OSError:
            if not with_removed:
                continue
            size = 0
        fits = size <= FILE_BYTES_MAX and total + size <= ALL_BYTES_MAX
        if text.endswith("/") or not fits or len(chosen) >= FILES_MAX:
            left_out.append(text)
            continue
        chosen.append(name)
        total += size
    return chosen, left_out


def swarm_of_salvage(subject: str) -> str | None:
    """The swarm whose work it is, by the first line of the commit's message. None if it is a commit
    of an agent, kept as it is."""
    if not subject.startswith(_SUBJECT):
        return None
    return subject.removeprefix(_SUBJECT).partition(" of ")[2]


def _message(worktree: Worktree, left_out: Sequence[str]) -> str:
    lines = [f"{_SUBJECT}{worktree.name} of {worktree.swarm_id}", ""]
    if left_out:
        lines.append(f"Too large or too many, and not saved: {len(left_out)} files")
        lines += [f"  {name!r}" for name in left_out[:_NAMES_MAX]]
    return "\n".join(lines).rstrip() + "\n"


async def _run(
    worktree: Worktree,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    seconds: float = 120.0,
    output_max: int = 64 * 1024 * 1024,
) -> GitOutput:
    """Run git with the work tree's git folder: the agent may have changed the file `.git`."""
    has_admin = await asyncio.to_thread((worktree.admin / "HEAD").is_file)
    is_there = await asyncio.to_thread(worktree.path.is_dir)
    return await run_git(
        arguments,
        worktree.path if is_there else worktree.common,
        stdin=stdin,
        seconds=seconds,
        environment={
            "GIT_DIR": str(worktree.admin if has_admin else worktree.common),
            "GIT_WORK_TREE": str(worktree.path),
            **(environment or {}),
        },
        output_max=output_max,
    )
