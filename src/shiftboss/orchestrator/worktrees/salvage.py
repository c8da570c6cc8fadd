"""What an attempt leaves behind is kept in git before its tree goes: files that were never
committed, and commits that no branch holds."""

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
from shiftboss.orchestrator.git.repository import GitRepo, break_stale_locks
from shiftboss.orchestrator.git.runner import checked, run_git
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.rules.paths.branch_names import ref_part
from shiftboss.system.git import GitOutput

# A tree can be filled with anything. What is above these is named in the commit, and not in it.
FILE_BYTES_MAX: Final = 20 * 1024 * 1024
ALL_BYTES_MAX: Final = 200 * 1024 * 1024
FILES_MAX: Final = 20_000
_LIST_BYTES_MAX: Final = 8 * 1024 * 1024
_ADD_SECONDS: Final = 300.0
_COMMITS_MAX: Final = 1000
_NAMES_MAX: Final = 20
_TRIES: Final = 20


class _Files(NamedTuple):
    """`left_out` are the names of files that are too large or too many."""

    tree: str
    left_out: list[str]


def salvage_refs(bead_id: str) -> str:
    return f"refs/shiftboss/salvage/{ref_part(bead_id)}/"


async def salvage_tree(tree: Worktree) -> str | None:
    """The ref that holds what nothing else does. None: nothing would be lost."""
    repo = GitRepo(tree.common)
    head = await _head(repo, tree)
    if head is None:
        return None
    files = await _files(repo, tree, head)
    lost = await _lost_commits(repo, tree, head)
    is_changed = files is not None and files.tree != await repo.tree_of(head)
    if not is_changed and lost in ([], [head]):
        return await keep(repo, tree.bead_id, head) if lost else None
    content = files.tree if files is not None and is_changed else await repo.tree_of(head)
    parents = [head, *(one for one in lost if one != head)]
    known = await _known(repo, tree.bead_id, content, parents)
    if known is not None:
        return known
    left_out = files.left_out if files is not None else []
    made = await repo.commit_tree(content, parents, _message(tree, left_out))
    return await keep(repo, tree.bead_id, made)


async def keep(repo: GitRepo, bead_id: str, commit: str) -> str:
    """Under a ref of its own, so that it stays. The one that holds it already, if there is one."""
    for _ in range(_TRIES):
        refs = await _refs(repo, bead_id)
        for ref, words in refs.items():
            if words[0] == commit:
                return ref
        numbers = [int(ref.rpartition("/")[2]) for ref in refs if ref.rpartition("/")[2].isdigit()]
        ref = f"{salvage_refs(bead_id)}{max(numbers, default=0) + 1}"
        await break_stale_locks(repo, [ref])
        if await repo.move_ref(ref, commit, None, f"shiftboss: salvage of {bead_id}"):
            return ref
    raise TreeUnavailable(f"{commit} cannot be kept under {salvage_refs(bead_id)}")


async def _refs(repo: GitRepo, bead_id: str) -> dict[str, list[str]]:
    """Of each salvage: its commit, its files, its parents."""
    said = await repo.text(
        "the salvaged work",
        "for-each-ref",
        "--format=%(refname) %(objectname) %(tree) %(parent)",
        salvage_refs(bead_id),
    )
    return {line.split()[0]: line.split()[1:] for line in said.splitlines() if line}


async def _known(repo: GitRepo, bead_id: str, content: str, parents: Sequence[str]) -> str | None:
    """Somebody may have been ended between keeping it and removing the tree."""
    refs = await _refs(repo, bead_id)
    return next((ref for ref, words in refs.items() if words[1:] == [content, *parents]), None)


async def _head(repo: GitRepo, tree: Worktree) -> str | None:
    if await asyncio.to_thread((tree.admin / "HEAD").is_file):
        said = await _run(tree, ["rev-parse", "--quiet", "--verify", "HEAD^{commit}"])
        if said.code == 0:
            return said.out.decode().strip()
    for name in (f"refs/heads/{tree.branch}", tree.start):
        if name and (commit := await repo.commit_of(name)):
            return commit
    return None


async def _lost_commits(repo: GitRepo, tree: Worktree, head: str) -> list[str]:
    """The newest of those that the tree has had as its HEAD and that no ref holds."""
    had = await asyncio.to_thread(_logged, tree.admin / "logs" / "HEAD")
    names = "".join(f"{one}\n" for one in dict.fromkeys([head, *had]))
    said = await repo.run(
        [
            *("rev-list", "--parents", "--topo-order", "--ignore-missing"),
            *(f"--max-count={_COMMITS_MAX}", "--stdin", "--not", "--glob=refs/*"),
        ],
        stdin=names.encode(),
    )
    lines = [line.split() for line in checked(said, "the lost commits").splitlines()]
    parents = {one for line in lines for one in line[1:]}
    return [line[0] for line in lines if line[0] not in parents]


