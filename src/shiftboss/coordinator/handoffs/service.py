"""The operations of handoffs: spawn, complete, disputes, scope, waivers, strategies."""

from __future__ import annotations

from shiftboss.coordinator.claims import claims
from shiftboss.coordinator.claims.verdict_waiters import VerdictWaiters
from shiftboss.coordinator.clock import Clock
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.repos import has_or_may_get
from shiftboss.coordinator.handoffs import (
    disputes,
    ownership,
    scope_requests,
    spawn,
    strategy_records,
    views,
    waivers,
)
from shiftboss.coordinator.handoffs.refusals import note_refusal
from shiftboss.coordinator.handoffs.spawn_checks import (
    SpawnPolicy,
    check_request,
    refuse_held_out,
    repo_location,
)
from shiftboss.coordinator.idempotency import write_once
from shiftboss.errors import (
    OwnershipOverlap,
    RepoBlocked,
    UnknownRepo,
)
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.handoff_requests import (
    AmendHandoffRequest,
    CompletionAnswer,
    DecideScopeRequest,
    DisputeContractRequest,
    DisputeView,
    HandoffView,
    ListScopeRequestsRequest,
    OwnershipAnswer,
    OwnershipRequest,
    PlanAnswer,
    PlanRequest,
    RequestScopeRequest,
    ScopeList,
    ScopeView,
    ShowHandoffRequest,
    SpawnAnswer,
    SpawnSubtaskRequest,
    SwarmCompleteRequest,
    WaiveAnswer,
    WaiveRequest,
)
from shiftboss.rules.handoffs.handoffs import Reservation
from shiftboss.rules.handoffs.new_contracts import normalised_paths
from shiftboss.store.current_actor import CURRENT_ACTOR
from shiftboss.store.port import Store, Transaction


