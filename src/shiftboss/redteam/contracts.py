"""The contract that a task of a plan would get, or has, and the project at its base."""

from __future__ import annotations

from typing import Any, NamedTuple

from shiftboss.errors import InvalidRequest
from shiftboss.evidence.mirror.repository import Repository
from shiftboss.evidence.survey.survey import Surveyor
from shiftboss.protocol.handoffs import (
    Contract,
    HeldOutTests,
    VerificationPolicy,
    WorkerHandoff,
)
from shiftboss.protocol.plan import Plan, PlanTask
from shiftboss.redteam.hacks import ProjectView
from shiftboss.redteam.project import read_project
from shiftboss.rules.handoffs.new_contracts import new_contract, normalised_policy
from shiftboss.rules.paths.branch_names import task_branch
from shiftboss.rules.plans.graph import policy_of, repo_of


class TaskContract(NamedTuple):
    """What a claim of the task would be verified with. `git_folder` is the one that all work trees
    of the repository share; `base` is the tip of the target, or else of HEAD."""

    git_folder: str
    base: str
    branch: str
    target: str | None
    contract: Contract
    policy: VerificationPolicy
    held_out: HeldOutTests | None
    view: ProjectView


async def read_contract(
    plan: Plan, task: PlanTask, held_out: HeldOutTests | None = None
) -> TaskContract:
    """Reads the repository, and writes nothing. Raises UnknownRepo, or InvalidRequest for a branch
    that does not exist."""
    repository = Repository()
    repo = plan.repos[repo_of(plan, task)]
    assert repo.path is not None, "the reader of plans makes paths absolute"
    survey = await Surveyor(repository).survey(
        repo.path,
        None if repo.branch is None else f"refs/heads/{repo.branch}",
        task.files_owned,
        task.title,
        task.description,
    )
    contract = new_contract(
        task.id,
        files=task.files_owned,
        files_readonly=task.files_readonly,
        criteria=task.criteria,
        dependencies=task.depends_on,
        generated=survey,
    )
    return TaskContract(
        git_folder=survey.identity,
        base=survey.base_commit,
        branch=task_branch(task.id),
        target=repo.branch or survey.branch,
        contract=contract,
        policy=normalised_policy(policy_of(repo, task)),
        held_out=held_out,
        view=await read_project(repository, repo.path, survey.base_commit, contract),
    )


async def agreed_contract(view: dict[str, Any]) -> TaskContract:
    """Of a task that has a contract, as `show_handoff` shows it. Its held-out tests are missing: no
    view has them. Raises UnknownRepo."""
    repository = Repository()
    contract = WorkerHandoff.model_validate(view["handoff"]).contract
    base = str(view["base_commit"])
    return TaskContract(
        git_folder=await repository.identity(view["repo"]),
        base=base,
        branch=task_branch(contract.task_id),
        target=view["target"],
        contract=contract,
        policy=VerificationPolicy.model_validate(view["policy"]),
        held_out=None,
        view=await read_project(repository, view["repo"], base, contract),
    )


def task_of(plan: Plan, task_id: str) -> PlanTask:
    """Raises InvalidRequest if the plan has no such task."""
    for task in plan.tasks:
        if task.id == task_id:
            return task
    listed = ", ".join(task.id for task in plan.tasks[:20])
    raise InvalidRequest(
        f"the plan has no task {task_id!r}", field="task", hint=f"its tasks: {listed}"
    )
