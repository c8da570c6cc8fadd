"""The branch that work lands on. A user may have it checked out."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from shiftboss.errors import ShiftbossError, TreeUnavailable
from shiftboss.orchestrator.git.checkouts import GitCheckout
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.landing.checkout_repair import CheckoutRepair

log = logging.getLogger(__name__)

_MERGE_SECONDS: Final = 600.0
# What git prints if the branch has moved.
_NO_FAST_FORWARD: Final = "Not possible to fast-forward"
_NAMES_MAX: Final = 10


class TargetMoved(NamedTuple):
    """The branch was moved. `warning` is set if files in the user's checkout were not updated."""

    warning: str = ""


class TargetBlocked(NamedTuple):
    """The branch could not be moved because of changes in the user's checkout. Nothing changed."""

    reason: str
    hint: str


class TargetBranch:
    """`lock` is the file descriptor of the landing lock. Git inherits it: if a git process outlives
    the orchestrator, no other landing starts until it has exited."""

    def __init__(self, repo: GitRepo, branch: str, lock: int) -> None:
        self._repo = repo
        self._branch = branch
        self._lock = lock
        self._repair = CheckoutRepair(repo)

    async def tip(self) -> str | None:
        return await self._repo.branch_tip(self._branch)

    async def repair(self) -> None:
        """Undo what a killed git has left half done."""
        await self._repair.repair()

    async def move(self, old: str, new: str, why: str) -> TargetMoved | TargetBlocked | None:
        """Move the branch from `old` to its descendant `new`, and update the files of the user's
        checkout. None if the branch is no longer at `old`."""
        if not await self._repo.is_ancestor(old, new):
            raise TreeUnavailable(
                f"{new} does not contain all commits of {self._branch} in {self._repo.common}",
                hint="nothing was moved; compare the histories of both",
            )
        checkout = (await self._repo.checkouts_by_branch()).get(self._branch)
        if checkout is None or not await asyncio.to_thread(checkout.folder.is_dir):
            if await self._repo.move_ref(f"refs/heads/{self._branch}", new, old, why):
                return TargetMoved()
            if await self.tip() == old:
                raise TreeUnavailable(
                    f"the branch {self._branch} of {self._repo.common} cannot be moved",
                    hint=f"try it by hand: git branch --force {self._branch} {new[:12]}",
                )
            return None
        return await self._move_checkout(checkout, old, new)

    async def _move_checkout(
        self, checkout: GitCheckout, old: str, new: str
    ) -> TargetMoved | TargetBlocked | None:
        before = await checkout.changes()
        await self._repair.begin(checkout.folder, old, new)
        output = await checkout.run(
            [
                *("-c", "merge.autoStash=false", "-c", "merge.verifySignatures=false"),
                *("merge", "--ff-only", "--no-squash", "--quiet", "--no-stat", new),
            ],
            seconds=_MERGE_SECONDS,
            keeps_open=[self._lock],
        )
        await self._repair.end()
        tip = await self.tip()
        if tip is not None and await self._repo.is_ancestor(new, tip):
            return TargetMoved(await self._warning(checkout, before))
        if _NO_FAST_FORWARD in output.err or tip != old:
            return None
        lines = [line.strip() for line in output.err.splitlines() if line.strip()]
        lines = [line for line in lines if not line.startswith(("hint:", "warning:"))]
        message = " ".join(lines).removeprefix("error: ").removesuffix("Aborting").rstrip(". ")
        return TargetBlocked(
            f"{self._branch} is checked out in {checkout.folder} and cannot be updated there: "
            f"{message[:1000]}",
            "commit, stash or move away those changes, then land it again; the work is safe at "
            f"{new[:12]}",
        )

    async def _warning(self, checkout: GitCheckout, before: set[str]) -> str:
        """Empty if the checkout has no changes that it did not have before."""
        try:
            unexpected = sorted(await checkout.changes() - before)
        except ShiftbossError as error:
            unexpected = [error.detail]
        if not unexpected:
            return ""
        text = (
            f"{self._branch} has moved, but some files in {checkout.folder} differ from it: "
            f"{', '.join(unexpected[:_NAMES_MAX])}; run `git status` there before you commit"
        )
        log.warning("%s", text)
        return text
