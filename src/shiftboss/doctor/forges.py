"""Checks whether forges can be reached and accept our token, which is never printed.

The server asks them, because it has the token. Without a server, this process does.
"""

from __future__ import annotations

import json
from typing import Final

from shiftboss.doctor.deployment import CallOperator
from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.errors import CiUnavailable, ShiftbossError
from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.provider import FORGES
from shiftboss.evidence.mirror.repository import Repository
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.documents.wording import pluralize

# The forge is asked about a commit, as the server does; if there is none, about one that does not
# exist.
_NO_COMMIT: Final = "0" * 40

_DOWN: Final = (
    "wait and try again: the forge may have been restarted, and runners reconnect by themselves. "
    "Do not restart CI runs. If it does not recover, look at: journalctl -u forgejo --no-pager"
)


def check_forges_of_server(call: CallOperator) -> list[Finding]:
    """With the policy and the credentials that the server has."""
    try:
        answer = json.loads(call("check_forges"))
    except ShiftbossError as error:
        todo = error.hint or "run it in the folder of the server, or set SHIFTBOSS_OPERATOR_TOKEN"
        text = f"the server was not asked for the state of its forges: {error.detail}"
        return [warning("forge", text, todo)]
    checks = answer["checks"]
    if not checks:
        return [ok("forge", "no repo has its CI on a forge")] if answer["repos"] else []
    failed = [
        _judge(each["repo"], each["reason"], each.get("detail", ""), each.get("hint"))
        for each in checks
        if each.get("reason") is not None
    ]
    return failed or [ok("forge", f"the CI of {pluralize(len(checks), 'repo')} answers the server")]


async def check_forges(policy: Policy) -> list[Finding]:
    """One repo after the other: rate limits and errors of the first apply to the next."""
    repos = {name: repo for name, repo in policy.repos.items() if repo.ci.provider != "local"}
    if not repos:
        return [ok("forge", "no repo has its CI on a forge")] if policy.repos else []
    http = ForgeHttp()
    try:
        findings = [await _check_forge(http, name, repo) for name, repo in repos.items()]
    finally:
        await http.close()
    failed = [finding for finding in findings if finding.level != "ok"]
    return failed or [ok("forge", f"the CI of {pluralize(len(findings), 'repo')} answers")]


async def _check_forge(http: ForgeHttp, name: str, repo: RepoPolicy) -> Finding:
    demand = CiDemand(repo=name, repo_path=repo.path or "", branch=repo.branch, policy=repo.ci)
    ci = FORGES[repo.ci.provider](http)
    try:
        await ci.look(demand, await _tip(repo))
    except CiUnavailable as error:
        return judge_answer(name, error)
    return ok("forge", f"the CI of {name} answers")


async def _tip(repo: RepoPolicy) -> str:
    if repo.path is None:
        return _NO_COMMIT
    try:
        return await Repository().commit_of(repo.path, repo.branch) or _NO_COMMIT
    except ShiftbossError:
        return _NO_COMMIT


def judge_answer(name: str, error: CiUnavailable) -> Finding:
    return _judge(name, error.facts.get("reason"), error.detail, error.hint)


def _judge(name: str, reason: object, detail: str, hint: str | None) -> Finding:
    message = f"CI of {name}: {detail}"
    if reason == "down":
        return problem("forge", message, _DOWN)
    if reason == "rate_limit":
        return warning("forge", message, "wait: Shiftboss asks again when the limit allows it")
    return problem("forge", message, hint or f"check repos.{name}.ci in the policy")
