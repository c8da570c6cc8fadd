"""The simulated world outside: repositories, commits whose truth is known, and a CI that flips."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shiftboss.evidence.keys import SigningKey
from shiftboss.protocol.ci import CiJob, CiReport, CiRun
from shiftboss.protocol.policy import CiPolicy, Policy, RepoPolicy
from shiftboss.simulator.chance import Chance

OWN_REPO: Final = "/simulated/app"
BASE_COMMIT: Final = "b" * 40
BRANCH: Final = "main"
JOB: Final = "test"
# `web` depends on `api`, which depends on `core`; `docs` stands alone.
REPOS: Final = {"core": [], "api": ["core"], "web": ["api"], "docs": []}


def simulated_policy() -> Policy:
    return Policy(
        repos={
            name: RepoPolicy(
                path=f"/simulated/{name}",
                depends_on=depends_on,
                ci=CiPolicy(
                    provider="forgejo",
                    url="http://127.0.0.1",
                    repository=f"simulated/{name}",
                    required_jobs=[JOB],
                ),
            )
            for name, depends_on in REPOS.items()
        }
    )


@cache
def simulated_key() -> SigningKey:
    """Signs for all servers. Always the same key, so that a seed gives the same receipts."""
    return SigningKey(Ed25519PrivateKey.from_private_bytes(b"the key of all simulated servers"))


@dataclass
class Commit:
    """`is_good`: the work does what its contract demands, and CI is right to say so. CI first says
    the other result `ci_flips` times."""

    sha: str
    repo: str
    task_id: str
    is_good: bool
    pushed_at: float
    ci_flips: int = 0
    ci_seconds: float = 0.0
    ci_asked: int = 0


@dataclass
class Forge:
    """What git and CI would know. Nobody can lie to it."""

    commits: dict[str, Commit] = field(default_factory=dict)
    tips: dict[tuple[str, str], str] = field(default_factory=dict)

    def commit(
        self, chance: Chance, now: float, repo: str, task_id: str, *, is_good: bool, red_ci: float
    ) -> Commit:
        commit = Commit(
            sha=f"{chance.getrandbits(160):040x}",
            repo=repo,
            task_id=task_id,
            is_good=is_good,
            pushed_at=now,
            ci_flips=chance.choice((1, 2)) if is_good and chance.happens(red_ci) else 0,
            ci_seconds=chance.uniform(1, 120),
        )
        self.commits[commit.sha] = commit
        self.tips[repo, BRANCH] = commit.sha
        return commit

    def ci_report(self, sha: str, now: float) -> CiReport:
        commit = self.commits.get(sha)
        if commit is None:
            return CiReport(sha=sha, runs=[], complete=False)
        if now < commit.pushed_at + commit.ci_seconds:
            run = CiRun(run_id="1", sha=sha, state="running", branch=BRANCH, event="push")
            return CiReport(sha=sha, runs=[run], complete=False)
        flipped = commit.ci_asked < commit.ci_flips
        commit.ci_asked += 1
        state = "success" if commit.is_good and not flipped else "failure"
        run = CiRun(
            run_id=str(commit.ci_asked),
            sha=sha,
            state=state,
            branch=BRANCH,
            event="push",
            jobs=[CiJob(name=JOB, state=state)],
        )
        return CiReport(sha=sha, runs=[run], complete=True)