def _logged(log: Path) -> list[str]:
    try:
        lines = log.read_text(errors="replace").splitlines()[-_COMMITS_MAX:]
    except OSError:
        return []
    return [words[1] for line in lines if len(words := line.split(" ", 2)) == 3]


async def _files(repo: GitRepo, tree: Worktree, head: str) -> _Files | None:
    """As they lie there, by an index of our own. None: there are none to be seen."""
    if not await asyncio.to_thread(_is_inhabited, tree.path):
        return None
    # Without an index the files were never written to their end: what is missing was not removed.
    is_whole = await asyncio.to_thread((tree.admin / "index").is_file)
    async with _own_index(repo, tree, head) as variables:
        said = await _run(
            tree,
            ["ls-files", "-z", "--modified", "--others", "--exclude-standard"],
            environment=variables,
            output_max=_LIST_BYTES_MAX,
        )
        names = said.out.split(b"\0")[:-1]  # the last is cut off, or empty
        chosen, left_out = await asyncio.to_thread(_choose, tree.path, names, is_whole)
        if chosen:
            await _add(tree, chosen, variables)
        written = await _run(tree, ["write-tree"], environment=variables)
        content = checked(written, f"the files of {tree.path}")
    if len(said.out) >= _LIST_BYTES_MAX:
        left_out.append("and those that were not even listed")
    return _Files(content, left_out)


async def _add(tree: Worktree, names: Sequence[bytes], variables: Mapping[str, str]) -> None:
    """All at once, which ends at the first file that cannot be read; then by the slower way, which
    keeps the others."""
    for arguments in (
        ["update-index", "--add", "--remove", "-z", "--stdin"],
        [
            *("add", "--all", "--ignore-errors", "--sparse"),
            *("--pathspec-from-file=-", "--pathspec-file-nul"),
        ],
    ):
        said = await _run(
            tree,
            arguments,
            stdin=b"".join(name + b"\0" for name in names),
            environment=variables,
            seconds=_ADD_SECONDS,
        )
        if said.code == 0:
            return


def _is_inhabited(path: Path) -> bool:
    try:
        return not path.is_symlink() and any(one.name != ".git" for one in path.iterdir())
    except OSError:
        return False


@asynccontextmanager
async def _own_index(repo: GitRepo, tree: Worktree, head: str) -> AsyncIterator[dict[str, str]]:
    """A copy of the tree's: it knows which files are unchanged, and which are not to be there."""
    folder = repo.common / "shiftboss"
    await asyncio.to_thread(folder.mkdir, mode=0o700, exist_ok=True)
    index = folder / f"index-{uuid.uuid4().hex}"
    variables = {"GIT_INDEX_FILE": str(index)}
    try:
        try:
            # With its time: a file of that very second is looked into.
            await asyncio.to_thread(shutil.copy2, tree.admin / "index", index)
            is_whole = (await _run(tree, ["ls-files", "-z"], environment=variables)).code == 0
        except OSError:
            is_whole = False
        if not is_whole:
            index.unlink(missing_ok=True)
            said = await _run(tree, ["read-tree", head], environment=variables)
            checked(said, f"the files of {head}")
        yield variables
    finally:
        with contextlib.suppress(OSError):
            index.unlink(missing_ok=True)
            index.with_name(f"{index.name}.lock").unlink(missing_ok=True)


def _choose(
    folder: Path, names: Sequence[bytes], with_removed: bool
) -> tuple[list[bytes], list[str]]:
    """Within the limits. A folder among the others is a repository inside of the tree."""
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


def _message(tree: Worktree, left_out: Sequence[str]) -> str:
    lines = [f"What was left in the work tree {tree.name} of {tree.swarm_id}", ""]
    if left_out:
        lines.append(f"Too large or too many, and not kept: {len(left_out)} files")
        lines += [f"  {name!r}" for name in left_out[:_NAMES_MAX]]
    return "\n".join(lines).rstrip() + "\n"


async def _run(
    tree: Worktree,
    arguments: Sequence[str],
    *,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
    seconds: float = 120.0,
    output_max: int = 64 * 1024 * 1024,
) -> GitOutput:
    """By what git keeps of the tree: its agent may have removed or changed the file `.git`."""
    has_admin = await asyncio.to_thread((tree.admin / "HEAD").is_file)
    is_there = await asyncio.to_thread(tree.path.is_dir)
    return await run_git(
        arguments,
        tree.path if is_there else tree.common,
        stdin=stdin,
        seconds=seconds,
        environment={
            "GIT_DIR": str(tree.admin if has_admin else tree.common),
            "GIT_WORK_TREE": str(tree.path),
            **(environment or {}),
        },
        output_max=output_max,
    )
