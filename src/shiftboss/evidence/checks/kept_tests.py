"""The check "tests_kept": the tests of the base are still there and still run."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.claims.verdicts import VerificationJob, Violation
from shiftboss.rules.claims.kept_tests import (
    FileRevision,
    LostTest,
    is_test_file,
    language_of_tests,
    lost_tests,
)
from shiftboss.rules.claims.refusal_advice import DISPUTE
from shiftboss.rules.claims.verdicts import CheckOutcome, passed, passed_unless_violated
from shiftboss.rules.paths.changes import NO_MODE, SUBMODULE, FileChange, NetChange
from shiftboss.rules.paths.patterns import Scope

# Parsing a file of this size takes Python a second.
FILE_BYTES_MAX: Final = 512 * 1024
# All files that the base has, before and after the change; and all new files.
CHANGED_BYTES_MAX: Final = 12 * 1024 * 1024
NEW_BYTES_MAX: Final = 4 * 1024 * 1024
NAMED_MAX: Final = 5


class _BlobChange(NamedTuple):
    """The blobs of a path before and after the change. None: the path does not exist."""

    path: str
    before: str | None
    after: str | None


async def check_tests_kept(mirror: Mirror, net: NetChange, job: VerificationJob) -> CheckOutcome:
    if job.policy.test_removal == "allow":
        return passed("tests_kept", "the policy allows removing tests")
    changing = Scope(job.policy.expectations_change)
    changes = [
        change
        for file in net.files
        for change in _blob_changes(file)
        if language_of_tests(change.path)
        and (change.before is None or not changing.covers(change.path))
    ]
    texts = await _texts(mirror, changes)
    revisions = [
        FileRevision(path, _text(texts, before), _text(texts, after))
        for path, before, after in changes
    ]
    lost = await asyncio.to_thread(lost_tests, revisions)
    unread = [change.path for change in changes if _is_unread(change, texts)]
    violations = [*map(_not_read, unread), *_violations(lost, frozenset(unread))]
    return passed_unless_violated("tests_kept", violations, "the tests of the base are kept")


async def _texts(mirror: Mirror, changes: Sequence[_BlobChange]) -> dict[str, bytes]:
    """The contents by blob: first the files of the base, then what became of them. New files have a
    limit of their own, because a worker can make them so large that nothing else would be read."""
    old = [change for change in changes if change.before is not None]
    changed = [*(change.before for change in old), *(change.after for change in old)]
    new = [change.after for change in changes if change.before is None]
    return await _read(mirror, changed, CHANGED_BYTES_MAX) | await _read(mirror, new, NEW_BYTES_MAX)


async def _read(mirror: Mirror, blobs: Sequence[str | None], total_max: int) -> dict[str, bytes]:
    wanted = [blob for blob in dict.fromkeys(blobs) if blob is not None]
    return await mirror.read(wanted, FILE_BYTES_MAX, total_max) if wanted else {}


def _blob_changes(file: FileChange) -> list[_BlobChange]:
    """A rename counts as one deleted and one new file."""
    before = file.old_blob if file.old_mode not in (NO_MODE, SUBMODULE) else None
    after = file.blob if file.new_mode not in (NO_MODE, SUBMODULE) else None
    if file.old_path is None:
        return [_BlobChange(file.path, before, after)]
    return [_BlobChange(file.old_path, before, None), _BlobChange(file.path, None, after)]


def _text(texts: dict[str, bytes], blob: str | None) -> str | None:
    content = texts.get(blob) if blob is not None else None
    return content.decode(errors="replace") if content is not None else None


def _is_unread(change: _BlobChange, texts: Collection[str]) -> bool:
    """Whether the file may have tests of the base that cannot be compared. A large Rust file that
    is not a test file is generated code."""
    path, before, after = change
    if before is None:
        return False
    if before not in texts:
        return is_test_file(path)
    return after is not None and after not in texts


def _not_read(path: str) -> Violation:
    return Violation(
        check="tests_kept",
        message=f"{path}: too large to check whether its tests are kept",
        hint=f"keep test files below {FILE_BYTES_MAX // 1024} KiB and change fewer of them "
        f"at once; if that is not possible, {DISPUTE}",
        path=path,
    )


def _violations(lost: Sequence[LostTest], reported: Collection[str]) -> list[Violation]:
    """One violation for each file that has none yet."""
    by_path: dict[str, list[LostTest]] = {}
    for test in lost:
        if test.path not in reported:
            by_path.setdefault(test.path, []).append(test)
    return [
        Violation(
            check="tests_kept",
            message=f"{path}: {_sentence(tests)}",
            hint=f"restore the tests; if they must go, {DISPUTE}",
            path=path,
        )
        for path, tests in by_path.items()
    ]


def _sentence(lost: list[LostTest]) -> str:
    named = ", ".join(f"{test.name} {test.how}" for test in lost[:NAMED_MAX])
    more = len(lost) - NAMED_MAX
    return f"{named}, and {more} more" if more > 0 else named
