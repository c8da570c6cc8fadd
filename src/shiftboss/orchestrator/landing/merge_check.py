"""Runs the criteria of a task again, in a clean checkout of a merge that was never verified."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from shiftboss.evidence.checks.commit import ClaimedCommit
from shiftboss.evidence.checks.criteria import CriteriaCheck
from shiftboss.evidence.checks.test_runs import BaseRuns
from shiftboss.evidence.commands.sandbox import state_paths
from shiftboss.evidence.mirror.mirror import Mirror
from shiftboss.orchestrator.git.repository import GitRepo
from shiftboss.protocol.claims.verdicts import CheckResult, VerificationJob, Waiver
from shiftboss.protocol.handoffs import Contract, VerificationPolicy
from shiftboss.rules.claims.verdicts import with_waivers
from shiftboss.system.background_delete import BackgroundDelete
from shiftboss.system.file_locks import ExclusiveFolder, acquire_exclusive_folder


class MergeCheck:
    """Makes its checkouts in `folder`. Merged code must not see the `state` folder of the run."""

    def __init__(self, folder: Path, state: Path) -> None:
        self._folder = folder
        self._state = state
        self._opening = asyncio.Lock()
        self._opened: tuple[ExclusiveFolder, BackgroundDelete] | None = None

    async def first_failure(
        self,
        repo: GitRepo,
        commit: str,
        bead_id: str,
        criteria: Sequence[str],
        policy: VerificationPolicy,
        waivers: Sequence[Waiver],
    ) -> CheckResult | None:
        """The first check that fails. Criteria without a command were judged when the work was
        accepted."""
        if not criteria:
            return None
        background_delete = await self._open()
        job = _job(repo, commit, bead_id, criteria, policy, waivers)
        claim = ClaimedCommit(
            commit=commit, tree=None, base=commit, base_tree=None, tip=None, target=None
        )
        # Only objects are read: nothing is fetched into the user's repository.
        hidden = await asyncio.to_thread(state_paths, self._state)
        mirror = Mirror(repo.common, str(repo.common), hidden)
        base_runs = BaseRuns(background_delete.folder, background_delete)
        checks = await CriteriaCheck(mirror, claim, job, background_delete, base_runs).make()
        judged = (with_waivers(check, waivers) for check in checks)
        return next((check.result for check in judged if not check.holds), None)

    async def close(self) -> None:
        if self._opened is not None:
            exclusive_folder, background_delete = self._opened
            await background_delete.close()
            exclusive_folder.release()

    async def _open(self) -> BackgroundDelete:
        """Each process has its own folder for files to be deleted."""
        async with self._opening:
            if self._opened is None:
                exclusive_folder = await asyncio.to_thread(acquire_exclusive_folder, self._folder)
                background_delete = BackgroundDelete(self._folder / str(exclusive_folder.number))
                await background_delete.open()
                self._opened = exclusive_folder, background_delete
            return self._opened[1]


def _job(
    repo: GitRepo,
    commit: str,
    bead_id: str,
    criteria: Sequence[str],
    policy: VerificationPolicy,
    waivers: Sequence[Waiver],
) -> VerificationJob:
    """Tests are not counted again: verified work of other tasks may have removed some."""
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
