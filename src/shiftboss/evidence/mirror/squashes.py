"""Squashed work on a branch: finding it, and merging work that was built on top of it.

Anybody can write the trailer that names the squashed work. So a squash counts only if its content
is what git makes of its parent and that work.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, NamedTuple

from shiftboss.rules.runs.squash import COMMIT_TRAILER
from shiftboss.system.git import GitOutput, checked

# The server merges again what a landing has merged: both must get the same files.
MERGE_SETTINGS: Final = ("-c", "merge.renames=true", "-c", "merge.directoryRenames=conflict")
# A check can need the check of an older squash, and so on.
CHECKS_MAX: Final = 100
_IDENTITY: Final = ("-c", "user.name=Shiftboss", "-c", "user.email=shiftboss@localhost")
_FORMAT: Final = f"%H %P %(trailers:key={COMMIT_TRAILER},valueonly,separator=%x20)"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

RunGit = Callable[[Sequence[str]], Awaitable[GitOutput]]


class Squash(NamedTuple):
    """By its message, `commit` has the content of `verified`, merged into `parent`."""

    commit: str
    parent: str
    verified: str


class SquashHistory:
    """The squashes of one repository. `run` runs git there."""

    def __init__(self, run: RunGit) -> None:
        self._run = run
        self._checks: dict[str, bool] = {}

    async def find(self, tip: str, work: str, accepted: Sequence[str]) -> str | None:
        """The squash on the branch that contains the work. `accepted` are the commits whose squash
        counts: the work itself, and merge tasks that have merged it."""
        for squash in await self._squashes(tip, work):
            if await self._contains(squash, work, accepted):
                return squash.commit
        return None

    async def is_squash(self, tip: str, commit: str, work: str, accepted: Sequence[str]) -> bool:
        """Whether this commit on the branch is a squash that contains the work."""
        squash = await self._squash_at(commit)
        if squash is None or not await self._contains(squash, work, accepted):
            return False
        since = checked(
            await self._run(["rev-list", "--first-parent", f"{squash.parent}..{tip}"]),
            "the commits since the squash",
        )
        return commit in since.decode().split()

    async def genuine(self, commits: Sequence[str], accepted: Collection[str]) -> dict[str, str]:
        """Those of the commits that are squashes of accepted work and have its content, each with
        the accepted commit."""
        if not commits:
            return {}
        output = await self._run(
            [
                *("log", "--no-walk=unsorted", f"--grep=^{COMMIT_TRAILER}: "),
                *(f"--format={_FORMAT}", *commits[:CHECKS_MAX]),
            ]
        )
        lines = checked(output, "the squashed work").decode(errors="replace").splitlines()
        squashes = [squash for line in lines if (squash := _parse(line)) is not None]
        return {
            squash.commit: squash.verified
            for squash in squashes
            if squash.verified in accepted and await self._is_genuine(squash)
        }

    async def joined(self, tip: str, work: str) -> str:
        """The commit to merge the work into. Work that was built on other work, which the tip has
        as a squash, would conflict with that squash: git does not know that they are the same. A
        temporary commit on the tip that has both as parents tells it."""
        known: list[str] = []
        for squash in await self._squashes(tip, work):
            if (
                await self._is_ancestor(squash.verified, work)
                and not await self._is_in_any(squash.verified, known)
                and await self._is_genuine(squash)
            ):
                known.append(squash.verified)
        if not known:
            return tip
        parents = [argument for parent in (tip, *known) for argument in ("-p", parent)]
        tree = await self._tree_of(tip)
        output = await self._run([*_IDENTITY, "commit-tree", tree, *parents, "-m", "Squashed work"])
        return checked(output, "joining squashed work").decode().strip()

    async def _contains(self, squash: Squash, work: str, accepted: Sequence[str]) -> bool:
        return (
            squash.verified in accepted
            and await self._is_ancestor(work, squash.verified)
            and await self._is_genuine(squash)
        )

    async def _is_genuine(self, squash: Squash) -> bool:
        """Whether it has the content that its message claims."""
        if squash.commit not in self._checks:
            if len(self._checks) >= CHECKS_MAX:
                return False
            self._checks[squash.commit] = False
            tree = await self._tree_of(squash.commit)
            self._checks[squash.commit] = tree == await self._merged_tree(squash)
        return self._checks[squash.commit]

    async def _merged_tree(self, squash: Squash) -> str | None:
        """None: there are conflicts."""
        if await self._is_ancestor(squash.parent, squash.verified):
            return await self._tree_of(squash.verified)
        ours = await self.joined(squash.parent, squash.verified)
        output = await self._run(
            [*MERGE_SETTINGS, "merge-tree", "--write-tree", ours, squash.verified]
        )
        return output.out.decode().strip() if output.code == 0 else None

    async def _squashes(self, tip: str, work: str) -> list[Squash]:
        """The commits marked as squashes on the branch since the work was begun, the newest first.
        Only the branch itself: the commits of merged work have messages that agents wrote."""
        output = await self._run(
            [
                *("log", "--first-parent", f"--grep=^{COMMIT_TRAILER}: "),
                *(f"--format={_FORMAT}", f"{work}..{tip}"),
            ]
        )
        lines = checked(output, "the squashed work").decode(errors="replace").splitlines()
        return [squash for line in lines if (squash := _parse(line)) is not None]

    async def _squash_at(self, commit: str) -> Squash | None:
        output = await self._run(["log", "-1", f"--format={_FORMAT}", commit])
        if output.code != 0:
            return None
        return _parse(output.out.decode(errors="replace").strip())

    async def _is_in_any(self, commit: str, newer: Sequence[str]) -> bool:
        for one in newer:
            if await self._is_ancestor(commit, one):
                return True
        return False

    async def _is_ancestor(self, older: str, newer: str) -> bool:
        """Also false if one of them is no longer in the repository."""
        output = await self._run(["merge-base", "--is-ancestor", older, newer])
        return output.code == 0

    async def _tree_of(self, commit: str) -> str:
        output = await self._run(["rev-parse", "--verify", f"{commit}^{{tree}}"])
        return checked(output, f"the files of {commit}").decode().strip()


def _parse(line: str) -> Squash | None:
    """None if it has several parents or names several commits."""
    fields = line.split()
    if len(fields) != len(Squash._fields) or not all(map(_COMMIT.fullmatch, fields)):
        return None
    return Squash(*fields)
