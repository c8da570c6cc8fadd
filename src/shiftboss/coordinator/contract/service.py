"""The operations of the completion contract: milestones, failures, repos, instructions."""

from __future__ import annotations

import json

from shiftboss.coordinator.claims.verdict_waiters import VerdictWaiters
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract import ci, failures, halts, locks, milestones, repos
from shiftboss.coordinator.contract.attempts import earlier_checkpoint
from shiftboss.coordinator.contract.done_reports import check_done_runs
from shiftboss.coordinator.contract.git_work import read_git_work
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.idempotency import write_once
from shiftboss.errors import (
    InvalidRequest,
    UnknownCheckpoint,
    UnknownHandoff,
)
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.contract.contract_requests import (
    CanSpawnAnswer,
    CanSpawnRequest,
    CheckpointAnswer,
    FailureAnswer,
    InstructionsAnswer,
    InstructionsRequest,
    MilestoneAnswer,
    OperatorAnswer,
    ReleaseRepoRequest,
    ReportFailureRequest,
    ReportMilestoneRequest,
    ReposAnswer,
    ReposRequest,
    ResumeRequest,
    ShowCheckpointRequest,
)
from shiftboss.protocol.contract.milestone_lines import parse_line, render_line
from shiftboss.protocol.contract.milestones import Done, MilestoneReport, PushedToCi
from shiftboss.protocol.handoff_requests import WAIT_MS_DEFAULT
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.contract.ci_verdict import runs_of_commit
from shiftboss.rules.contract.milestones import check_done_report
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.prompts.worker_prompts import SpawnTask, ci_instructions, spawn_prompt
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.port import Store, Transaction


