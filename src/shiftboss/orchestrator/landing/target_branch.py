"""The branch that work lands on, which somebody may have checked out."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from shiftboss.errors import ShiftbossError, TreeUnavailable
from shiftboss.orchestrator.git.checkouts import UserCheckout
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.orchestrator.landing.checkout_repair import CheckoutRepair

log = logging.getLogger(__name__)

_MERGE_SECONDS: Final = 600.0
_OTHER_TIP: Final = "Not possible to fast-forward"
_NAMES_MAX: Final = 10


class TargetMoved(NamedTuple):
    """The branch is there. `warning`: files of the checkout are not, and what to do."""

    warning: str = ""


class TargetBlocked(NamedTuple):
    """Something of the user's is in the way. It was left as it is."""

    reason: str
    hint: str


class TargetBranch:
    """`held` is the descriptor of the lock of landings. A git that outlives us keeps it, so nobody
    lands beside it."""

    def __init__(self, repo: GitRepo, branch: str, held: int) -> None:
        self._repo = repo
        self._branch = branch
        self._held = held
        self._repair = CheckoutRepair(repo)

    async def tip(self) -> str | None:
        return await self._repo.branch_tip(self._branch)

    async def mend(self) -> None:
        """What a git that was killed has left half done."""
        await self._repair.mend()

    async def move(self, old: str, new: str, why: str) -> TargetMoved | TargetBlocked | None:
        """From `old` to `new`, which descends from it. None: it is not at `old` any more. The
        files of whoever has it checked out go along."""
        if not await self._repo.has(old, new):
            raise TreeUnavailable(
                f"{new} does not have all that {self._branch} of {self._repo.common} has",
                hint="nothing was moved; look at the history of both",
            )
        checkout = (await self._repo.checked_out()).get(self._branch)
        if checkout is None or not await asyncio.to_thread(checkout.folder.is_dir):
            if await self._repo.move_ref(f"refs/heads/{self._branch}", new, old, why):
                return TargetMoved()
            if await self.tip() == old:
                raise TreeUnavailable(
                    f"the branch {self._branch} of {self._repo.common} cannot be moved",
                    hint=f"try it: git branch --force {self._branch} {new[:12]}",
                )
            return None
        return await self._move_files(checkout, old, new)

    async def _move_files(
        self, checkout: UserCheckout, old: str, new: str
    ) -> TargetMoved | TargetBlocked | None:
        before = await checkout.changes()
        await self._repair.begin(checkout.folder, old, new)
        said = await checkout.run(
            [
                *("-c", "merge.autoStash=false", "-c", "merge.verifySignatures=false"),
                *("merge", "--ff-only", "--no-squash", "--quiet", "--no-stat", new),
            ],
            seconds=_MERGE_SECONDS,
            keeps_open=[self._held],
        )
        await self._repair.ended()
        tip = await self.tip()
        if tip is not None and await self._repo.has(new, tip):
            return TargetMoved(await self._warning(checkout, before))
        if _OTHER_TIP in said.err or tip != old:
            return None
        lines = [line.strip() for line in said.err.splitlines() if line.strip()]
        words = " ".join(lines).removeprefix("error: ").removesuffix("Aborting").strip()
        return TargetBlocked(
            f"{self._branch} is checked out in {checkout.folder}, and cannot be moved there: "
            f"{words[:1000]}",
            "commit, stash or move away what is in the way there, then land it again; the work is "
            f"safe at {new[:12]}",
        )

    async def _warning(self, checkout: UserCheckout, before: set[str]) -> str:
        """Empty when the checkout has no changes that it had not before."""
        try:
            strange = sorted(await checkout.changes() - before)
        except ShiftbossError as error:
            strange = [error.detail]
        if not strange:
            return ""
        text = (
            f"{self._branch} has moved, but the files in {checkout.folder} are not as it has them: "
            f"{', '.join(strange[:_NAMES_MAX])}; look at `git status` there before you commit"
        )
        log.warning("%s", text)
        return text
