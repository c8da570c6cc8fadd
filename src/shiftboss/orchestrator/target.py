"""The branch that work lands on, which somebody may have checked out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final, NamedTuple

from shiftboss.errors import TreeUnavailable
from shiftboss.orchestrator.git import run_git
from shiftboss.orchestrator.half_moved import HalfMoved
from shiftboss.orchestrator.repo import GitRepo

_MERGE_SECONDS: Final = 600.0
_OTHER_TIP: Final = "Not possible to fast-forward"


class Blocked(NamedTuple):
    """Something of the user's is in the way. It was left as it is."""

    reason: str
    hint: str


class Target:
    """`held` is the descriptor of the lock of landings. A git that outlives us keeps it, so nobody
    lands beside it."""

    def __init__(self, repo: GitRepo, branch: str, held: int) -> None:
        self._repo = repo
        self._branch = branch
        self._held = held
        self._half_moved = HalfMoved(repo)

    async def tip(self) -> str | None:
        return await self._repo.branch_tip(self._branch)

    async def mend(self) -> None:
        """What a git that was killed has left half done."""
        await self._half_moved.mend()

    async def move(self, old: str, new: str, why: str) -> bool | Blocked:
        """From `old` to `new`, which descends from it. False: it is not at `old` any more. The
        files of whoever has it checked out go along."""
        folder = (await self._repo.checked_out()).get(self._branch)
        if folder is None or not await asyncio.to_thread(folder.is_dir):
            if await self._repo.move_ref(f"refs/heads/{self._branch}", new, old, why):
                return True
            if await self.tip() == old:
                raise TreeUnavailable(
                    f"the branch {self._branch} of {self._repo.common} cannot be moved",
                    hint=f"try it: git branch --force {self._branch} {new[:12]}",
                )
            return False
        return await self._move_files(folder, old, new)

    async def _move_files(self, folder: Path, old: str, new: str) -> bool | Blocked:
        await self._half_moved.begin(folder, old, new)
        said = await run_git(
            [
                *("-c", "merge.autoStash=false", "-c", "merge.verifySignatures=false"),
                *("merge", "--ff-only", "--quiet", "--no-stat", new),
            ],
            folder,
            seconds=_MERGE_SECONDS,
            keeps_open=[self._held],
        )
        await self._half_moved.ended()
        tip = await self.tip()
        if tip is not None and await self._repo.has(new, tip):
            return True
        if _OTHER_TIP in said.err or tip != old:
            return False
        lines = [line.strip() for line in said.err.splitlines() if line.strip()]
        words = " ".join(lines).removeprefix("error: ").removesuffix("Aborting").strip()
        return Blocked(
            f"{self._branch} is checked out in {folder}, and cannot be moved there: {words[:1000]}",
            "commit, stash or move away what is in the way there, then land it again; the work is "
            f"safe at {new[:12]}",
        )
