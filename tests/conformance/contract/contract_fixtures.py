"""A coordinator with the completion contract, on a real store and a real repository.

The tests act as its CI, its verifier and its clock. Duties run only on request, so nothing happens
unless a test does it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shiftboss.coordinator.contract.attempts import attempt_of, milestone_of
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.coordinator import Coordinator
from shiftboss.coordinator.duties.cascade_watcher import CascadeWatcher
from shiftboss.coordinator.duties.ci_watcher import CiWatcher
from shiftboss.coordinator.duties.timeout_watcher import TimeoutWatcher
from shiftboss.errors import CiUnavailable
from shiftboss.protocol.ci import CiDemand, CiJob, CiReport, CiRun
from shiftboss.protocol.contract.contract_requests import (
    CanSpawnAnswer,
    CanSpawnRequest,
    FailureAnswer,
    MilestoneAnswer,
    OperatorAnswer,
    ReleaseRepoRequest,
    ReportFailureRequest,
    ReportMilestoneRequest,
    ResumeRequest,
    ShowCheckpointRequest,
)
from shiftboss.protocol.policy import CiPolicy, Policy, RepoPolicy
from shiftboss.protocol.swarms import CreateSwarmRequest
from shiftboss.rules.contract.records import ContractAttempt, Tracking
from shiftboss.store.open_store import store_at
from tests.conformance.bus.bus_fixtures import SWARM, StillClock
from tests.conformance.folding import check_fold
from tests.conformance.handoffs.handoff_fixtures import HandoffFixture
from tests.document_repos import DEPENDS_ON
from tests.repos import Repo
from tests.verifying import LocalEvidence

JOBS = ["check", "format", "audit", "build", "test", "coverage"]
SYNC = "radicle-push"
MINUTE = 60


def the_policy(path: Path, jobs: Sequence[str] = JOBS, **members: Any) -> Policy:
    """The repos of the document. They share one git repository here: locks use the names."""
    ci = CiPolicy(provider="forgejo", required_jobs=list(jobs), must_succeed=[SYNC])
    return Policy(
        preset="completion-contract",
        repos={
            name: RepoPolicy(path=str(path), branch="task", depends_on=above, ci=ci)
            for name, above in DEPENDS_ON.items()
        },
        **members,
    )


def runs(sha: str, run_id: str = "89", **states: str) -> CiReport:
    """A run in which every job succeeded, except those given by name (with underscores)."""
    named = {name.replace("_", "-"): state for name, state in states.items()}
    jobs = [
        CiJob(name=name, state=named.pop(name, "success"))
        for name in [*JOBS, SYNC]
        if named.get(name) != "missing"
    ]
    found = {job.state for job in jobs}
    under_way = found & {"waiting", "running"}
    state: Any = next((one for one in ("failure", "cancelled") if one in found), "success")
    if under_way:
        state = "waiting" if found == {"waiting"} else "running"
    tails = [job.model_copy(update={"log_tail": "assertion failed"}) for job in jobs]
    jobs = [tail if tail.state == "failure" else job for job, tail in zip(jobs, tails, strict=True)]
    run = CiRun(run_id=run_id, sha=sha, state=state, event="push", workflow="ci.yml", jobs=jobs)
    return CiReport(sha=sha, runs=[run], complete=not under_way)


def all_waiting(sha: str, run_id: str = "89") -> CiReport:
    return runs(sha, run_id, **{name.replace("-", "_"): "waiting" for name in [*JOBS, SYNC]})


def down() -> CiUnavailable:
    return CiUnavailable("the forge answered 502", reason="down", retry_after_seconds=0)


class ToldEvidence(LocalEvidence):
    """Evidence whose CI reports come from the test."""

    def __init__(self, folder: Path, own_repo: str | None) -> None:
        super().__init__(folder, own_repo)
        self.told: dict[str, CiReport | Exception] = {}
        self.asked: list[str] = []
        # Whether CI can be restarted, or the error; and the restarted commits.
        self.can_restart: bool | Exception = True
        self.restarted: list[str] = []

    async def ci_report(self, demand: CiDemand, sha: str) -> CiReport:  # noqa: ARG002
        self.asked.append(sha)
        report = self.told.get(sha) or CiReport(sha=sha, runs=[], complete=False)
        if isinstance(report, Exception):
            raise report
        return report

    async def restart_ci(self, demand: CiDemand, sha: str) -> bool:  # noqa: ARG002
        self.restarted.append(sha)
        if isinstance(self.can_restart, Exception):
            raise self.can_restart
        return self.can_restart


class ContractFixture(HandoffFixture):
    """Short names for the operations of the contract. `commits` can be pushed."""

    def __init__(
        self,
        coordinator: Coordinator,
        clock: StillClock,
        repo: Repo,
        evidence: ToldEvidence,
        policy: Policy,
        commits: list[str],
        swarm_id: str = SWARM,
    ) -> None:
        super().__init__(coordinator, clock, repo, swarm_id)
        self.evidence = evidence
        self.policy = policy
        self.commits = commits
        self.contract_service = coordinator.contract
        store, hub, active_policy = coordinator.store, coordinator.hub, ActivePolicy(policy)
        self.watcher = CiWatcher(store, clock, hub, active_policy, evidence)
        self.ladder = TimeoutWatcher(store, clock, hub, active_policy, evidence)
        self.cascade = CascadeWatcher(store, clock, hub, active_policy)

    async def in_swarm(self, swarm_id: str) -> ContractFixture:
        await self.coordinator.swarms.create_swarm(
            CreateSwarmRequest(swarm_id=swarm_id, feature="f")
        )
        return ContractFixture(
            self.coordinator,
            self.clock,
            self.repo,
            self.evidence,
            self.policy,
            self.commits,
            swarm_id,
        )

    # -- time and duties

    async def duties(self) -> None:
        """Run every duty once."""
        for duty in (self.watcher, self.cascade, self.ladder, self._lease_reaper):
            await duty.run_once()

    async def pass_minutes(self, minutes: float) -> None:
        """Time passes, and every duty does what is due."""
        self.clock.now_ms += round(minutes * MINUTE * 1000)
        await self.duties()

    async def ci_says(self, *reports: CiReport) -> None:
        """CI returns these reports, one after the other, at the watcher's next checks."""
        for report in reports:
            self.evidence.told[report.sha] = report
            await self.ci_is_due()

    async def ci_is_due(self) -> None:
        due = await self.coordinator.store.read(lambda tx: tx.next_ci_check_at_ms())
        assert due is not None, "no commit is followed"
        self.clock.now_ms = max(self.clock.now_ms, due)
        await self.watcher.run_once()

    # -- reports

    async def works_on(self, repo: str, worker: str | None = None, task: str | None = None) -> int:
        """Spawn a task on the repo and start it with a worker; returns the epoch."""
        task = task or repo
        worker = worker or f"w-{task}"
        epoch = await self.given_out(task, worker, repo=repo, files_readonly=[])
        await self.duties()
        return epoch

    async def says(
        self, task: str, line: str, key: str | None = None, **members: Any
    ) -> MilestoneAnswer:
        request = ReportMilestoneRequest(swarm_id=self.swarm_id, bead_id=task, line=line, **members)
        return await self.contract_service.report_milestone(request, key)

    async def pushes(self, task: str, number: int = 0, repo: str | None = None) -> str:
        """Report PUSHED_TO_CI with the short hash of one of the commits; returns the full hash."""
        sha = self.commits[number]
        await self.says(task, f"PUSHED_TO_CI: {repo or task} commit {sha[:7]} - CI run #89")
        return sha

    async def proven(self, task: str, number: int = 0) -> None:
        """Pushed, green, verified: done."""
        sha = await self.pushes(task, number)
        await self.ci_says(runs(sha))
        await self.accept()
        assert await self.status(task) == "done"

    async def fails(
        self, task: str, message: str, key: str | None = None, **m: Any
    ) -> FailureAnswer:
        request = ReportFailureRequest(swarm_id=self.swarm_id, bead_id=task, message=message, **m)
        return await self.contract_service.report_failure(request, key)

    async def can_spawn(self, repo: str) -> CanSpawnAnswer:
        return await self.contract_service.can_spawn(CanSpawnRequest(repo=repo))

    async def free(self, repo: str) -> OperatorAnswer:
        request = ReleaseRepoRequest(repo=repo, reason="it was given up")
        return await self.contract_service.release_repo(request)

    async def gives_up(self, task: str, repo: str) -> None:
        """Cancel the task and release the repo."""
        await self.cancel(task)
        await self.free(repo)

    async def lift(self, halt_id: int) -> OperatorAnswer:
        return await self.contract_service.resume(ResumeRequest(halt_id=halt_id, reason="mended"))

    # -- state

    async def locked(self) -> dict[str, str]:
        locks = await self.coordinator.store.read(lambda tx: tx.repo_locks())
        return {lock.repo: lock.task_id for lock in locks}

    async def tracking(self, task: str) -> Tracking:
        found = await self.coordinator.store.read(lambda tx: tx.tracking(self.swarm_id, task))
        assert found is not None, f"no commit of {task} is followed"
        return found

    async def kept(self, task: str) -> ContractAttempt:
        found = await self.coordinator.store.read(
            lambda tx: tx.contract_attempt(self.swarm_id, task)
        )
        assert found is not None
        return found

    async def milestone(self, task: str) -> str | None:
        held = await self.attempt(task)
        kept = await self.coordinator.store.read(lambda tx: attempt_of(tx, held))
        return milestone_of(held, kept)

    async def checkpoint(self, task: str) -> dict[str, Any]:
        request = ShowCheckpointRequest(swarm_id=self.swarm_id, bead_id=task)
        found = (await self.contract_service.show_checkpoint(request)).checkpoint
        body: dict[str, Any] = found["body"]
        return body | {"trigger": found["trigger"]}

    async def steps(self) -> list[str]:
        """The steps of the timeout ladder that were taken."""
        found = await self.coordinator.swarms.events_after(self.swarm_id, 0, 100_000)
        kinds = ("timeout_warning", "timeout_step", "timeout_escalated")
        return [json.loads(one.data)["step"] for one in found if one.kind in kinds]


@asynccontextmanager
async def open_contract(
    address: str,
    folder: Path,
    repo: Repo,
    commits: list[str],
    clock: StillClock | None = None,
    **policy: Any,
) -> AsyncIterator[ContractFixture]:
    clock = clock or StillClock()
    evidence = ToldEvidence(folder, str(repo.path))
    rules = the_policy(repo.path, **policy)
    coordinator = Coordinator(
        store_at(address), evidence, clock=clock, verifies=False, policy=rules
    )
    coordinator.everywhere.duties.clear()
    coordinator.on_leader.duties.clear()
    await coordinator.start()
    try:
        fixture = ContractFixture(coordinator, clock, repo, evidence, rules, commits)
        yield fixture
        await check_fold(fixture)
    finally:
        await coordinator.stop()
