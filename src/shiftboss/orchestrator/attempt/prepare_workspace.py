"""Before the work begins: what the server says of the attempt, and the place its agent gets."""

from __future__ import annotations

import json
from pathlib import Path

from shiftboss.hooks.contract import write_contract
from shiftboss.orchestrator.attempt.workspace import AgentAssignment, Workspace
from shiftboss.orchestrator.git.runner import plain_environment
from shiftboss.orchestrator.guardian.agent_process import RUN_MARK, run_mark
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.protocol.plan import PlanAgent
from shiftboss.worker.bus_task import BusTask


async def assignment_of(
    run: RunContext, task: BusTask, worker: str, settings: PlanAgent
) -> AgentAssignment:
    """Raises what the server says when there is no such task, or none with a contract."""
    known = await run.client.call("show_task", bead_id=task.bead_id)
    view = await run.client.call("show_handoff", bead_id=task.bead_id)
    ci = await run.client.call("show_ci", bead_id=task.bead_id)
    return AgentAssignment(
        swarm_id=run.client.swarm_id,
        bead_id=task.bead_id,
        title=task.title,
        description=known["description"],
        worker=worker,
        epoch=task.epoch,
        repo=Path(view["repo"]),
        base=view["base_commit"],
        branch=view["branch"],
        target=view["target"],
        contract_version=view["version"],
        handoff=view["handoff"],
        contract_hash=view["hash"],
        policy_repo=ci.get("repo"),
        generated=view["policy"].get("generated", []),
        model=run.task(task.bead_id).model or settings.model or task.model,
        checkpoint=task.resume_from,
        salvage=task.salvage,
    )


def prepare_workspace(
    run: RunContext,
    assignment: AgentAssignment,
    tree: Worktree,
    scratch: Path,
    settings: PlanAgent,
) -> Workspace:
    """With the contract where the hooks read it."""
    server = run.client.server
    workspace = Workspace(
        assignment=assignment,
        tree=tree.path,
        scratch=scratch,
        server_url=server.address,
        server_token=server.token,
        environment={},
    )
    write_contract(
        workspace.contract_file,
        {
            "swarm_id": assignment.swarm_id,
            "bead_id": assignment.bead_id,
            "worker": assignment.worker,
            "epoch": assignment.epoch,
            "contract_version": assignment.contract_version,
            "contract_hash": assignment.contract_hash,
            "handoff": assignment.handoff,
            "generated": assignment.generated,
            "tree": str(tree.path),
            "base": assignment.base,
            "branch": assignment.branch,
            "target": assignment.target,
            "server_url": server.address,
            "claims": assignment.agent_claims,
        },
    )
    (scratch / "handoff.json").write_text(json.dumps(assignment.handoff, indent=2))
    workspace.environment.update(_environment(run, workspace, tree, settings))
    return workspace


def _environment(
    run: RunContext, workspace: Workspace, tree: Worktree, settings: PlanAgent
) -> dict[str, str]:
    """Ours, without what leads git elsewhere and what is for us alone, and what the task adds."""
    assignment = workspace.assignment
    own = {
        "SHIFTBOSS_CONTRACT": str(workspace.contract_file),
        "SHIFTBOSS_URL": workspace.server_url,
        "SHIFTBOSS_SWARM": assignment.swarm_id,
        "SHIFTBOSS_TASK": assignment.bead_id,
        "SHIFTBOSS_WORKER": assignment.worker,
        "SHIFTBOSS_EPOCH": str(assignment.epoch),
        "SHIFTBOSS_PROMPT": str(workspace.scratch / "prompt.md"),
        "SHIFTBOSS_HANDOFF": str(workspace.scratch / "handoff.json"),
        RUN_MARK: run_mark(run.paths.state, assignment.swarm_id, assignment.name),
    }
    if workspace.server_token is not None:
        own["SHIFTBOSS_TOKEN"] = workspace.server_token
    return {**plain_environment(), **tree.environment, **settings.environment, **own}
