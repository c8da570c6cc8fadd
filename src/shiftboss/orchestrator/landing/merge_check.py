"""The criteria of a task once more, in clean checkouts of a merge that nobody has looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from shiftboss.evidence.checks.commit import ClaimedCommit
from shiftboss.evidence.checks.criteria import BaseTestCounts, CriteriaCheck
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.protocol.verdicts import CheckResult, VerificationJob, Waiver
from shiftboss.rules.claims.verdicts import with_waivers
from shiftboss.system.background_delete import BackgroundDelete
from shiftboss.system.file_locks import ExclusiveDir, hold_slot


class MergeCheck:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opening = asyncio.Lock()
        self._opened: tuple[ExclusiveDir, BackgroundDelete] | None = None

    async def failing(
        self,
        repo: GitRepo,
        commit: str,
        bead_id: str,
        criteria: Sequence[str],
        policy: VerificationPolicy,
        waivers: Sequence[Waiver],
    ) -> CheckResult | None:
        """The first that fails. What no command can check was judged when the work was accepted."""
        if not criteria:
            return None
        disposal = await self._open()
        job = _job(repo, commit, bead_id, criteria, policy, waivers)
        claim = ClaimedCommit(
            commit=commit, tree=None, base=commit, base_tree=None, tip=None, target=None
        )
        # Only its objects are read; nothing is fetched into the user's repository.
        mirror = Mirror(repo.common, str(repo.common))
        counts = BaseTestCounts(disposal.folder, disposal)
        checks = await CriteriaCheck(mirror, claim, job, disposal, counts).make()
        judged = (with_waivers(one, waivers) for one in checks)
        return next((one.result for one in judged if not one.holds), None)

    async def close(self) -> None:
        if self._opened is not None:
            slot, disposal = self._opened
            await disposal.close()
            slot.release()

    async def _open(self) -> BackgroundDelete:
        """What each process throws away is its own."""
        async with self._opening:
            if self._opened is None:
                slot = await asyncio.to_thread(hold_slot, self._folder)
                disposal = BackgroundDelete(self._folder / str(slot.number))
                await disposal.open()
                self._opened = slot, disposal
            return self._opened[1]


def _job(
    repo: GitRepo,
    commit: str,
    bead_id: str,
    criteria: Sequence[str],
    policy: VerificationPolicy,
    waivers: Sequence[Waiver],
) -> VerificationJob:
    """Tests are not counted again: others may have taken some away since, and were looked at."""
    contract = Contract(
        task_id=bead_id,
        files_owned=["**"],
        files_readonly=[],
        dependencies_completed=[],
        success_criteria=list(criteria),
    )
    return VerificationJob(
        swarm_id="",
        bead_id=bead_id,
        epoch=0,
        claim_id=0,
        repo=str(repo.common),
        base_commit=commit,
        branch=None,
        target=None,
        commit=commit,
        files_touched=[],
        contract=contract,
        contract_version=0,
        contract_hash="",
        policy=policy.model_copy(update={"test_removal": "allow"}),
        waivers=list(waivers),
    )
