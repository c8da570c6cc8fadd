"""Use cases of handoffs: spawn a task with its contract, put a new version in force."""

from __future__ import annotations

import json
from collections.abc import Sequence

from shiftboss.coordinator.bus import add_tasks, questions, tasks
from shiftboss.coordinator.bus.dispatch import take_swarm
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.repos import lock_repo
from shiftboss.coordinator.handoffs import ownership
from shiftboss.coordinator.handoffs.spawn_checks import check_held_out
from shiftboss.coordinator.handoffs.views import prompt_of
from shiftboss.coordinator.runs.reviews import is_in_review
from shiftboss.errors import (
    DependenciesUnfinished,
    HandoffExists,
    InvalidRequest,
    TaskEnded,
    UnknownTask,
)
from shiftboss.evidence.port import Survey
from shiftboss.protocol.bus import AddTaskRequest, TaskRequest
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import SpawnAnswer, SpawnSubtaskRequest
from shiftboss.protocol.handoffs import (
    Context,
    Contract,
    Escalation,
    VerificationPolicy,
    WorkerHandoff,
    canonical_json,
    handoff_hash,
    held_out_hash,
)
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.claims import check_no_claim
from shiftboss.rules.handoffs.handoffs import Handoff, Reservation, choose_model
from shiftboss.rules.handoffs.new_contracts import new_contract, normalised_policy
from shiftboss.rules.handoffs.spawn_requests import made_contract, request_digest
from shiftboss.rules.prompts.handoff_text import FinishedTask, what_comes_next, what_others_did
from shiftboss.rules.prompts.worker_prompts import SpawnTask, spawn_prompt
from shiftboss.rules.tasks.tasks import Task, is_ended, is_reserved
from shiftboss.store.port import Transaction


def spawn(
    tx: Transaction,
    request: SpawnSubtaskRequest,
    survey: Survey,
    *,
    replace: bool,
    planned: bool,
    now_ms: int,
    target_base: str | None = None,
    policy: ActivePolicy | None = None,
    repo_name: str | None = None,
) -> SpawnAnswer:
    """Store the contract of a task, reserve its files, and lock its repo if the policy has one.

    `replace` is for the operator only: other callers cannot change a contract that is in force.
    `planned`: the operator asks. A contract that the operator repeats is planned from then on.
    `target_base` is the current commit of the target branch.
    """
    take_swarm(tx, request.swarm_id, now_ms)
    task = _find_or_add_task(tx, request, now_ms)
    check_finished(tx, request, task)
    handoff = _handoff(tx, request, survey, task)
    check_held_out(request.held_out, handoff.contract.success_criteria)
    current = tx.handoff(request.swarm_id, request.bead_id)
    proposed = _row(request, survey, handoff, current, now_ms)._replace(
        target_base=target_base, planned=planned
    )
    if policy is not None and repo_name is not None:
        branch = policy.branch_for(repo_name, request)
        demand = policy.demand(repo_name, survey.toplevel, branch)
        # The policy decides on the branch of its repos, which is the one that CI runs for.
        proposed = proposed._replace(
            repo_name=repo_name, ci=demand.model_dump_json(), branch=demand.branch
        )
    if policy is not None and (repo_name is not None or request.traits):
        choice = choose_model("worker", request.traits, policy.settings.models)
        proposed = proposed._replace(model=choice.model)
    if current is not None and _is_repeat(request, current, proposed, replace=replace):
        _lock(tx, request, handoff, policy, repo_name, now_ms)
        in_force = current
        if planned and not current.planned:
            tx.mark_planned(current)
    else:
        _check_may_change(tx, current, replace=replace)
        _lock(tx, request, handoff, policy, repo_name, now_ms)
        put_in_force(tx, proposed, now_ms)
        if request.held_out is not None:
            tx.put_held_out_tests(proposed, request.held_out)
        in_force = proposed
        changed = f"The contract has version {proposed.version} now: {proposed.reason}"
        questions.answer_disputes(tx, request.swarm_id, request.bead_id, changed, now_ms)
    tx.drop_spawn_refusal(request.swarm_id, request.bead_id)
    if request.submit and task is not None and task.status == "open":
        tasks.submit(tx, TaskRequest(swarm_id=request.swarm_id, bead_id=request.bead_id), now_ms)
    return _spawn_answer(tx, in_force)


