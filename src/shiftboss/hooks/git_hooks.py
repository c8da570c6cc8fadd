"""What git asks before a commit and before a push: is it within the contract?"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from shiftboss.hooks.contract import LocalContract
from shiftboss.hooks.git import git
from shiftboss.hooks.messages import refused_paths
from shiftboss.rules.paths.changes import SUBMODULE, SYMLINK, FileChange, link_leads_astray
from shiftboss.rules.paths.ownership import Ownership

_LINK_BYTES_MAX: Final = 4096
_RAW: Final = ("--raw", "-z", "--no-renames", "--no-abbrev", "-r")


class Pushed(NamedTuple):
    """A line of what git tells before a push."""

    local_ref: str
    local: str
    remote_ref: str
    remote: str


def commit_refusal(contract: LocalContract, contract_file: str) -> str | None:
    """None: the commit may be made. It is run by git, at the top of the work tree."""
    folder = os.getcwd()
    on = _branch(folder)
    if on != f"refs/heads/{contract.branch}" and not (on is None and _is_rebasing(folder)):
        there = on.removeprefix("refs/heads/") if on else "no branch"
        return (
            f"shiftboss: a commit to {there} is refused by the {contract.name}: the branch of the "
            f"task is {contract.branch}; git switch {contract.branch} first"
        )
    changes = _staged(folder, contract.base)
    way_out = "Take them out of the commit: git restore --staged PATH."
    return _judged("this commit", changes, folder, contract, contract_file, way_out)


def push_refusal(contract: LocalContract, contract_file: str, said: str) -> str | None:
    folder = os.getcwd()
    for line in said.splitlines():
        parts = line.split(" ")
        if len(parts) != 4:
            return f"shiftboss: git said something that is no push: {line[:200]}"
        pushed = Pushed(*parts)
        refusal = _ref_refusal(folder, contract, pushed) or _judged(
            "this push",
            _since_base(folder, contract, pushed.local),
            folder,
            contract,
            contract_file,
            "Rewrite the branch so that none of its commits touches them.",
        )
        if refusal is not None:
            return refusal
    return None


def _judged(
    deed: str,
    changes: Sequence[FileChange],
    folder: str,
    contract: LocalContract,
    contract_file: str,
    way_out: str,
) -> str | None:
    found = _refused(folder, contract, changes)
    if found:
        from shiftboss.hooks.server_client import newer_contract  # late: most commits are fine

        newer = newer_contract(contract, contract_file)
        if newer is not None:
            contract = newer
            found = _refused(folder, contract, changes)
    return refused_paths(deed, found, contract, way_out) if found else None


def _refused(
    folder: str, contract: LocalContract, changes: Sequence[FileChange]
) -> list[tuple[str, str]]:
    ownership = Ownership(contract.owned, contract.readonly, contract.generated)
    found: dict[str, str] = {}
    for change in changes:
        reason = _reason(folder, ownership, change)
        if reason is not None:
            found.setdefault(change.path, f"was {change.action} and {reason}")
    return list(found.items())


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
        return f"is a link to more than {_LINK_BYTES_MAX} bytes"
    return link_leads_astray(change.path, target)


def _staged(folder: str, base: str) -> list[FileChange]:
    """What the commit would change: what none of its parents has. Words of the base are no change
    of the task: they put back what was there."""
    parents = ["HEAD", *_merged(folder)]
    code, _ = git(folder, ["rev-parse", "--quiet", "--verify", "HEAD"], also=(1, 128))
    if code != 0:
        _, empty = git(folder, ["hash-object", "-t", "tree", "--stdin"])
        parents = [empty.decode().strip()]
    against = [_index_against(folder, one) for one in parents]
    not_of_base = _index_against(folder, base)
    return [
        change
        for path, change in against[0].items()
        if path in not_of_base and all(path in other for other in against[1:])
    ]


def _index_against(folder: str, tree: str) -> dict[str, FileChange]:
    _, out = git(folder, ["diff-index", "--cached", *_RAW, tree, "--"])
    return {change.path: change for change in _changes(out)}


def _since_base(folder: str, contract: LocalContract, tip: str) -> list[FileChange]:
    """Of every commit of the task's own line. What a merge brought counts where no parent has it.
    What the remote has already was looked at before."""
    target = contract.members.get("target")
    known = [f"^{contract.base}"]
    if isinstance(target, str) and _exists(folder, f"refs/heads/{target}"):
        known.append(f"^refs/heads/{target}")
    _, commits = git(folder, ["rev-list", "--first-parent", tip, *known, "--not", "--remotes"])
    _, out = git(folder, ["diff-tree", "--stdin", "-c", "--root", *_RAW], stdin=commits)
    return list(_changes(out))


def _changes(out: bytes) -> Iterator[FileChange]:
    """Of the raw form, also that of merges, which begins with a colon for each parent."""
    words = iter(out.split(b"\0"))
    for word in words:
        if not word.startswith(b":"):
            continue  # the name of the commit
        parents = len(word) - len(word.lstrip(b":"))
        fields = word[parents:].decode().split(" ")
        name = next(words)
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


def _ref_refusal(folder: str, contract: LocalContract, pushed: Pushed) -> str | None:
    why = None
    if not pushed.local.strip("0"):
        why = f"deletes {pushed.remote_ref}"
    elif pushed.remote_ref != f"refs/heads/{contract.branch}":
        why = f"goes to {pushed.remote_ref}, and the branch of the task is {contract.branch}"
    elif pushed.remote.strip("0"):
        ancestor = ["merge-base", "--is-ancestor", pushed.remote, pushed.local]
        code, _ = git(folder, ancestor, also=(1, 128))
        if code != 0:
            why = f"rewrites {pushed.remote_ref}; fetch it and build on what is there"
    return f"shiftboss: this push is refused by the {contract.name}: it {why}" if why else None


def _branch(folder: str) -> str | None:
    code, out = git(folder, ["symbolic-ref", "--quiet", "HEAD"], also=(1,))
    return out.decode().strip() if code == 0 else None


def _is_rebasing(folder: str) -> bool:
    own = _git_folder(folder)
    return any(os.path.isdir(f"{own}/{name}") for name in ("rebase-merge", "rebase-apply"))


def _merged(folder: str) -> list[str]:
    try:
        with open(f"{_git_folder(folder)}/MERGE_HEAD", encoding="ascii") as opened:
            return opened.read().split()
    except FileNotFoundError:
        return []


def _git_folder(folder: str) -> str:
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
