"""Whether what was done stays within a contract: every path that does not, each once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.protocol.verdicts import Violation
from shiftboss.rules.claims.kept_tests import is_test_file
from shiftboss.rules.paths.changes import (
    SYMLINK,
    CommitChange,
    FileChange,
    collisions,
    link_leads_astray,
)
from shiftboss.rules.paths.command_paths import NamedPaths
from shiftboss.rules.paths.ownership import Ownership, PathRefusal, protected
from shiftboss.rules.paths.patterns import as_written

LINK_BYTES_MAX = 4096


class CommittedWork(NamedTuple):
    """What was done from the base to the commit.

    `net` is what it comes to, `own` what the commits of the task did one by one. `links` are the
    targets of the changed symbolic links by blob; `names` are the files of the commit. `aside` are
    commits that a merge brought, where there is no target that they could be of.
    """

    net: Sequence[FileChange]
    own: Sequence[CommitChange]
    links: Mapping[str, bytes]
    names: Sequence[str]
    aside: frozenset[str] = frozenset()


def violations_of(
    work: CommittedWork, ownership: Ownership, claimed: Sequence[str]
) -> list[Violation]:
    """`claimed` are the paths that the worker says it touched."""
    made_by = {change.file.path: change.commit for change in reversed(work.own)}
    found: dict[str, Violation] = {}
    for file in work.net:
        for path in file.paths:
            refusal = _refusal(ownership, path, file)
            if refusal is not None:
                refusal = refusal._replace(reason=f"was {file.deed} and {refusal.reason}")
                found[path] = _violation(path, refusal, made_by.get(path))
    for change in work.own:
        refusal = _refusal(ownership, change.file.path, change.file)
        if refusal is not None and change.file.path not in found:
            found[change.file.path] = _undone(change, refusal)
    for path, refusal in [*_astray(work), *_colliding(work)]:
        if path not in found:
            found[path] = _violation(path, refusal, made_by.get(path))
    named = [_with_way_out(one, work.aside) for one in found.values()]
    return [*named, *_unauthorized(ownership, claimed)]


def _refusal(ownership: Ownership, path: str, file: FileChange) -> PathRefusal | None:
    if not file.is_utf8:
        return PathRefusal("has a name that is not UTF-8", "give it a name in UTF-8")
    return ownership.refusal(path, is_submodule=file.is_submodule)


def _violation(path: str, refusal: PathRefusal, commit: str | None) -> Violation:
    return Violation(
        check="scope",
        message=f"{path} {refusal.reason}",
        hint=refusal.hint,
        path=path,
        commit=commit,
    )


def _with_way_out(violation: Violation, aside: frozenset[str]) -> Violation:
    if violation.commit not in aside:
        return violation
    hint = (
        f"{violation.hint}; a merge brought it: if that was a merge of the branch on which the "
        "work will land, the task has to be spawned with it, as with --target main"
    )
    return violation.model_copy(update={"hint": hint})


def _undone(change: CommitChange, refusal: PathRefusal) -> Violation:
    """It stays in the history that is merged, where it can be brought back unseen."""
    where = "the merge commit" if change.is_merge else "commit"
    return Violation(
        check="scope",
        message=f"{change.file.path} was {change.file.deed} by {where} {change.commit[:12]} and "
        f"changed back later; it {refusal.reason}",
        hint="rewrite the branch so that no commit touches it (git rebase --interactive), "
        "or ask for it with request_scope",
        path=change.file.path,
        commit=change.commit,
    )


def _astray(work: CommittedWork) -> list[tuple[str, PathRefusal]]:
    found = []
    for file in work.net:
        if file.new_mode != SYMLINK:
            continue
        target = work.links.get(file.blob)
        reason = (
            link_leads_astray(file.path, target)
            if target is not None
            else f"is a link to more than {LINK_BYTES_MAX} bytes"
        )
        if reason is not None:
            found.append(
                (file.path, PathRefusal(reason, "let it point to a file of the repository"))
            )
    return found


def _colliding(work: CommittedWork) -> list[tuple[str, PathRefusal]]:
    added = [file.path for file in work.net if file.status in "AR"]
    return [
        (
            path,
            PathRefusal(f"differs from {other} by letter case or Unicode form only", "rename it"),
        )
        for path, other in collisions(added, work.names).items()
    ]


def _unauthorized(ownership: Ownership, claimed: Sequence[str]) -> list[Violation]:
    outside = [path for path in claimed if ownership.refusal(_written_plainly(path)) is not None]
    if not outside:
        return []
    return [
        Violation(
            check="scope",
            message=f"Touched unauthorized files: {', '.join(outside)}",
            hint="change them back, or ask for them with request_scope; "
            "if they were not touched, leave them out of files_touched",
        )
    ]


def _written_plainly(path: str) -> str:
    try:
        return as_written(path).removesuffix("/")
    except ValueError:
        return path


# What may come along with a merge of the target branch.
#
# Whoever can move the target could put changes of their own there and have them taken for the
# work of others. So a commit of the target that no receipt accounts for may bring ordinary
# changes, and none to what the work is checked with.


_HINT: Final = (
    "let the operator land the change with a receipt, replace the handoff by one with a newer "
    "base, or waive it"
)


class TargetGuard:
    """`base_names` are the files of the base."""

    def __init__(
        self, contract: Contract, policy: VerificationPolicy, base_names: Collection[str]
    ) -> None:
        self._ownership = Ownership(contract.files_owned, contract.files_readonly, policy.generated)
        self._named = NamedPaths(contract, policy)
        self._needs_receipts = policy.target_commits == "receipts"
        self._keeps_tests = policy.test_removal == "refuse"
        self._base_names = base_names

    def violations(self, target: str, changes: Iterable[CommitChange]) -> list[Violation]:
        """One for each path, with the first commit that changed it."""
        found: dict[str, Violation] = {}
        for commit, _, file in changes:
            if file.path in found:
                continue
            reason = self._objection(file)
            if reason is not None:
                found[file.path] = Violation(
                    check="scope",
                    message=f"{file.path} came with {target}, in a commit that no receipt accounts "
                    f"for, and {reason}",
                    hint=_HINT,
                    path=file.path,
                    commit=commit,
                )
        return list(found.values())

    def _objection(self, file: FileChange) -> str | None:
        """To be read after the path."""
        path = file.path
        if self._keeps_tests and path in self._base_names and is_test_file(path):
            return "is a test of the base"
        refusal = self._ownership.refusal(path, is_submodule=file.is_submodule)
        if refusal is None:
            return None  # the task may change it itself
        if self._ownership.is_readonly(path) or protected(path) or self._needs_receipts:
            return refusal.reason
        return "decides what a command of the contract says" if self._named.decide(path) else None
