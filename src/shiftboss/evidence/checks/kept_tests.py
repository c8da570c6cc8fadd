"""Whether the tests that the base has are still there and still run."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.protocol.verdicts import VerificationJob, Violation
from shiftboss.rules.claims.kept_tests import Lost, Revision, is_test_file, kind_of, lost_tests
from shiftboss.rules.claims.verdicts import Checked, judged, passed
from shiftboss.rules.paths.changes import NOTHING, SUBMODULE, FileChange, NetChange

# Reading a file of this size takes Python a second.
FILE_BYTES_MAX: Final = 512 * 1024
# Of the files that the base has, before and after; and of those that are new.
CHANGED_BYTES_MAX: Final = 12 * 1024 * 1024
NEW_BYTES_MAX: Final = 4 * 1024 * 1024
NAMED_MAX: Final = 5


class _Side(NamedTuple):
    """A path, and what it held before and after, by blob. None: it was not there, or is not."""

    path: str
    before: str | None
    after: str | None


async def check_tests_kept(mirror: Mirror, net: NetChange, job: VerificationJob) -> Checked:
    if job.policy.test_removal == "allow":
        return passed("tests_kept", "the policy allows to remove tests")
    sides = [side for file in net.files for side in _sides(file) if kind_of(side.path)]
    texts = await _texts(mirror, sides)
    revisions = [
        Revision(path, _text(texts, before), _text(texts, after)) for path, before, after in sides
    ]
    lost = await asyncio.to_thread(lost_tests, revisions)
    unread = [side.path for side in sides if _is_unread(side, texts)]
    violations = [*map(_not_read, unread), *_violations(lost, frozenset(unread))]
    return judged("tests_kept", violations, "the tests of the base are there")


async def _texts(mirror: Mirror, sides: Sequence[_Side]) -> dict[str, bytes]:
    """What the base has comes first, then what became of it. Files that are new can be made so many
    and so large that they would leave no room; they have one of their own."""
    old = [one for one in sides if one.before is not None]
    changed = [*(one.before for one in old), *(one.after for one in old)]
    new = [one.after for one in sides if one.before is None]
    return await _read(mirror, changed, CHANGED_BYTES_MAX) | await _read(mirror, new, NEW_BYTES_MAX)


async def _read(mirror: Mirror, blobs: Sequence[str | None], total_max: int) -> dict[str, bytes]:
    wanted = [blob for blob in dict.fromkeys(blobs) if blob is not None]
    return await mirror.read(wanted, FILE_BYTES_MAX, total_max) if wanted else {}


def _sides(file: FileChange) -> list[_Side]:
    """A renamed file is one that went and one that came."""
    before = file.old_blob if file.old_mode not in (NOTHING, SUBMODULE) else None
    after = file.blob if file.new_mode not in (NOTHING, SUBMODULE) else None
    if file.old_path is None:
        return [_Side(file.path, before, after)]
    return [_Side(file.old_path, before, None), _Side(file.path, None, after)]


def _text(texts: dict[str, bytes], blob: str | None) -> str | None:
    content = texts.get(blob) if blob is not None else None
    return content.decode(errors="replace") if content is not None else None


def _is_unread(side: _Side, texts: Collection[str]) -> bool:
    """Whether the base may have tests there that cannot be compared. Large files of Rust that are
    no tests are generated."""
    path, before, after = side
    if before is None:
        return False
    if before not in texts:
        return is_test_file(path)
    return after is not None and after not in texts


def _not_read(path: str) -> Violation:
    return Violation(
        check="tests_kept",
        message=f"{path}: too large to see whether its tests are kept",
        hint=f"keep files with tests below {FILE_BYTES_MAX // 1024} KiB and change fewer of them "
        "at once; or ask for a waiver and say why",
        path=path,
    )


def _violations(lost: Sequence[Lost], named: Collection[str]) -> list[Violation]:
    """One for each file that is not named already."""
    by_path: dict[str, list[Lost]] = {}
    for one in lost:
        if one.path not in named:
            by_path.setdefault(one.path, []).append(one)
    return [
        Violation(
            check="tests_kept",
            message=f"{path}: {_sentence(those)}",
            hint="bring the tests back; if they are to go, ask for a waiver and say why",
            path=path,
        )
        for path, those in by_path.items()
    ]


def _sentence(lost: list[Lost]) -> str:
    named = ", ".join(f"{one.name} {one.how}" for one in lost[:NAMED_MAX])
    more = len(lost) - NAMED_MAX
    return f"{named}, and {more} more" if more > 0 else named
