"""Forges: can they be reached, and do they take our token? The token itself shows nowhere."""

from __future__ import annotations

from typing import Final

from shiftboss.doctor.findings import Finding, ok, problem, warning
from shiftboss.errors import CiUnavailable, ShiftbossError
from shiftboss.evidence.ci.forge_api.http import ForgeHttp
from shiftboss.evidence.ci.provider import FORGES
from shiftboss.evidence.mirror.repository import Repository
from shiftboss.protocol.ci import CiDemand
from shiftboss.protocol.policy import Policy, RepoPolicy
from shiftboss.rules.documents.wording import how_many

# A forge is asked about a commit, as the server does it; about one that is nowhere if need be.
_NO_COMMIT: Final = "0" * 40

_DOWN: Final = (
    "wait and retry: the forge may have been restarted, and runners reconnect by themselves. Do "
    "not start runs anew. If it lasts, look there: journalctl -u forgejo --no-pager"
)


async def look_at_forges(policy: Policy) -> list[Finding]:
    """One forge after the other: what holds for its first repo holds for the next."""
    forged = {name: one for name, one in policy.repos.items() if one.ci.provider != "local"}
    if not forged:
        return [ok("forge", "no repo has its CI on a forge")] if policy.repos else []
    http = ForgeHttp()
    try:
        findings = [await _look(http, name, repo) for name, repo in forged.items()]
    finally:
        await http.close()
    bad = [one for one in findings if one.level != "ok"]
    return bad or [ok("forge", f"the CI of {how_many(len(findings), 'repo')} there answers")]


async def _look(http: ForgeHttp, name: str, repo: RepoPolicy) -> Finding:
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
    reason = error.facts.get("reason")
    words = f"CI of {name}: {error.detail}"
    if reason == "down":
        return problem("forge", words, _DOWN)
    if reason == "rate_limit":
        return warning("forge", words, "wait: it is asked again when its limit allows it")
    return problem("forge", words, error.hint or "see ci of the repo in the policy")
