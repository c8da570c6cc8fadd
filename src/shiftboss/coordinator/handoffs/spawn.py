"""Use cases of handoffs: spawn a task with its contract, show it, put a new version in force."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from shiftboss.coordinator.bus import tasks
from shiftboss.coordinator.bus.dispatch import take_swarm
from shiftboss.coordinator.contract.policy import ActivePolicy
from shiftboss.coordinator.contract.repos import lock_repo
from shiftboss.coordinator.handoffs import ownership
from shiftboss.coordinator.handoffs.spawn_checks import normalised_paths
from shiftboss.coordinator.handoffs.views import prompt_of
from shiftboss.errors import (
    DependenciesUnfinished,
    HandoffExists,
    InvalidRequest,
    TaskEnded,
    UnknownTask,
)
from shiftboss.evidence.survey.survey import Survey
from shiftboss.protocol.bus import AddTaskRequest, TaskRequest
from shiftboss.protocol.events import EventKind
from shiftboss.protocol.handoff_requests import SpawnAnswer, SpawnSubtaskRequest
from shiftboss.protocol.handoffs import (
    Context,
    Contract,
    Escalation,
    WorkerHandoff,
    canonical_json,
    handoff_hash,
)
from shiftboss.protocol.states import WorkerState
from shiftboss.rules.claims.handoffs import Handoff, Reservation, check_no_claim, choose_model
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
    now_ms: int,
    target_base: str | None = None,
    policy: ActivePolicy | None = None,
    repo_name: str | None = None,
) -> SpawnAnswer:
    """Store the contract of a task and reserve its files. `replace` is the operator's: a contract
    that is in force is not changed by whoever can call a tool. With a repo of the policy, the repo
    is locked in the same step. `target_base` is where the target branch is now."""
    take_swarm(tx, request.swarm_id, now_ms)
    task = _task(tx, request, now_ms)
    check_finished(tx, request, task)
    handoff = _handoff(tx, request, survey, task)
    known = tx.handoff(request.swarm_id, request.bead_id)
    wanted = _row(request, survey, handoff, known, now_ms)._replace(target_base=target_base)
    if policy is not None and repo_name is not None:
        branch = policy.branch_for(repo_name, request)
        demand = policy.demand(repo_name, survey.toplevel, branch)
        # The policy says where the work of its repos goes, and what CI runs for.
        wanted = wanted._replace(
            repo_name=repo_name, ci=demand.model_dump_json(), branch=demand.branch
        )
    if policy is not None and (repo_name is not None or request.traits):
        choice = choose_model("worker", request.traits, policy.settings.models)
        wanted = wanted._replace(model=choice.model)
    if known is not None and _same(known, wanted, replace=replace):
        _lock(tx, request, handoff, policy, repo_name, now_ms)
        in_force = known
    else:
        _check_may_change(tx, known, replace=replace)
        _lock(tx, request, handoff, policy, repo_name, now_ms)
        put_in_force(tx, wanted, now_ms)
        in_force = wanted
    if request.submit and task is not None and task.status == "open":
        tasks.submit(tx, TaskRequest(swarm_id=request.swarm_id, bead_id=request.bead_id), now_ms)
    return _spawned(tx, in_force)


def _lock(
    tx: Transaction,
    request: SpawnSubtaskRequest,
    handoff: WorkerHandoff,
    policy: ActivePolicy | None,
    repo_name: str | None,
    now_ms: int,
) -> None:
    """Also for the words that come again: the operator may have released the repo meanwhile."""
    if policy is None or repo_name is None:
        if request.merges is not None:
            raise InvalidRequest(
                "merges: the repo is none of the policy, so it has no lock to pass over",
                field="merges",
                hint="leave it out",
            )
        return
    task = SpawnTask(
        task_id=request.bead_id,
        repo=repo_name,
        objective=f"{handoff.context.your_role}\n{request.subtask_description}",
        files=handoff.contract.files_owned,
        requirements=handoff.contract.success_criteria,
    )
    spawn_prompt(task, policy.settings)  # a worker that could not be told its task is not spawned
    lock_repo(tx, policy, repo_name, request.swarm_id, request.bead_id, now_ms, request.merges)


def _check_may_change(tx: Transaction, known: Handoff | None, *, replace: bool) -> None:
    if known is None:
        return
    if not replace:
        raise HandoffExists(
            f"{known.task_id} has a handoff, version {known.version}; nothing was changed",
            field="bead_id",
            hint="ask for more files with request_scope; the operator can replace it with "
            "`shiftboss handoff spawn --replace`",
            facts={"contract_version": known.version, "contract_hash": known.hash},
        )
    attempt = tx.assignment(known.swarm_id, known.task_id)
    if attempt is not None:
        check_no_claim(attempt, "bead_id")


def _task(tx: Transaction, request: SpawnSubtaskRequest, now_ms: int) -> Task | None:
    """The task, added where it is unknown. A packet is none of the bus and has no row."""
    if is_reserved(request.bead_id):
        packet = tx.assignment(request.swarm_id, request.bead_id)
        if packet is not None and packet.state is WorkerState.COMPLETE:
            raise TaskEnded(request.bead_id, "complete")
        return None
    task = tx.task(request.swarm_id, request.bead_id)
    if task is not None:
        if is_ended(task):
            raise TaskEnded(task.task_id, task.status)
        return task
    if request.subtask_title is None:
        raise InvalidRequest(
            f"subtask_title: {request.bead_id} is a new task and needs one",
            field="subtask_title",
        )
    added = AddTaskRequest(
        swarm_id=request.swarm_id,
        bead_id=request.bead_id,
        title=request.subtask_title,
        description=request.subtask_description,
        depends_on=request.dependencies_completed,
    )
    tasks.add(tx, added, now_ms)
    return tx.task(request.swarm_id, request.bead_id)


def check_finished(tx: Transaction, request: SpawnSubtaskRequest, task: Task | None) -> None:
    """A task is spawned after those it depends on, by our own record."""
    unfinished = []
    for one in request.dependencies_completed:
        dependency = tx.task(request.swarm_id, one)
        if dependency is None:
            raise UnknownTask(one, "dependencies_completed")
        if dependency.status != "done":
            unfinished.append(one)
    if task is not None and task.waits_for:
        unfinished += tx.unfinished_dependencies(task.swarm_id, task.task_id)
    if unfinished:
        raise DependenciesUnfinished(request.bead_id, sorted(set(unfinished)))


def _handoff(
    tx: Transaction, request: SpawnSubtaskRequest, survey: Survey, task: Task | None
) -> WorkerHandoff:
    known = tx.dependencies(request.swarm_id, request.bead_id) if task else []
    dependencies = list(dict.fromkeys([*request.dependencies_completed, *known]))
    title = request.subtask_title or (task.title if task else request.bead_id)
    readonly = request.files_readonly
    return WorkerHandoff(
        contract=Contract(
            task_id=request.bead_id,
            files_owned=normalised_paths(request.files, "files"),
            files_readonly=survey.files_readonly
            if readonly is None
            else normalised_paths(readonly, "files_readonly"),
            dependencies_completed=dependencies,
            success_criteria=request.success_criteria or survey.success_criteria,
        ),
        context=Context(
            epic_summary=request.epic_summary or _epic(tx, request),
            your_role=title,
            what_others_did=what_others_did(_finished(tx, request.swarm_id, dependencies)),
            what_comes_next=what_comes_next(
                [
                    (one.task_id, one.title)
                    for one in tx.dependents(request.swarm_id, request.bead_id)
                ]
            ),
        ),
        escalation=Escalation(blocked_contact=request.blocked_contact),
    )


def _epic(tx: Transaction, request: SpawnSubtaskRequest) -> str:
    if request.epic_id is None:
        return ""
    epic = tx.task(request.swarm_id, request.epic_id)
    if epic is None:
        raise UnknownTask(request.epic_id, "epic_id")
    return f"{epic.title}\n{epic.description}".strip()[:2000]


def _finished(tx: Transaction, swarm_id: str, dependencies: Sequence[str]) -> list[FinishedTask]:
    """What those before did: by their receipts, or else by their titles alone."""
    found = []
    for task_id in dependencies:
        task = tx.task(swarm_id, task_id)
        receipt = tx.receipt_of_task(swarm_id, task_id)
        title = task.title if task else task_id
        if receipt is None:
            found.append(FinishedTask(task_id, title, "", "", []))
            continue
        body = json.loads(receipt.body)["receipt"]
        files = [one["path"] for one in body["diff"]["changes"]]
        found.append(FinishedTask(task_id, title, body["summary"], body["commit"], files))
    return found


def _row(
    request: SpawnSubtaskRequest,
    survey: Survey,
    handoff: WorkerHandoff,
    known: Handoff | None,
    now_ms: int,
) -> Handoff:
    return Handoff(
        swarm_id=request.swarm_id,
        task_id=request.bead_id,
        version=known.version + 1 if known else 1,
        hash=handoff_hash(handoff),
        body=canonical_json(handoff).decode(),
        repo=survey.toplevel,
        base_commit=survey.base_commit,
        branch=request.branch or survey.branch,
        target=request.target,
        policy=canonical_json(request.policy).decode(),
        strategy=request.strategy,
        reason="spawned" if known is None else "replaced by the operator",
        created_at_ms=now_ms,
        said=_digest(request),
        repo_id=survey.identity,
    )


def _digest(request: SpawnSubtaskRequest) -> str:
    """Of all words but `submit` and `merges`, which ask for something else."""
    words = request.model_dump(mode="json", exclude={"submit", "merges"})
    return hashlib.sha256(canonical_json(words)).hexdigest()


def _same(known: Handoff, wanted: Handoff, *, replace: bool) -> bool:
    """The same words again mean the contract that they led to: base, imports and tasks around it
    may have changed since. Who replaces a contract that was widened meanwhile wants it undone."""
    if known.said != wanted.said or known.repo != wanted.repo:
        return False
    return not replace or _owned(known) == _owned(wanted)


def _owned(handoff: Handoff) -> list[str]:
    return WorkerHandoff.model_validate_json(handoff.body).contract.files_owned


def put_in_force(tx: Transaction, handoff: Handoff, now_ms: int, field: str = "files") -> None:
    """Store a version, reserve its files, and let the task and its attempt know of it."""
    owned = _owned(handoff)
    task = tx.task(handoff.swarm_id, handoff.task_id)
    if task is None or task.status != "failed":  # which takes them when it is submitted again
        wanted = Reservation(handoff.swarm_id, handoff.task_id, handoff.repo_id, owned)
        ownership.reserve(tx, wanted, now_ms, field)
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


def _spawned(tx: Transaction, handoff: Handoff) -> SpawnAnswer:
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
