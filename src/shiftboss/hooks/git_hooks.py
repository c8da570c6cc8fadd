"""Decides before a commit and before a push whether the contract of the task allows it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from shiftboss.hooks.contract import LocalContract
from shiftboss.hooks.git import git
from shiftboss.hooks.messages import refused_paths
from shiftboss.rules.paths.changes import SUBMODULE, SYMLINK, FileChange, link_violation
from shiftboss.rules.paths.ownership import Ownership

_LINK_BYTES_MAX: Final = 4096
_RAW: Final = ("--raw", "-z", "--no-renames", "--no-abbrev", "-r")


class PushedRef(NamedTuple):
    """One line of the input of a pre-push hook."""

    local_ref: str
    local: str
    remote_ref: str
    remote: str


def commit_refusal(contract: LocalContract, contract_file: str) -> str | None:
    """Why the commit is refused, or None. Git runs the hook at the top of the work tree."""
    folder = os.getcwd()
    ref = _branch(folder)
    if ref != f"refs/heads/{contract.branch}" and not (ref is None and _is_rebasing(folder)):
        current = ref.removeprefix("refs/heads/") if ref else "no branch"
        return (
            f"shiftboss: this commit to {current} is refused by the {contract.name}: the branch of "
            f"the task is {contract.branch}. Run first: git switch {contract.branch}"
        )
    changes = _staged(folder, contract.base)
    todo = "Remove these files from the commit: git restore --staged PATH."
    return _refusal("this commit", changes, folder, contract, contract_file, todo)


def push_refusal(contract: LocalContract, contract_file: str, refs: str) -> str | None:
    """Why the push is refused, or None. `refs` is the input that git gives the hook."""
    folder = os.getcwd()
    for line in refs.splitlines():
        parts = line.split(" ")
        if len(parts) != 4:
            return f"shiftboss: this push is refused: the hook cannot read its input: {line[:200]}"
        pushed = PushedRef(*parts)
        refusal = _ref_refusal(folder, contract, pushed) or _refusal(
            "this push",
            _since_base(folder, contract, pushed.local),
            folder,
            contract,
            contract_file,
            "Rewrite the branch so that none of its commits changes these files.",
        )
        if refusal is not None:
            return refusal
    return None


def _refusal(
    action: str,
    changes: Sequence[FileChange],
    folder: str,
    contract: LocalContract,
    contract_file: str,
    todo: str,
) -> str | None:
    violations = _violations(folder, contract, changes)
    if violations:
        from shiftboss.hooks.server_client import newer_contract  # late: few commits are refused

        newer = newer_contract(contract, contract_file)
        if newer is not None:
            contract = newer
            violations = _violations(folder, contract, changes)
    return refused_paths(action, violations, contract, todo) if violations else None


def _violations(
    folder: str, contract: LocalContract, changes: Sequence[FileChange]
) -> list[tuple[str, str]]:
    """The paths that the contract does not allow to be changed, with the reason."""
    ownership = Ownership(contract.owned, contract.readonly, contract.generated)
    violations: dict[str, str] = {}
    for change in changes:
        reason = _reason(folder, ownership, change)
        if reason is not None:
            violations.setdefault(change.path, f"was {change.action} and {reason}")
    return list(violations.items())


def _reason(folder: str, ownership: Ownership, change: FileChange) -> str | None:
    if not change.is_utf8:
        return "has a name that is not UTF-8"
    refusal = ownership.refusal(change.path, is_submodule=change.is_submodule)
    if refusal is not None:
        return refusal.reason
    if change.new_mode != SYMLINK:
        return None
    _, target = git(folder, ["cat-file", "blob", change.blob])
    if len(target) > _LINK_BYTES_MAX:
        return f"is a link whose target is longer than {_LINK_BYTES_MAX} bytes"
    return link_violation(change.path, target)


def _staged(folder: str, base: str) -> list[FileChange]:
    """The changes of the commit, compared with all of its parents. A file as it is in the base is
    not a change of the task: it was restored."""
    parents = ["HEAD", *_merge_heads(folder)]
    code, _ = git(folder, ["rev-parse", "--quiet", "--verify", "HEAD"], also=(1, 128))
    if code != 0:
        _, empty = git(folder, ["hash-object", "-t", "tree", "--stdin"])
        parents = [empty.decode().strip()]
    by_parent = [_index_changes(folder, parent) for parent in parents]
    since_base = _index_changes(folder, base)
    return [
        change
        for path, change in by_parent[0].items()
        if path in since_base and all(path in changes for changes in by_parent[1:])
    ]


def _index_changes(folder: str, tree: str) -> dict[str, FileChange]:
    _, out = git(folder, ["diff-index", "--cached", *_RAW, tree, "--"])
    return {change.path: change for change in _changes(out)}


def _since_base(folder: str, contract: LocalContract, tip: str) -> list[FileChange]:
    """The changes of every commit on the first-parent line of the task. Of a merge, only changes
    count that no parent has. Commits that the remote has were checked when they were pushed."""
    target = contract.members.get("target")
    excluded = [f"^{contract.base}"]
    if isinstance(target, str) and _exists(folder, f"refs/heads/{target}"):
        excluded.append(f"^refs/heads/{target}")
    _, commits = git(folder, ["rev-list", "--first-parent", tip, *excluded, "--not", "--remotes"])
    _, out = git(folder, ["diff-tree", "--stdin", "-c", "--root", *_RAW], stdin=commits)
    return list(_changes(out))


def _changes(out: bytes) -> Iterator[FileChange]:
    """Parse the raw diff format; for merges it starts with a colon for each parent."""
    records = iter(out.split(b"\0"))
    for record in records:
        if not record.startswith(b":"):
            continue  # the id of the commit
        parents = len(record) - len(record.lstrip(b":"))
        fields = record[parents:].decode().split(" ")
        name = next(records)
        modes, blobs = fields[: parents + 1], fields[parents + 1 : 2 * parents + 2]
        old_mode = SUBMODULE if SUBMODULE in modes else modes[0]
        yield FileChange(
            path=name.decode(errors="backslashreplace"),
            status=fields[-1][:1],
            old_mode=old_mode,
            new_mode=modes[-1],
            old_blob=blobs[0],
            blob=blobs[-1],
            is_utf8=_is_utf8(name),
        )


def _ref_refusal(folder: str, contract: LocalContract, pushed: PushedRef) -> str | None:
    reason = None
    if not pushed.local.strip("0"):
        reason = f"deletes {pushed.remote_ref}"
    elif pushed.remote_ref != f"refs/heads/{contract.branch}":
        reason = f"goes to {pushed.remote_ref}, but the branch of the task is {contract.branch}"
    elif pushed.remote.strip("0"):
        ancestor = ["merge-base", "--is-ancestor", pushed.remote, pushed.local]
        code, _ = git(folder, ancestor, also=(1, 128))
        if code != 0:
            reason = f"rewrites {pushed.remote_ref}; fetch it and add your commits to it"
    if reason is None:
        return None
    return f"shiftboss: this push is refused by the {contract.name}: it {reason}"


def _branch(folder: str) -> str | None:
    code, out = git(folder, ["symbolic-ref", "--quiet", "HEAD"], also=(1,))
    return out.decode().strip() if code == 0 else None


def _is_rebasing(folder: str) -> bool:
    git_dir = _git_dir(folder)
    return any(os.path.isdir(f"{git_dir}/{name}") for name in ("rebase-merge", "rebase-apply"))


def _merge_heads(folder: str) -> list[str]:
    try:
        with open(f"{_git_dir(folder)}/MERGE_HEAD", encoding="ascii") as opened:
            return opened.read().split()
    except FileNotFoundError:
        return []


def _git_dir(folder: str) -> str:
    _, out = git(folder, ["rev-parse", "--absolute-git-dir"])
    return os.fsdecode(out).rstrip("\n")


def _exists(folder: str, ref: str) -> bool:
    return git(folder, ["rev-parse", "--quiet", "--verify", ref], also=(1, 128))[0] == 0


def _is_utf8(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