class ContractService:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        policy: ActivePolicy,
        evidence: Evidence,
        verdict_waiters: VerdictWaiters,
    ) -> None:
        self._store = store
        self._clock = clock
        self._policy = policy
        self._evidence = evidence
        self._verdict_waiters = verdict_waiters

    async def report_milestone(
        self, request: ReportMilestoneRequest, key: str | None = None
    ) -> MilestoneAnswer:
        """DONE waits for its verdict, as swarm_complete does."""
        report = request.report or parse_line(request.line or "")
        git = await self._git_facts(request, report)
        if isinstance(report, Done):
            await self._check_ci(request, report)
        now_ms = self._clock()
        result = await self._store.write(
            lambda tx: milestones.record_report(
                tx, self._policy, request, report, git, key, now_ms
            ),
            request.swarm_id,
        )
        if isinstance(result, MilestoneAnswer):
            return result
        outcome = await self._verdict_waiters.outcome(result, WAIT_MS_DEFAULT)
        return MilestoneAnswer(
            bead_id=request.bead_id,
            status=outcome.status,
            milestone="DONE" if outcome.success else "PUSHED_TO_CI",
            line=render_line(report),
            state="complete" if outcome.success else "verifying",
            epoch=result.epoch,
            receipt_id=outcome.receipt_id,
            hint=outcome.hint,
        )

    async def _git_facts(
        self, request: ReportMilestoneRequest, report: MilestoneReport
    ) -> milestones.GitFacts:
        if isinstance(report, Done):
            return milestones.GitFacts()
        handoff = await self._handoff(request.swarm_id, request.bead_id)
        sha = None
        if isinstance(report, PushedToCi):
            sha = await self._evidence.commit_of(handoff.repo, report.commit)
            if sha is not None and handoff.branch is not None and handoff.ci is not None:
                await self._check_on_branch(handoff.repo, sha, handoff.branch)
        return milestones.GitFacts(sha, await read_git_work(self._evidence, handoff, sha))

    async def _check_on_branch(self, repo: str, sha: str, branch: str) -> None:
        """CI of a commit that is not on the branch says nothing about the repo."""
        if not await self._evidence.is_on_branch(repo, sha, branch):
            raise InvalidRequest(
                f"commit: {sha[:12]} is not on the branch {branch}",
                field="commit",
                hint=f"push it to {branch} first",
            )

    async def _check_ci(self, request: ReportMilestoneRequest, done: Done) -> None:
        """Check CI before DONE is judged: it may have finished since the last check. If it does not
        respond now, the watcher asks again."""
        key = request.swarm_id, request.bead_id
        tracking = await self._store.read(lambda tx: tx.tracking(*key))
        if tracking is None or tracking.look_at_ms is None:
            return
        handoff = await self._handoff(*key)
        if handoff.ci is None:
            return
        demand = CiDemand.model_validate_json(handoff.ci)
        check_done_report(done, demand.policy.must_succeed or [])
        report = await self._evidence.ci_report(demand, tracking.sha)
        check_done_runs(request, done, runs_of_commit(report), tracking.sha)
        now_ms = self._clock()
        await self._store.write(
            lambda tx: ci.record_report(tx, self._policy, tracking, report, now_ms),
            request.swarm_id,
        )

    async def _handoff(self, swarm_id: str, task_id: str) -> Handoff:
        handoff = await self._store.read(lambda tx: tx.handoff(swarm_id, task_id))
        if handoff is None:
            raise UnknownHandoff(task_id)
        return handoff

    async def report_failure(
        self, request: ReportFailureRequest, key: str | None = None
    ) -> FailureAnswer:
        """A report that is repeated with its key is counted once."""

        def failed(tx: Transaction, request: ReportFailureRequest, now_ms: int) -> FailureAnswer:
            return failures.record_failure(tx, self._policy, request, now_ms)

        return await write_once(self._store, self._clock, failed, request, key)

    async def can_spawn(self, request: CanSpawnRequest, _key: str | None = None) -> CanSpawnAnswer:
        reader = CURRENT_ACTOR.get()
        return await self._store.read(
            lambda tx: repos.can_spawn(tx, self._policy, request.repo, reader)
        )

    async def list_repos(self, _request: ReposRequest, _key: str | None = None) -> ReposAnswer:
        reader = CURRENT_ACTOR.get()
        return await self._store.read(lambda tx: repos.view(tx, self._policy, reader))

    async def release_repo(
        self, request: ReleaseRepoRequest, _key: str | None = None
    ) -> OperatorAnswer:
        """Read first, then release: a use case needs the swarm before it starts."""
        now_ms = self._clock()
        lock = await self._store.read(lambda tx: locks.lock_of(tx, request.repo))
        if lock is None:
            return OperatorAnswer(success=True, changed=False)
        return await self._store.write(
            lambda tx: locks.release_by_operator(tx, request, lock, now_ms), lock.swarm_id
        )

    async def resume(self, request: ResumeRequest, _key: str | None = None) -> OperatorAnswer:
        now_ms = self._clock()
        halt = await self._store.read(lambda tx: halts.halt_of(tx, request.halt_id))
        return await self._store.write(
            lambda tx: halts.resume(tx, request, halt, now_ms), halt.swarm_id
        )

    async def get_ci_instructions(
        self, request: InstructionsRequest, _key: str | None = None
    ) -> InstructionsAnswer:
        """For a worker at PUSHED_TO_CI."""
        handoff = await self._handoff(request.swarm_id, request.bead_id)
        repo = handoff.repo_name or ""
        self._policy.repo(repo)
        await self._store.read(
            lambda tx: milestones.check_has_pushed(tx, request.swarm_id, request.bead_id)
        )
        text = ci_instructions(repo, self._policy.settings)
        return InstructionsAnswer(bead_id=request.bead_id, text=text)

    async def get_worker_prompt(
        self, request: InstructionsRequest, _key: str | None = None
    ) -> InstructionsAnswer:
        handoff = await self._handoff(request.swarm_id, request.bead_id)
        body = WorkerHandoff.model_validate_json(handoff.body)
        task = SpawnTask(
            task_id=request.bead_id,
            repo=handoff.repo_name or handoff.repo,
            objective=body.context.objective,
            files=body.contract.files_owned,
            requirements=body.contract.success_criteria,
            checkpoint=await self._store.read(
                lambda tx: earlier_checkpoint(tx, request.swarm_id, request.bead_id)
            ),
        )
        return InstructionsAnswer(
            bead_id=request.bead_id, text=spawn_prompt(task, self._policy.settings)
        )

    async def show_checkpoint(
        self, request: ShowCheckpointRequest, _key: str | None = None
    ) -> CheckpointAnswer:
        def read(tx: Transaction) -> CheckpointAnswer:
            checkpoint = tx.checkpoint(request.swarm_id, request.bead_id)
            if checkpoint is None:
                raise UnknownCheckpoint(
                    f"{request.bead_id} has no checkpoint: no milestone was reported",
                    field="bead_id",
                )
            return CheckpointAnswer(
                bead_id=request.bead_id,
                checkpoint={
                    "trigger": checkpoint.trigger_name,
                    "body": json.loads(checkpoint.body),
                    "at": checkpoint.at_ms,
                },
            )

        return await self._store.read(read)
