"""Prepares an attempt: reads its assignment from the server and sets up the agent's workspace."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shiftboss.agents.launch import mcp_url
from shiftboss.defaults import CA_VARIABLE, MCP_URL_VARIABLE, TASK_VARIABLE, TOKEN_VARIABLE
from shiftboss.hooks.contract import write_contract
from shiftboss.orchestrator.attempt.workspace import AgentAssignment, Workspace
from shiftboss.orchestrator.git.runner import plain_environment
from shiftboss.orchestrator.guardian.agent_process import RUN_MARK, run_mark
from shiftboss.orchestrator.run.run_context import RunContext
from shiftboss.orchestrator.worktrees.worktree import Worktree
from shiftboss.protocol.plan import PlanAgent
from shiftboss.protocol.trace_ids import TRACEPARENT_VARIABLE, traceparent_of
from shiftboss.rules.prompts.agent_prompts import RunTask
from shiftboss.system.tls import authorities
from shiftboss.worker.bus_task import BusTask


async def read_assignment(
    run: RunContext, task: BusTask, worker: str, settings: PlanAgent
) -> AgentAssignment:
    """Raises the server's error if the task does not exist or has no contract."""
    view = await run.client.call("show_task", bead_id=task.bead_id)
    handoff = await run.client.call("show_handoff", bead_id=task.bead_id)
    ci = await run.client.call("show_ci", bead_id=task.bead_id)
    return AgentAssignment(
        swarm_id=run.client.swarm_id,
        bead_id=task.bead_id,
        title=task.title,
        description=view["description"],
        worker=worker,
        epoch=task.epoch,
        repo=Path(handoff["repo"]),
        base=handoff["base_commit"],
        branch=handoff["branch"],
        target=handoff["target"],
        contract_version=handoff["version"],
        handoff=handoff["handoff"],
        contract_hash=handoff["hash"],
        policy_repo=ci.get("repo"),
        generated=handoff["policy"].get("generated", []),
        expectations_change=handoff["policy"].get("expectations_change", []),
        model=run.task(task.bead_id).model or settings.model or task.model,
        checkpoint=task.resume_from,
        salvage=task.salvage,
        attempt=view["attempt"],
    )


async def with_contract_in_force(run: RunContext, workspace: Workspace, task: RunTask) -> RunTask:
    """With the contract as it is now: a person may have amended it while the agent waited. Also
    renews the handoff for the agent; the hooks ask the server before they refuse anything."""
    view = await run.client.call("show_handoff", bead_id=workspace.assignment.bead_id)
    expectations_change = view["policy"].get("expectations_change", [])
    _write_handoff(workspace.scratch, view["handoff"], expectations_change)
    contract = view["handoff"]["contract"]
    return task._replace(
        files=contract["files_owned"],
        criteria=contract["success_criteria"],
        expectations_change=expectations_change,
    )


def _write_handoff(
    scratch: Path, handoff: Mapping[str, Any], expectations_change: Sequence[str]
) -> None:
    """For agents without our tools. What the tests may expect is in the policy, which they cannot
    ask for."""
    changing = {"expectations_change": expectations_change} if expectations_change else {}
    (scratch / "handoff.json").write_text(json.dumps({**handoff, **changing}, indent=2))


def prepare_workspace(
    run: RunContext,
    assignment: AgentAssignment,
    worktree: Worktree,
    scratch: Path,
    settings: PlanAgent,
    token: str | None,
) -> Workspace:
    """`token` is that of the agent. Also writes the contract for the hooks, and the handoff."""
    server = run.client.server
    workspace = Workspace(
        assignment=assignment,
        tree=worktree.path,
        scratch=scratch,
        server_url=server.address,
        server_token=token,
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
            "tree": str(worktree.path),
            "base": assignment.base,
            "branch": assignment.branch,
            "target": assignment.target,
            "server_url": str(server.addresses),
            "claims": assignment.agent_claims,
        },
    )
    _write_handoff(scratch, assignment.handoff, assignment.expectations_change)
    workspace.environment.update(_environment(run, workspace, worktree, settings))
    return workspace


def _environment(
    run: RunContext, workspace: Workspace, worktree: Worktree, settings: PlanAgent
) -> dict[str, str]:
    """Our own environment, without variables that would point git elsewhere or that are secrets of
    the orchestrator, plus those of the work tree, the agent and the task."""
    assignment = workspace.assignment
    variables = {
        "SHIFTBOSS_CONTRACT": str(workspace.contract_file),
        "SHIFTBOSS_URL": workspace.server_url,
        MCP_URL_VARIABLE: mcp_url(workspace),
        "SHIFTBOSS_SWARM": assignment.swarm_id,
        TASK_VARIABLE: assignment.bead_id,
        "SHIFTBOSS_WORKER": assignment.worker,
        "SHIFTBOSS_EPOCH": str(assignment.epoch),
        "SHIFTBOSS_PROMPT": str(workspace.scratch / "prompt.md"),
        "SHIFTBOSS_HANDOFF": str(workspace.scratch / "handoff.json"),
        # An agent that makes spans of its own, with the user's OTEL_ settings, makes them children
        # of its attempt.
        TRACEPARENT_VARIABLE: traceparent_of(
            assignment.swarm_id, assignment.bead_id, assignment.epoch
        ),
        RUN_MARK: run_mark(run.paths.state, assignment.swarm_id, assignment.name),
    }
    if workspace.server_token is not None:
        variables[TOKEN_VARIABLE] = workspace.server_token
    inherited = plain_environment()
    ca = authorities()
    if ca is not None:
        variables[CA_VARIABLE] = ca
        # Agents that run on Node reach the server's MCP endpoint with it.
        inherited.setdefault("NODE_EXTRA_CA_CERTS", ca)
    for name in run.forge_secrets:
        inherited.pop(name, None)
    return {**inherited, **worktree.environment, **settings.environment, **variables}
