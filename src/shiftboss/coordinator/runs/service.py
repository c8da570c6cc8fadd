"""The operations of a running plan: usage, budgets, pauses, parking, landing."""

from __future__ import annotations

from functools import partial

from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.deployment.shared_settings import SharedSettings
from shiftboss.coordinator.handoffs.spawn_checks import SpawnPolicy
from shiftboss.coordinator.idempotency import write_once
from shiftboss.coordinator.runs import holds, landings, parking, reviews, usage
from shiftboss.coordinator.swarms import deletion
from shiftboss.errors import Conflict
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.runs import (
    ApproveRequest,
    BudgetAnswer,
    DeleteSwarmAnswer,
    DeleteSwarmRequest,
    LandableList,
    LandedAnswer,
    ListLandableRequest,
    ParkAnswer,
    ParkTaskRequest,
    PauseAnswer,
    PauseSwarmRequest,
    RejectRequest,
    ReleaseFilesAnswer,
    ReleaseFilesRequest,
    ReportLandedRequest,
    ReportRunAnswer,
    ReportRunRequest,
    ReportUsageRequest,
    ResumeSwarmRequest,
    ReviewAnswer,
    SetBudgetRequest,
    ShowUsageRequest,
    UsageAnswer,
    UsageList,
)
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.port import Store