def _lock(
    tx: Transaction,
    request: SpawnSubtaskRequest,
    handoff: WorkerHandoff,
    policy: ActivePolicy | None,
    repo_name: str | None,
    now_ms: int,
) -> None:
    """Also for a repeated request: the operator may have released the repo in the meantime."""
    if policy is None or repo_name is None:
        if request.merges is not None:
            raise InvalidRequest(
                "merges: the repo is not part of the policy, so there is no lock to take over",
                field="merges",
                hint="leave it out",
            )
        if policy is not None:
            policy.check_current(tx)
        return
    check_describable(handoff, repo_name, policy)
    lock_repo(tx, policy, repo_name, request.swarm_id, request.bead_id, now_ms, request.merges)


def check_describable(handoff: WorkerHandoff, repo_name: str, policy: ActivePolicy) -> None:
    """Raises ContractViolations if the task cannot be described to a worker of the repo."""
    task = SpawnTask(
        task_id=handoff.contract.task_id,
        repo=repo_name,
        objective=handoff.context.objective,
        files=handoff.contract.files_owned,
        requirements=handoff.contract.success_criteria,
    )
    spawn_prompt(task, policy.settings)


def _check_may_change(tx: Transaction, current: Handoff | None, *, replace: bool) -> None:
    if current is None:
        return
    if not replace:
        raise HandoffExists(
            f"{current.task_id} has a handoff, version {current.version}; nothing was changed",
            field="bead_id",
            hint="request more files with request_scope; the operator can replace it (handoff "
            "spawn with --replace)",
            facts={"contract_version": current.version, "contract_hash": current.hash},
        )
    attempt = tx.assignment(current.swarm_id, current.task_id)
    if attempt is not None:
        check_no_claim(attempt, "bead_id")


def _find_or_add_task(tx: Transaction, request: SpawnSubtaskRequest, now_ms: int) -> Task | None:
    """The task, which is added if it is new. None for a packet, which has no row on the bus."""
    if is_reserved(request.bead_id):
        if request.review == "required":
            raise InvalidRequest("review: the work of a packet cannot be reviewed", field="review")
        packet = tx.assignment(request.swarm_id, request.bead_id)
        if packet is not None and packet.state is WorkerState.COMPLETE:
            raise TaskEnded(request.bead_id, "complete")
        return None
    task = tx.task(request.swarm_id, request.bead_id)
    if task is not None:
        if is_ended(task):
            raise TaskEnded(task.task_id, task.status, task.swarm_id)
        return task
    if request.subtask_title is None:
        raise InvalidRequest(
            f"subtask_title: {request.bead_id} is a new task and needs a title",
            field="subtask_title",
        )
    added = AddTaskRequest(
        swarm_id=request.swarm_id,
        bead_id=request.bead_id,
        title=request.subtask_title,
        description=request.subtask_description,
        depends_on=request.dependencies_completed,
    )
    add_tasks.add(tx, added, now_ms)
    return tx.task(request.swarm_id, request.bead_id)


def check_finished(tx: Transaction, request: SpawnSubtaskRequest, task: Task | None) -> None:
    """A task can only be spawned when the tasks it depends on are done."""
    unfinished = []
    for task_id in request.dependencies_completed:
        dependency = tx.task(request.swarm_id, task_id)
        if dependency is None:
            raise UnknownTask(task_id, "dependencies_completed")
        if dependency.status != "done" or is_in_review(tx, dependency):
            unfinished.append(task_id)
    if task is not None and task.waits_for:
        unfinished += tx.unfinished_dependencies(task.swarm_id, task.task_id)
    if unfinished:
        raise DependenciesUnfinished(request.bead_id, sorted(set(unfinished)))


def _handoff(
    tx: Transaction, request: SpawnSubtaskRequest, survey: Survey, task: Task | None
) -> WorkerHandoff:
    stored = tx.dependencies(request.swarm_id, request.bead_id) if task else []
    dependencies = list(dict.fromkeys([*request.dependencies_completed, *stored]))
    title = request.subtask_title or (task.title if task else request.bead_id)
    return WorkerHandoff(
        contract=new_contract(
            request.bead_id,
            files=request.files,
            files_readonly=request.files_readonly,
            criteria=request.success_criteria,
            dependencies=dependencies,
            generated=survey,
        ),
        context=Context(
            epic_summary=request.epic_summary or _epic_summary(tx, request),
            your_role=title,
            description=request.subtask_description or (task.description if task else ""),
            what_others_did=what_others_did(_finished(tx, request.swarm_id, dependencies)),
            what_comes_next=what_comes_next(
                [
                    (dependent.task_id, dependent.title)
                    for dependent in tx.dependents(request.swarm_id, request.bead_id)
                ]
            ),
        ),
        escalation=Escalation(blocked_contact=request.blocked_contact),
    )


def _epic_summary(tx: Transaction, request: SpawnSubtaskRequest) -> str:
    if request.epic_id is None:
        return ""
    epic = tx.task(request.swarm_id, request.epic_id)
    if epic is None:
        raise UnknownTask(request.epic_id, "epic_id")
    return f"{epic.title}\n{epic.description}".strip()[:2000]


