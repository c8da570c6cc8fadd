"""Queries of a worker about its task: the context handoff, and the state of its CI."""

from __future__ import annotations

import asyncio
import json
from typing import NamedTuple

from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.handoffs.views import prompt_of
from shiftboss.errors import UnknownHandoff
from shiftboss.evidence.port import Evidence
from shiftboss.protocol.ci import CiReport, ShowCiAnswer, ShowCiRequest
from shiftboss.protocol.contract.contract_requests import (
    BuildContextRequest,
    ContextAnswer,
    ContextParts,
)
from shiftboss.protocol.handoffs import WorkerHandoff
from shiftboss.rules.handoffs.handoffs import Handoff
from shiftboss.rules.prompts.context import (
    ChainRepo,
    ContextMaterial,
    ContextRequest,
    context_handoff,
)
from shiftboss.store.port import Store, Transaction


def ci_of_task(tx: Transaction, swarm_id: str, task_id: str) -> ShowCiAnswer:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is None:
        raise UnknownHandoff(task_id)
    tracking = tx.tracking(swarm_id, task_id)
    if tracking is None:
        return _ci_of_checkpoint(tx, swarm_id, task_id, handoff.repo_name)
    report = CiReport.model_validate_json(tracking.report) if tracking.report else None
    return ShowCiAnswer(
        bead_id=task_id,
        state=tracking.state,
        repo=tracking.repo,
        sha=tracking.sha,
        run_id=tracking.run_id,
        jobs=[job for run in report.runs for job in run.jobs] if report else [],
    )


def _ci_of_checkpoint(
    tx: Transaction, swarm_id: str, task_id: str, repo: str | None
) -> ShowCiAnswer:
    """A commit is followed until its task is done; after that its CI is in the checkpoint."""
    stored = tx.checkpoint(swarm_id, task_id)
    runs = json.loads(stored.body)["ci_runs"] if stored is not None else []
    if not runs:
        return ShowCiAnswer(bead_id=task_id, state="none", repo=repo)
    newest = runs[0]
    # Checkpoints of earlier versions have the result as the status.
    state = newest.get("result", newest["status"])
    return ShowCiAnswer(
        bead_id=task_id, state=state, repo=repo, sha=newest["sha"], run_id=newest["id"]
    )


ISSUES_MAX = 50
ISSUE_CHARACTERS_MAX = 500


class Situation(NamedTuple):
    """A task and its surroundings at one moment."""

    handoff: Handoff
    known_issues: list[str]
    parallel_workers: list[str]


class ContextService:
    def __init__(self, store: Store, policy: ActivePolicy, evidence: Evidence) -> None:
        self._store = store
        self._policy = policy
        self._evidence = evidence

    async def build_context(
        self, request: BuildContextRequest, _key: str | None = None
    ) -> ContextAnswer:
        current = await self._store.read(
            lambda tx: situation(tx, self._policy, request.swarm_id, request.bead_id)
        )
        material = await self._evidence.context_material(
            self._material_request(current.handoff, request)
        )
        budget = self._policy.settings.tokens.context_handoff
        parts = context_parts(current, material, request.plan_ref)
        # Counting the tokens of two megabytes takes too long for the event loop.
        built = await asyncio.to_thread(
            context_handoff, parts, min(budget, request.max_tokens or budget)
        )
        return ContextAnswer(
            bead_id=request.bead_id,
            text=built.text,
            tokens=built.tokens,
            included=built.included,
            left_out=[*built.left_out, *material.unread],
            missing=built.missing,
            model=current.handoff.model,
        )

    async def show_ci(self, request: ShowCiRequest, _key: str | None = None) -> ShowCiAnswer:
        return await self._store.read(lambda tx: ci_of_task(tx, request.swarm_id, request.bead_id))

    def _material_request(self, handoff: Handoff, request: BuildContextRequest) -> ContextRequest:
        owned = WorkerHandoff.model_validate_json(handoff.body).contract.files_owned
        return ContextRequest(
            handoff.repo, handoff.base_commit, owned, request.plan_ref, self._chain(handoff)
        )

    def _chain(self, handoff: Handoff) -> list[ChainRepo]:
        name = handoff.repo_name
        if name is None or name not in self._policy:
            branch = handoff.target or handoff.branch or ""
            return [ChainRepo(name or "this repo", handoff.repo, branch)]
        named = [(repo, self._policy.repo(repo)) for repo in (*self._policy.upstream(name), name)]
        return [ChainRepo(name, repo.path, repo.branch) for name, repo in named if repo.path]


def situation(tx: Transaction, policy: ActivePolicy, swarm_id: str, task_id: str) -> Situation:
    handoff = tx.handoff(swarm_id, task_id)
    if handoff is None:
        raise UnknownHandoff(task_id)
    return Situation(
        handoff,
        _known_issues(tx, policy, handoff),
        _parallel_workers(tx, handoff),
    )


def _known_issues(tx: Transaction, policy: ActivePolicy, handoff: Handoff) -> list[str]:
    """Problems in the chain and the swarm: red repos, halts, open questions."""
    name = handoff.repo_name
    chain = policy.chain(name) if name is not None and name in policy else set()
    red = [
        f"{state.repo} is red at {state.sha[:12]} ({state.task_id})"
        for state in tx.repo_states()
        if state.state == "red" and state.repo in chain
    ]
    halts = [
        f"halt {halt.halt_id}: {halt.reason}"
        for halt in tx.halts_in_force()
        if chain.intersection(halt.repos)
    ]
    asked = [
        f"{question.task_id} waits for an answer: {question.question}"
        for question in tx.questions(handoff.swarm_id, ISSUES_MAX, only_open=True)
    ]
    return [_shorten(issue) for issue in (*red, *halts, *asked)][:ISSUES_MAX]


def _shorten(text: str) -> str:
    return " ".join(text.split())[:ISSUE_CHARACTERS_MAX]


def _parallel_workers(tx: Transaction, handoff: Handoff) -> list[str]:
    descriptions = []
    for lock in tx.repo_locks():
        if (lock.swarm_id, lock.task_id) == (handoff.swarm_id, handoff.task_id):
            continue
        held = tx.assignment(lock.swarm_id, lock.task_id)
        descriptions.append(f"{lock.repo}: {lock.task_id}" + (f" by {held.worker}" if held else ""))
    return descriptions


def context_parts(now: Situation, material: ContextMaterial, plan_ref: str | None) -> ContextParts:
    """Without a plan, the contract is the plan."""
    handoff = now.handoff
    body = WorkerHandoff.model_validate_json(handoff.body)
    plan_ref = plan_ref or f"contract of {handoff.task_id}, version {handoff.version}"
    readonly = body.contract.files_readonly
    return ContextParts(
        objective=body.context.objective,
        component_id=handoff.task_id,
        repo=handoff.repo_name or handoff.repo,
        branch_strategy=f"branch {handoff.branch}" if handoff.branch else "any branch",
        plan_ref=plan_ref,
        output_format="commits on the branch that meet these criteria: "
        + "; ".join(body.contract.success_criteria),
        task_boundaries=f"IN SCOPE: {', '.join(body.contract.files_owned) or 'reading only'}. "
        "OUT OF SCOPE: everything else"
        + (f"; read only: {', '.join(readonly)}" if readonly else ""),
        component_specs=[file.path for file in material.spec_files],
        recent_changes=material.recent_changes,
        known_issues=now.known_issues,
        parallel_workers=now.parallel_workers,
        plan=material.plan if material.plan is not None else prompt_of(handoff),
        code_files=material.code_files,
        test_files=material.test_files,
        spec_files=material.spec_files,
        history=material.history,
    )
