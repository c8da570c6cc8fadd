"""Who else changed what a piece of work cannot be merged with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from shiftboss.orchestrator.repo import GitRepo

OTHERS_MAX: Final = 20
_FORMAT: Final = (
    "%H%x1f%s%x1f%(trailers:key=Shiftboss-Task,valueonly,separator=%x20)"
    "%x1f%(trailers:key=Shiftboss-Receipt,valueonly,separator=%x20)"
)


class LandedWork(NamedTuple):
    """`commit` is the receipt's."""

    commit: str
    bead_id: str
    receipt_id: str | None


class OtherSide(NamedTuple):
    """A commit of the target that the work does not have and that changed a file in conflict.
    Task and receipt are None where it came there otherwise."""

    commit: str
    subject: str
    task: str | None
    receipt: str | None


async def other_side(
    repo: GitRepo, ours: str, theirs: str, paths: Sequence[str], landed: Sequence[LandedWork]
) -> list[OtherSide]:
    """The newest first. Merges of landed work say whose it is; work that was landed without a merge
    is known by the commits that its receipt's commit has."""
    said = await repo.text(
        "the other side",
        *("log", "-z", "--first-parent", f"--max-count={OTHERS_MAX}", f"--format={_FORMAT}"),
        *(f"{theirs}..{ours}", "--", *paths),
    )
    found = [OtherSide(*_words(one)) for one in said.split("\0") if one]
    if all(one.task is not None for one in found):
        return found
    new = set((await repo.text("the other side", "rev-list", f"{theirs}..{ours}")).split())
    known = [one for one in landed if one.commit in new]
    return [one if one.task is not None else await _named(repo, one, known) for one in found]


async def _named(repo: GitRepo, side: OtherSide, landed: Sequence[LandedWork]) -> OtherSide:
    for work in landed:
        if await repo.has(side.commit, work.commit):
            return side._replace(task=work.bead_id, receipt=work.receipt_id)
    return side


def _words(line: str) -> tuple[str, str, str | None, str | None]:
    commit, subject, task, receipt = line.split("\x1f")
    return commit, subject, task.strip() or None, receipt.strip() or None
