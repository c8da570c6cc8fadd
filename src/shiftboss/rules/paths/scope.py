"""Whether committed work stays within its contract: one violation for each path that does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from shiftboss.protocol.claims.verdicts import Violation
from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.rules.claims.kept_tests import is_test_file
from shiftboss.rules.claims.refusal_advice import DISPUTE
from shiftboss.rules.paths.changes import (
    SYMLINK,
    CommitChange,
    FileChange,
    collisions,
    link_violation,
)
from shiftboss.rules.paths.command_paths import NamedFiles
from shiftboss.rules.paths.ownership import Ownership, PathRefusal, is_protected
from shiftboss.rules.paths.patterns import normalize_git_path
from shiftboss.rules.paths.shadowing import Shadowing

LINK_BYTES_MAX = 4096


class CommittedWork(NamedTuple):
    """The work from the base to the claimed commit.

    `net` is the total change, `own` the changes of each commit of the task. `links` maps the blobs
    of changed symbolic links to their targets. `names` are the files of the commit. `aside` are
    commits that came in by a merge although the task has no target branch.
    """

    net: Sequence[FileChange]
    own: Sequence[CommitChange]
    links: Mapping[str, bytes]
    names: Sequence[str]
    aside: frozenset[str] = frozenset()


def violations_of(
    work: CommittedWork, ownership: Ownership, claimed: Sequence[str], shadowing: Shadowing
) -> list[Violation]:
    """`claimed` are the paths that the worker reported as touched."""
    commit_of = {change.file.path: change.commit for change in reversed(work.own)}
    violations: dict[str, Violation] = {}
    for file in work.net:
        for path in file.paths:
            refusal = _refusal(ownership, path, file)
            if refusal is not None:
                refusal = refusal._replace(reason=f"was {file.action} and {refusal.reason}")
                violations[path] = _violation(path, refusal, commit_of.get(path))
    for change in work.own:
        refusal = _refusal(ownership, change.file.path, change.file)
        if refusal is not None and change.file.path not in violations:
            violations[change.file.path] = _reverted(change, refusal)
    for path, refusal in [*_bad_links(work), *_colliding(work), *_shadowing(work, shadowing)]:
        if path not in violations:
            violations[path] = _violation(path, refusal, commit_of.get(path))
    explained = [_with_merge_hint(violation, work.aside) for violation in violations.values()]
    return [*explained, *_unauthorized(ownership, claimed)]


def _refusal(ownership: Ownership, path: str, file: FileChange) -> PathRefusal | None:
    if not file.is_utf8:
        return PathRefusal("has a name that is not UTF-8", "rename it to a UTF-8 name")
    return ownership.refusal(path, is_submodule=file.is_submodule)


def _violation(path: str, refusal: PathRefusal, commit: str | None) -> Violation:
    return Violation(
        check="scope",
        message=f"{path} {refusal.reason}",
        hint=refusal.hint,
        path=path,
        commit=commit,
    )


def _with_merge_hint(violation: Violation, aside: frozenset[str]) -> Violation:
    if violation.commit not in aside:
        return violation
    hint = (
        f"{violation.hint}; it came in by a merge: if you merged the branch that the work will "
        "land on, the task must be spawned with that branch as its target, as in --target main"
    )
    return violation.model_copy(update={"hint": hint})


def _reverted(change: CommitChange, refusal: PathRefusal) -> Violation:
    """A reverted change stays in the merged history, where it could be restored unnoticed."""
    where = "the merge commit" if change.is_merge else "commit"
    return Violation(
        check="scope",
        message=f"{change.file.path} was {change.file.action} by {where} {change.commit[:12]} and "
        f"reverted later; it {refusal.reason}",
        hint="rewrite the branch so that no commit touches the file (git rebase --interactive), "
        "or ask for it with request_scope",
        path=change.file.path,
        commit=change.commit,
    )


def _bad_links(work: CommittedWork) -> list[tuple[str, PathRefusal]]:
    refusals = []
    for file in work.net:
        if file.new_mode != SYMLINK:
            continue
        target = work.links.get(file.blob)
        reason = (
            link_violation(file.path, target)
            if target is not None
            else f"is a link whose target has more than {LINK_BYTES_MAX} bytes"
        )
        if reason is not None:
            refusals.append(
                (file.path, PathRefusal(reason, "make it point to a file of the repository"))
            )
    return refusals


def _colliding(work: CommittedWork) -> list[tuple[str, PathRefusal]]:
    added = [file.path for file in work.net if file.status in "AR"]
    return [
        (
            path,
            PathRefusal(f"differs from {other} only by letter case or Unicode form", "rename it"),
        )
        for path, other in collisions(added, work.names).items()
    ]


def _shadowing(work: CommittedWork, shadowing: Shadowing) -> list[tuple[str, PathRefusal]]:
    return [
        (file.path, refusal)
        for file in work.net
        if (refusal := shadowing.refusal(file)) is not None
    ]


def _unauthorized(ownership: Ownership, claimed: Sequence[str]) -> list[Violation]:
    outside = [path for path in claimed if ownership.refusal(_normal_form(path)) is not None]
    if not outside:
        return []
    return [
        Violation(
            check="scope",
            message=f"Touched unauthorized files: {', '.join(outside)}",
            hint="revert them, or ask for them with request_scope; "
            "if you did not touch them, leave them out of files_touched",
        )
    ]


def _normal_form(path: str) -> str:
    try:
        return normalize_git_path(path).removesuffix("/")
    except ValueError:
        return path


_TARGET_HINT: Final = (
    f"{DISPUTE}: the operator can land the change with the receipt of a task that the operator has "
    "spawned, replace the handoff by one with a newer base, or waive it"
)


class TargetGuard:
    """Checks the changes that come in by a merge of the target branch.

    A worker that can push to the target could commit its own changes there and pass them off as the
    work of others. So a target commit without a receipt may bring ordinary changes, but none to the
    files that the work is checked with, and none that would be used instead of them. `base_names`
    are the files of the base.
    """

    def __init__(
        self,
        contract: Contract,
        policy: VerificationPolicy,
        base_names: Collection[str],
        shadowing: Shadowing,
    ) -> None:
        self._ownership = Ownership(contract.files_owned, contract.files_readonly, policy.generated)
        self._shadowing = shadowing
        self._named_files = NamedFiles(contract.success_criteria, policy.setup)
        self._needs_receipts = policy.target_commits == "receipts"
        self._keeps_tests = policy.test_removal == "refuse"
        self._base_names = base_names

    def violations(self, target: str, changes: Iterable[CommitChange]) -> list[Violation]:
        """One violation for each path, with the first commit that changed it."""
        violations: dict[str, Violation] = {}
        for commit, _, file in changes:
            if file.path in violations:
                continue
            reason = self._objection(file)
            if reason is not None:
                violations[file.path] = Violation(
                    check="scope",
                    message=f"{file.path} came in from {target}, in a commit without a receipt, "
                    f"and {reason}",
                    hint=_TARGET_HINT,
                    path=file.path,
                    commit=commit,
                )
        return list(violations.values())

    def _objection(self, file: FileChange) -> str | None:
        """Why the change is refused, worded to follow the path."""
        path = file.path
        replaced = None if file.status == "D" else self._shadowing.replaced(file)
        if replaced is not None and self._objection(file._replace(path=replaced)) is not None:
            return f"would be imported instead of {replaced}"
        if self._keeps_tests and path in self._base_names and is_test_file(path):
            return "is a test of the base"
        refusal = self._ownership.refusal(path, is_submodule=file.is_submodule)
        if refusal is None:
            return None  # the task may change the file itself
        if self._ownership.is_readonly(path) or is_protected(path) or self._needs_receipts:
            return refusal.reason
        if self._named_files.includes(path):
            return "determines the result of a command of the contract"
        is_new = file.status != "D" and path not in self._base_names
        return self._shadowing.misleads(file) if is_new else None
