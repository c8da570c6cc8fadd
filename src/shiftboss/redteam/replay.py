"""Replays hacks against one contract: each is committed in a scratch repository and verified."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

from shiftboss.evidence.checks.verifier import Verifier
from shiftboss.protocol.claims.verdicts import Verdict, VerificationJob
from shiftboss.redteam.contracts import TaskContract
from shiftboss.redteam.hacks import Edit, Hack, NotApplicable
from shiftboss.redteam.scratch import ScratchRepository, scratch_folder

# The verifier takes one claim of a repository at a time, so there are as many repositories.
CONCURRENCY: Final = 2


class Trial(NamedTuple):
    """What happened to a hack. `check` is the check that refused it, `message` its reason; or the
    reason why the hack does not apply."""

    hack: Hack
    outcome: Literal["refused", "accepted", "not_applicable"]
    message: str = ""
    check: str | None = None
    verdict: Verdict | None = None


class Replay:
    """Tries changes on a contract. Claims are verified with the same rules as a worker's, except
    that CI is not asked: it would have to run on commits that must not be pushed."""

    def __init__(
        self,
        task: TaskContract,
        repositories: Sequence[ScratchRepository],
        verifier: Verifier,
    ) -> None:
        self.task = task
        self._verifier = verifier
        self._free: asyncio.Queue[ScratchRepository] = asyncio.Queue()
        for repository in repositories:
            self._free.put_nowait(repository)

    async def try_all(
        self, hacks: Sequence[Hack], report: Callable[[Trial], None] = lambda _: None
    ) -> list[Trial]:
        """The trials, in the order of the hacks. `report` is called after each."""

        async def try_and_report(hack: Hack) -> Trial:
            trial = await self.try_hack(hack)
            report(trial)
            return trial

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(try_and_report(hack)) for hack in hacks]
        return [task.result() for task in tasks]

    async def try_hack(self, hack: Hack) -> Trial:
        edit = hack.edit(self.task.view)
        if isinstance(edit, NotApplicable):
            return Trial(hack, "not_applicable", edit.reason)
        verdict = await self.verify(hack.name, edit)
        if verdict.accepted:
            return Trial(hack, "accepted", verdict=verdict)
        first = verdict.violations[0]
        return Trial(hack, "refused", first.message, first.check, verdict)

    async def verify(self, message: str, edit: Edit) -> Verdict:
        """The verdict on one commit with this change."""
        task = self.task
        repository = await self._free.get()
        try:
            commit = await repository.commit(task.branch, task.base, message, edit)
            return await self._verifier.verify(_job(task, str(repository.path), commit))
        finally:
            self._free.put_nowait(repository)


@asynccontextmanager
async def open_replay(task: TaskContract) -> AsyncIterator[Replay]:
    """Everything that is written is in a temporary folder, which is removed at the end."""
    async with scratch_folder() as folder:
        branches = {} if task.target is None else {task.target: task.base}
        repositories = [
            await ScratchRepository.create(
                folder / f"{number}.git", Path(task.git_folder), branches
            )
            for number in range(CONCURRENCY)
        ]
        verifier = Verifier(folder / "verifier", at_once=CONCURRENCY)
        try:
            yield Replay(task, repositories, verifier)
        finally:
            await verifier.close()


def _job(task: TaskContract, repo: str, commit: str) -> VerificationJob:
    return VerificationJob(
        swarm_id="redteam",
        bead_id=task.contract.task_id,
        epoch=1,
        claim_id=1,
        repo=repo,
        base_commit=task.base,
        branch=task.branch,
        target=task.target,
        target_base=task.base if task.target is not None else None,
        commit=commit,
        files_touched=[],
        contract=task.contract,
        contract_version=1,
        contract_hash="0" * 64,
        policy=task.policy,
        held_out=task.held_out,
    )