def _finished(tx: Transaction, swarm_id: str, dependencies: Sequence[str]) -> list[FinishedTask]:
    """The work of the finished dependencies: from their receipts, or else their titles."""
    finished = []
    for task_id in dependencies:
        task = tx.task(swarm_id, task_id)
        receipt = tx.receipt_of_task(swarm_id, task_id)
        title = task.title if task else task_id
        if receipt is None:
            finished.append(FinishedTask(task_id, title, "", "", []))
            continue
        body = json.loads(receipt.body)["receipt"]
        files = [change["path"] for change in body["diff"]["changes"]]
        finished.append(FinishedTask(task_id, title, body["summary"], body["commit"], files))
    return finished


def _row(
    request: SpawnSubtaskRequest,
    survey: Survey,
    handoff: WorkerHandoff,
    current: Handoff | None,
    now_ms: int,
) -> Handoff:
    return Handoff(
        swarm_id=request.swarm_id,
        task_id=request.bead_id,
        version=current.version + 1 if current else 1,
        hash=handoff_hash(handoff),
        body=canonical_json(handoff).decode(),
        repo=survey.toplevel,
        base_commit=survey.base_commit,
        branch=request.branch or survey.branch,
        target=request.target,
        policy=canonical_json(normalised_policy(request.policy)).decode(),
        strategy=request.strategy,
        reason="spawned" if current is None else "replaced by the operator",
        created_at_ms=now_ms,
        said=request_digest(request),
        repo_id=survey.identity,
        landing=request.landing,
        review=request.review,
        held_out=None if request.held_out is None else held_out_hash(request.held_out),
    )


def _is_repeat(
    request: SpawnSubtaskRequest, current: Handoff, proposed: Handoff, *, replace: bool
) -> bool:
    """Whether a request repeats the one that led to this contract. Base, imports and neighbouring
    tasks may have changed since. A `replace` undoes what was amended or granted since, and takes
    the CI jobs of the policy that is in force now."""
    if current.repo != proposed.repo or not made_contract(request, current.said):
        return False
    return not replace or _enforced(current) == _enforced(proposed)


def _enforced(handoff: Handoff) -> tuple[Contract, VerificationPolicy, CiDemand | None]:
    """As types: a row of an earlier version lacks the members of the policy that are new."""
    body = WorkerHandoff.model_validate_json(handoff.body)
    demand = CiDemand.model_validate_json(handoff.ci) if handoff.ci else None
    return body.contract, VerificationPolicy.model_validate_json(handoff.policy), demand


def _owned(handoff: Handoff) -> list[str]:
    return WorkerHandoff.model_validate_json(handoff.body).contract.files_owned


def put_in_force(tx: Transaction, handoff: Handoff, now_ms: int, field: str = "files") -> None:
    """Store a version, reserve its files, and record it with the task and its attempt."""
    owned = _owned(handoff)
    task = tx.task(handoff.swarm_id, handoff.task_id)
    if task is None or task.status != "failed":  # a failed task reserves them when it is submitted
        reservation = Reservation(handoff.swarm_id, handoff.task_id, handoff.repo_id, owned)
        ownership.reserve(tx, reservation, now_ms, field)
    tx.add_handoff(handoff)
    if task is not None:
        tx.save_task(task._replace(contract_version=handoff.version))
    attempt = tx.assignment(handoff.swarm_id, handoff.task_id)
    if attempt is not None:
        tx.save_assignment(attempt._replace(contract_version=handoff.version))
    tx.add_event(
        handoff.swarm_id,
        EventKind.CONTRACT_CHANGED if handoff.version > 1 else EventKind.HANDOFF_SPAWNED,
        now_ms,
        {
            "bead_id": handoff.task_id,
            "worker": attempt.worker if attempt else None,
            "contract_version": handoff.version,
            "contract_hash": handoff.hash,
            "files_owned": owned[:200],
            "reason": handoff.reason,
        },
        task_id=handoff.task_id,
    )


def _spawn_answer(tx: Transaction, handoff: Handoff) -> SpawnAnswer:
    task = tx.task(handoff.swarm_id, handoff.task_id)
    return SpawnAnswer(
        bead_id=handoff.task_id,
        status=task.status if task else "packet",
        contract_version=handoff.version,
        contract_hash=handoff.hash,
        repo=handoff.repo,
        base_commit=handoff.base_commit,
        branch=handoff.branch,
        handoff=json.loads(handoff.body),
        prompt=prompt_of(handoff),
        model=handoff.model,
    )