class HandoffService:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        evidence: Evidence,
        verdict_waiters: VerdictWaiters,
        policy: ActivePolicy,
        spawning: SpawnPolicy,
    ) -> None:
        self._policy = policy
        self._spawning = spawning
        self._store = store
        self._clock = clock
        self._evidence = evidence
        self._verdict_waiters = verdict_waiters

    # -- contracts

    async def swarm_spawn_subtask(
        self, request: SpawnSubtaskRequest, _key: str | None = None
    ) -> SpawnAnswer:
        """A repeated request gets the same answer."""
        self._spawning.check_open(CURRENT_ACTOR.get())
        refuse_held_out(request)
        return await self._spawn(request, replace=False, planned=False)

    async def spawn_subtask(
        self, request: SpawnSubtaskRequest, _key: str | None = None
    ) -> SpawnAnswer:
        """For the operator: also where spawning is not open to all."""
        return await self._spawn(request, replace=False, planned=True)

    async def replace_handoff(
        self, request: SpawnSubtaskRequest, _key: str | None = None
    ) -> SpawnAnswer:
        """For the operator: replaces the contract in force by a new version."""
        return await self._spawn(request, replace=True, planned=True)

    async def _spawn(
        self, request: SpawnSubtaskRequest, *, replace: bool, planned: bool
    ) -> SpawnAnswer:
        try:
            return await self._give_contract(request, replace=replace, planned=planned)
        except (OwnershipOverlap, RepoBlocked) as error:
            refusal, now_ms = error, self._clock()
            await self._store.write(
                lambda tx: note_refusal(tx, request.swarm_id, request.bead_id, refusal, now_ms),
                request.swarm_id,
            )
            raise

    async def _give_contract(
        self, request: SpawnSubtaskRequest, *, replace: bool, planned: bool
    ) -> SpawnAnswer:
        # First the checks that do not read the repository.
        await self._store.read(lambda tx: self._check_request(tx, request))
        path = repo_location(self._repo_path(request.repo), self._policy, planned=planned)
        name = await self._repo_name(request.repo, path)
        self._policy.branch_for(name, request)
        survey = await self._evidence.survey(
            path,
            request.base or (None if name is None else self._policy.repo(name).branch),
            request.files,
            request.subtask_title or request.bead_id,
            request.subtask_description,
        )
        target_base = await self._branch_tip(survey.toplevel, request.target)
        now_ms = self._clock()
        return await self._store.write(
            lambda tx: spawn.spawn(
                tx,
                request,
                survey,
                replace=replace,
                planned=planned,
                now_ms=now_ms,
                target_base=target_base,
                policy=self._policy,
                repo_name=name,
            ),
            request.swarm_id,
        )

    async def _branch_tip(self, repo: str, branch: str | None) -> str | None:
        """None for a branch that does not exist yet."""
        if branch is None:
            return None
        return await self._evidence.commit_of(repo, f"refs/heads/{branch}")

    def _check_request(self, tx: Transaction, request: SpawnSubtaskRequest) -> None:
        check_request(request, self._spawning.variables)
        spawn.check_finished(tx, request, tx.task(request.swarm_id, request.bead_id))
        if request.repo is not None and request.repo in self._policy:
            has_or_may_get(
                tx,
                self._policy,
                request.repo,
                request.swarm_id,
                request.bead_id,
                request.merges,
            )

    def _repo_path(self, repo: str | None) -> str:
        """The path of a repo, given by its name in the policy or by its path."""
        if repo is not None and repo in self._policy:
            return self._policy.path_of(repo)
        path = repo or self._evidence.own_repo
        if path is None:
            raise UnknownRepo(
                "repo: the server does not run in a repository",
                field="repo",
                hint="give the absolute path of one",
            )
        return path

    async def _repo_name(self, repo: str | None, path: str) -> str | None:
        """The name of a repo of the policy, which a request may give by name or by path. Git is
        asked only if the answer may depend on it."""
        if repo in self._policy:
            return repo
        if not self._policy.has_folders:
            return None
        return self._policy.name_at(await self._evidence.identity(path))

    async def show_handoff(
        self, request: ShowHandoffRequest, _key: str | None = None
    ) -> HandoffView:
        return await self._store.read(
            lambda tx: views.show(tx, request.swarm_id, request.bead_id, request.version)
        )

    async def who_owns(self, request: OwnershipRequest, _key: str | None = None) -> OwnershipAnswer:
        path = self._repo_path(request.repo)
        repo = await self._evidence.identity(path)
        actor = CURRENT_ACTOR.get()
        wanted = Reservation(request.swarm_id, "", repo, normalised_paths(request.files, "files"))

        def read(tx: Transaction) -> OwnershipAnswer:
            held = ownership.holders(tx, wanted) if request.files else ownership.owned(tx, repo)
            seen = [holder for holder in held if actor.sees(holder["swarm_id"])]
            return OwnershipAnswer(repo=path, holders=seen)

        return await self._store.read(read)

    # -- completion

    async def swarm_complete(
        self, request: SwarmCompleteRequest, key: str | None = None
    ) -> CompletionAnswer:
        now_ms = self._clock()
        claim = await self._store.write(
            lambda tx: claims.claim(tx, request, key, now_ms), request.swarm_id
        )
        return await self._verdict_waiters.outcome(claim, request.wait_ms)

    # -- disputes

    async def dispute_contract(
        self, request: DisputeContractRequest, key: str | None = None
    ) -> DisputeView:
        return await write_once(self._store, self._clock, disputes.dispute_contract, request, key)

    async def amend_handoff(
        self, request: AmendHandoffRequest, key: str | None = None
    ) -> HandoffView:
        await self._store.read(lambda tx: disputes.check_amendment(tx, request, self._policy))
        return await write_once(self._store, self._clock, disputes.amend, request, key)

    # -- scope

    async def request_scope(
        self, request: RequestScopeRequest, key: str | None = None
    ) -> ScopeView:
        return await write_once(
            self._store, self._clock, scope_requests.request_scope, request, key
        )

    async def list_scope_requests(
        self, request: ListScopeRequestsRequest, _key: str | None = None
    ) -> ScopeList:
        return await self._store.read(
            lambda tx: scope_requests.listing(tx, request.swarm_id, only_open=request.only_open)
        )

    async def decide_scope(self, request: DecideScopeRequest, key: str | None = None) -> ScopeView:
        return await write_once(self._store, self._clock, scope_requests.decide, request, key)

    async def waive(self, request: WaiveRequest, key: str | None = None) -> WaiveAnswer:
        return await write_once(self._store, self._clock, waivers.waive, request, key)

    # -- strategies

    async def swarm_plan(self, request: PlanRequest, _key: str | None = None) -> PlanAnswer:
        now_ms = self._clock()
        actor = CURRENT_ACTOR.get()
        return await self._store.read(lambda tx: strategy_records.plan(tx, request, now_ms, actor))