class RunService:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        evidence: Evidence,
        spawning: SpawnPolicy,
        settings: SharedSettings,
    ) -> None:
        """A run spawns its tasks: `spawning` also says who may report runs."""
        self._spawning = spawning
        self._store = store
        self._clock = clock
        self._evidence = evidence
        self._settings = settings

    # -- usage and budgets

    async def report_usage(
        self, request: ReportUsageRequest, _key: str | None = None
    ) -> UsageAnswer:
        """The key is not needed: the usage of a process replaces its last report."""
        now_ms = self._clock()
        return await self._store.write(
            lambda tx: usage.report(tx, request, now_ms), request.swarm_id
        )

    async def show_usage(self, request: ShowUsageRequest, _key: str | None = None) -> UsageList:
        return await self._store.read(lambda tx: usage.show(tx, request))

    async def set_budget(self, request: SetBudgetRequest, _key: str | None = None) -> BudgetAnswer:
        """A first or a smaller budget."""
        return await self._set_budget(request, by_operator=False)

    async def raise_budget(
        self, request: SetBudgetRequest, _key: str | None = None
    ) -> BudgetAnswer:
        """For the operator: any budget."""
        return await self._set_budget(request, by_operator=True)

    async def _set_budget(self, request: SetBudgetRequest, *, by_operator: bool) -> BudgetAnswer:
        now_ms = self._clock()
        return await self._store.write(
            lambda tx: usage.set_budget(tx, request, now_ms, by_operator=by_operator),
            request.swarm_id,
        )

    # -- swarms

    async def delete_swarm(
        self, request: DeleteSwarmRequest, _key: str | None = None
    ) -> DeleteSwarmAnswer:
        """The key is not needed: a swarm that is gone is unknown."""
        swarm_id, force = request.swarm_id, request.force
        seen = await self._store.read(lambda tx: deletion.preview(tx, swarm_id))
        if request.dry_run:
            return seen
        is_gone = False
        while not is_gone:
            delete = partial(
                deletion.delete_some, swarm_id=swarm_id, now_ms=self._clock(), force=force
            )
            is_gone = await self._store.write(delete, swarm_id)
        # Its tokens are gone, too: they must not be valid for the next swarm of its name.
        await self._settings.read_own_change()
        return seen.model_copy(update={"deleted": True})

    # -- pauses

    async def pause_swarm(self, request: PauseSwarmRequest, key: str | None = None) -> PauseAnswer:
        return await write_once(self._store, self._clock, holds.pause, request, key)

    async def resume_swarm(
        self, request: ResumeSwarmRequest, key: str | None = None
    ) -> PauseAnswer:
        return await write_once(self._store, self._clock, holds.resume, request, key)

    async def park_task(self, request: ParkTaskRequest, _key: str | None = None) -> ParkAnswer:
        """The key is not needed: an attempt can be parked once."""
        now_ms = self._clock()
        return await self._store.write(
            lambda tx: parking.park(tx, request, now_ms), request.swarm_id
        )

    async def release_files_of_open_run(
        self, request: ReleaseFilesRequest, key: str | None = None
    ) -> ReleaseFilesAnswer:
        self._spawning.check_may_run(CURRENT_ACTOR.get())
        return await self.release_files(request, key)

    async def release_files(
        self, request: ReleaseFilesRequest, _key: str | None = None
    ) -> ReleaseFilesAnswer:
        """For the operator: also where runs are not open to all. The key is not needed: a repeat
        releases nothing."""
        now_ms = self._clock()
        return await self._store.write(
            lambda tx: parking.release_files(tx, request, now_ms), request.swarm_id
        )

    # -- plans

    async def report_open_run(
        self, request: ReportRunRequest, key: str | None = None
    ) -> ReportRunAnswer:
        self._spawning.check_may_run(CURRENT_ACTOR.get())
        return await self.report_run(request, key)

    async def report_run(
        self, request: ReportRunRequest, _key: str | None = None
    ) -> ReportRunAnswer:
        """For the operator: also where runs are not open to all. The key is not needed: the plan of
        the last report counts."""
        now_ms = self._clock()
        return await self._store.write(
            lambda tx: landings.record_run(tx, request, now_ms), request.swarm_id
        )

    # -- review and landing

    async def approve(self, request: ApproveRequest, key: str | None = None) -> ReviewAnswer:
        return await write_once(self._store, self._clock, reviews.approve, request, key)

    async def reject(self, request: RejectRequest, key: str | None = None) -> ReviewAnswer:
        return await write_once(self._store, self._clock, reviews.reject, request, key)

    async def list_landable(
        self, request: ListLandableRequest, _key: str | None = None
    ) -> LandableList:
        return await self._store.read(lambda tx: landings.landable(tx, request))

    async def report_landed(
        self, request: ReportLandedRequest, _key: str | None = None
    ) -> LandedAnswer:
        """The server checks the target branch itself."""
        landing, handoff = await self._store.read(lambda tx: landings.reported_landing(tx, request))
        if landing.landed_commit is None:
            await self._check_is_on_target(handoff.repo, request.landed_commit, request)
            is_itself = request.commit == request.landed_commit
            if not is_itself and not await self._is_squash(handoff, request):
                await self._check_is_on_target(handoff.repo, request.commit, request)
        landed_commit = landing.landed_commit or request.landed_commit
        ci = await landings.ci_of_landed(self._evidence, handoff, landing.commit_sha, landed_commit)
        now_ms = self._clock()
        return await self._store.write(
            lambda tx: landings.record_landed(tx, request, ci, now_ms), request.swarm_id
        )

    async def _is_squash(self, handoff: Handoff, request: ReportLandedRequest) -> bool:
        """Whether the landed commit stands for the accepted one, which then is on no branch."""
        if handoff.landing != "squash":
            return False
        accepted = await self._store.read(
            lambda tx: landings.accepted_commits(
                tx, request.swarm_id, request.bead_id, request.commit
            )
        )
        return await self._evidence.is_squash_of(
            handoff.repo, request.landed_commit, request.commit, accepted, request.target
        )

    async def _check_is_on_target(
        self, repo: str, commit: str, request: ReportLandedRequest
    ) -> None:
        if not await self._evidence.is_on_branch(repo, commit, request.target):
            raise Conflict(
                f"{commit[:12]} of {request.bead_id} is not on the branch {request.target}; "
                "nothing was changed",
                field="commit" if commit == request.commit else "landed_commit",
                hint=f"merge it into {request.target} first; a cherry-picked copy is not the "
                "accepted commit",
            )
