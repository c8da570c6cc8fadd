"""All that the doctor looks at, in the order in which one thing needs the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

from shiftboss.doctor.findings import Finding, ok, problem
from shiftboss.doctor.forges import look_at_forges
from shiftboss.doctor.programs import check_agents, look_at_runners
from shiftboss.doctor.queues import ask_for_queues, judge_queues
from shiftboss.doctor.repos import look_at_git, look_at_repos
from shiftboss.doctor.server import DoctorClient, look_at_server
from shiftboss.errors import InvalidPolicy, ShiftbossError
from shiftboss.evidence.survey.policy_file import default_policy_file, load_policy
from shiftboss.protocol.policy import Policy
from shiftboss.rules.documents.wording import how_many


def examine(line: DoctorClient, swarm_id: str, file: Path | None, now_ms: int) -> list[Finding]:
    """`file` is the policy; that of this folder if it is None."""
    policy, about_policy = _policy(file)
    about_server = look_at_server(line)
    queues: list[Finding] = []
    if not any(one.level == "problem" for one in about_server):
        queues = _queues(line, swarm_id, policy, now_ms)
    here = asyncio.run(_machine(policy))
    return [*about_server, *about_policy, *here, *queues, *check_agents()]


def _policy(file: Path | None) -> tuple[Policy, list[Finding]]:
    path = file or default_policy_file(Path.cwd())
    if path is None:
        return Policy(), [
            ok("policy", "there is no shiftboss.yaml here, so no repos are looked at")
        ]
    try:
        policy = load_policy(path)
    except InvalidPolicy as error:
        todo = f"all problems: shiftboss policy check {path}"
        return Policy(), [problem("policy", error.detail, todo)]
    return policy, [ok("policy", f"{path} is good, with {how_many(len(policy.repos), 'repo')}")]


def _queues(line: DoctorClient, swarm_id: str, policy: Policy, now_ms: int) -> list[Finding]:
    try:
        return judge_queues(ask_for_queues(line, swarm_id), policy, now_ms)
    except ShiftbossError as error:
        return [problem("queues", error.detail, error.hint or "see the server's log")]


async def _machine(policy: Policy) -> list[Finding]:
    about_git = await look_at_git()
    if any(one.level == "problem" for one in about_git):
        return about_git
    return [
        *about_git,
        *await look_at_repos(policy),
        *await look_at_forges(policy),
        *await look_at_runners(),
    ]
