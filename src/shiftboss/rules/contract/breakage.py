"""A repo turned red after something was pushed upstream: which push it was, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.ci import CiDemand, CiReport

Outcome = Literal["upstream", "own_change", "older", "unreported", "no_pushes"]
REASONS: Final[dict[Outcome, str]] = {
    "upstream": "one of the pushes upstream did it",
    "own_change": "the jobs pass without the change of this repo, with all that is upstream now",
    "older": "the jobs fail with what was upstream before the pushes, too",
    "unreported": "the jobs pass with every push that was reported: a branch upstream was moved "
    "by somebody else",
    "no_pushes": "no push since this repo was green is on the branch that it is built on",
}
Remedy = Literal["revert_upstream_commit", "spawn_fix_worker_for_downstream", "coordinate_fix"]

LOG_CHARACTERS_MAX = 2000


class UpstreamPush(NamedTuple):
    """`before` is where its repo stood until then."""

    repo: str
    sha: str
    before: str
    swarm_id: str
    task_id: str
    at_ms: int


class BreakageQuestion(NamedTuple):
    """`jobs` failed at `sha`, whose work began at `base`; `pushes` are the oldest first."""

    demand: CiDemand
    base: str
    sha: str
    jobs: list[str]
    pushes: list[UpstreamPush]


class BreakageFinding(NamedTuple):
    """`own_change_too`: the commit that turned red does not pass without the push either.
    `is_tip`: nothing lies on top of the push. `probes` is how often the jobs were run."""

    outcome: Outcome
    push: UpstreamPush | None = None
    own_change_too: bool = False
    is_tip: bool = False
    probes: int = 0


def commits_after(
    pushes: Sequence[UpstreamPush], count: int, tips: Mapping[str, str]
) -> dict[str, str]:
    """Where every repo stood after the first `count` pushes. One that nobody pushed to is where it
    is now."""
    commits = {push.repo: push.before for push in reversed(pushes)}
    commits |= {push.repo: push.sha for push in pushes[:count]}
    return {**tips, **commits}


def failed_jobs(report: CiReport, demand: CiDemand) -> list[str]:
    """Those that can be run again here: named in the policy, and red by themselves."""
    red = {job.name for run in report.runs for job in run.jobs if job.state == "failure"}
    return [name for name in demand.policy.jobs if name in red]


def remedy_for(finding: BreakageFinding, *, one_repo: bool) -> Remedy:
    """`one_repo`: the task that pushed touched no other. A change is isolated when it can be taken
    back by itself."""
    if finding.own_change_too:
        return "coordinate_fix"
    if one_repo and finding.is_tip:
        return "revert_upstream_commit"
    return "spawn_fix_worker_for_downstream"


def task_of(remedy: Remedy, repo: str, sha: str) -> str:
    """`repo` is the one that turned red, `sha` the push that did it."""
    if remedy == "revert_upstream_commit":
        return f"revert-{sha[:12]}"
    return f"fix-{repo}-{sha[:12]}"


def title_of(remedy: Remedy, repo: str, push: UpstreamPush) -> str:
    return {
        "revert_upstream_commit": f"Revert {push.sha[:12]} in {push.repo}: it broke {repo}",
        "spawn_fix_worker_for_downstream": f"Fix {repo} for {push.sha[:12]} of {push.repo}",
        "coordinate_fix": f"Fix {repo} together with {push.sha[:12]} of {push.repo}",
    }[remedy]


def description_of(remedy: Remedy, question: BreakageQuestion, push: UpstreamPush, log: str) -> str:
    repo, jobs = question.demand.repo, ", ".join(question.jobs)
    why = {
        "revert_upstream_commit": (
            f"The push touched {push.repo} alone and nothing lies on top of it: take it back. "
            f"{push.repo} can be worked on once the work on {repo} is done or released."
        ),
        "spawn_fix_worker_for_downstream": (
            f"Other work lies on top of the push or belongs to it: make {repo} fit it."
        ),
        "coordinate_fix": (
            f"{question.sha[:12]} of {repo} does not pass without the push either: both have to "
            "change, and to fit each other."
        ),
    }[remedy]
    return (
        f"{jobs} of {repo} fails since {push.sha} of {push.repo} (task {push.task_id}). It passes "
        f"at {question.base[:12]} with {push.repo} at {push.before[:12]}, and fails there with the "
        f"push.\n{why}\n\n{log[-LOG_CHARACTERS_MAX:]}".rstrip()
    )


# Which of several changes in a row broke something, in as few looks as can be.


class Bisection(NamedTuple):
    """States are counted by the changes that are in them. With `good` of them it works, with `bad`
    of them it does not."""

    good: int
    bad: int

    @property
    def to_try(self) -> int | None:
        """The state to look at next; None: the change that led to `bad` is the one."""
        return None if self.bad - self.good == 1 else (self.good + self.bad) // 2

    def after(self, state: int, *, works: bool) -> Bisection:
        return self._replace(good=state) if works else self._replace(bad=state)
