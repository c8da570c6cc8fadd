"""Whether the tests that the base has are still there and still run."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from shiftboss.evidence.mirror import Mirror
from shiftboss.protocol.verdict import VerificationJob, Violation
from shiftboss.rules.changes import FileChange, NetChange
from shiftboss.rules.tests_kept import Lost, Revision, kind_of, lost_tests
from shiftboss.rules.verdicts import Checked, judged, passed

# Reading a file of this size takes Python a second.
FILE_BYTES_MAX: Final = 512 * 1024
NAMED_MAX: Final = 5


class _Side(NamedTuple):
    """A path, and what it held before and after, by blob."""

    path: str
    before: str | None
    after: str | None


async def check_tests_kept(mirror: Mirror, net: NetChange, job: VerificationJob) -> Checked:
    if job.policy.test_removal == "allow":
        return passed("tests_kept", "the policy allows to remove tests")
    sides = [side for file in net.files for side in _sides(file) if kind_of(side.path)]
    blobs = [blob for _, before, after in sides for blob in (before, after) if blob is not None]
    texts = await mirror.read(list(dict.fromkeys(blobs)), FILE_BYTES_MAX) if blobs else {}
    revisions = [
        Revision(path, _text(texts, before), _text(texts, after)) for path, before, after in sides
    ]
    lost = await asyncio.to_thread(lost_tests, revisions)
    return judged("tests_kept", _violations(lost), "the tests of the base are there")


def _sides(file: FileChange) -> list[_Side]:
    """A renamed file is one that went and one that came."""
    if file.old_path is None:
        return [_Side(file.path, file.old_blob, file.blob)]
    return [_Side(file.old_path, file.old_blob, None), _Side(file.path, None, file.blob)]


def _text(texts: dict[str, bytes], blob: str | None) -> str | None:
    """What is missing (an added or deleted file has no blob on one side) is not there."""
    content = texts.get(blob) if blob is not None else None
    return content.decode(errors="replace") if content is not None else None


def _violations(lost: list[Lost]) -> list[Violation]:
    """One for each file."""
    by_path: dict[str, list[Lost]] = {}
    for one in lost:
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
