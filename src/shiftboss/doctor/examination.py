"""Everything that the doctor checks, in the order in which one thing depends on another."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shiftboss.doctor.claims import check_claims
from shiftboss.doctor.deployment import CallOperator, check_deployment
from shiftboss.doctor.findings import Finding, ok, problem
from shiftboss.doctor.forges import check_forges, check_forges_of_server
from shiftboss.doctor.notifications import check_notifications
from shiftboss.doctor.policy import check_policy_in_force
from shiftboss.doctor.programs import check_agents, check_runners
from shiftboss.doctor.queues import judge_queues, read_queues
from shiftboss.doctor.repos import check_git, check_repos
from shiftboss.doctor.sandbox import check_sandbox
from shiftboss.doctor.server import DoctorClient, check_server
from shiftboss.errors import InvalidPolicy, ShiftbossError
from shiftboss.evidence.survey.policy_file import default_policy_file, load_policy
from shiftboss.protocol.policy import Policy
from shiftboss.rules.documents.wording import pluralize


def examine(
    client: DoctorClient,
    call_operator: CallOperator,
    swarm_id: str,
    file: Path | None,
    now_ms: int,
    *,
    is_offline: bool,
) -> list[Finding]:
    """`file` is the policy; None means the shiftboss.yaml of the current folder. Without a server,
    there is no server to ask about one."""
    policy, about_policy = _policy(file)
    about_server = check_server(client, is_offline=is_offline)
    queues: list[Finding] = []
    forges: list[Finding] | None = None
    if not any(finding.level == "problem" for finding in about_server):
        queues = [*_queues(client, swarm_id, policy, now_ms), *check_claims(client, now_ms)]
        about_policy += check_policy_in_force(client, policy, _policy_file(file))
        if not is_offline:
            about_server += check_deployment(call_operator)
            about_server += check_notifications(call_operator)
            forges = check_forges_of_server(call_operator)
    about_machine = asyncio.run(_machine(policy, forges))
    return [*about_server, *about_policy, *about_machine, *queues, *check_agents()]


def _policy_file(file: Path | None) -> Path | None:
    return file or default_policy_file(Path.cwd())


def _policy(file: Path | None) -> tuple[Policy, list[Finding]]:
    path = _policy_file(file)
    if path is None:
        return Policy(), [
            ok("policy", "there is no shiftboss.yaml in this folder, so no repos were checked")
        ]
    try:
        policy = load_policy(path)
    except InvalidPolicy as error:
        todo = f"to see all problems, run: shiftboss policy check {path}"
        return Policy(), [problem("policy", error.detail, todo)]
    return policy, [ok("policy", f"{path} is valid, with {pluralize(len(policy.repos), 'repo')}")]


def _queues(client: DoctorClient, swarm_id: str, policy: Policy, now_ms: int) -> list[Finding]:
    try:
        return judge_queues(read_queues(client, swarm_id), policy, now_ms)
    except ShiftbossError as error:
        return [problem("queues", error.detail, error.hint or "look into the log of the server")]


async def _machine(policy: Policy, forges: list[Finding] | None) -> list[Finding]:
    """`forges` is what the server says about them; None: there is no server to ask."""
    about_git = await check_git()
    if any(finding.level == "problem" for finding in about_git):
        return about_git
    return [
        *about_git,
        *await check_repos(policy),
        *await check_sandbox(),
        *(await check_forges(policy) if forges is None else forges),
        *await check_runners(),
    ]
