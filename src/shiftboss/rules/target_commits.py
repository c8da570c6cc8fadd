"""What may come along with a merge of the target branch.

Whoever can move the target could put changes of their own there and have them taken for the work of
others. So a commit of the target that no receipt accounts for may bring ordinary changes, and none
to what the work is checked with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.protocol.verdicts import Violation
from shiftboss.rules.changes import CommitChange, FileChange
from shiftboss.rules.named_paths import NamedPaths
from shiftboss.rules.ownership import Ownership
from shiftboss.rules.protected import protected
from shiftboss.rules.tests_kept import is_test_file

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
