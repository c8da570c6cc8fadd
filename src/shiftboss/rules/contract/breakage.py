"""Finds the upstream push that turned a repo red, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from shiftboss.protocol.ci import CiDemand, CiReport

Outcome = Literal["upstream", "own_change", "older", "unreported", "no_pushes"]
REASONS: Final[dict[Outcome, str]] = {
    "upstream": "one of the upstream pushes broke it",
    "own_change": "the jobs pass without the change of this repo, with upstream as it is now",
    "older": "the jobs also fail with the upstream commits from before the pushes",
    "unreported": "the jobs pass with every reported push: something else moved an upstream branch",
    "no_pushes": "no upstream push since this repo was green is on the branch that it builds on",
}
Remedy = Literal["revert_upstream_commit", "spawn_fix_worker_for_downstream", "coordinate_fix"]

LOG_CHARACTERS_MAX = 2000


class UpstreamPush(NamedTuple):
    """`before` is the commit of the repo before the push."""

    repo: str
    sha: str
    before: str
    swarm_id: str
    task_id: str
    at_ms: int


class BreakageQuestion(NamedTuple):
    """`jobs` failed at `sha`, whose work started at `base`. `pushes` are oldest first."""

    demand: CiDemand
    base: str
    sha: str
    jobs: list[str]
    pushes: list[UpstreamPush]


class BreakageFinding(NamedTuple):
    """With `own_change_too`, the red commit fails without the push as well. With `is_tip`, there
    are no commits on top of the push. `probes` is how often the jobs ran."""

    outcome: Outcome
    push: UpstreamPush | None = None
    own_change_too: bool = False
    is_tip: bool = False
    probes: int = 0


def commits_after(
    pushes: Sequence[UpstreamPush], count: int, tips: Mapping[str, str]
) -> dict[str, str]:
    """The commit of every repo after the first `count` pushes. A repo without a push is at its
    current tip."""
    commits = {push.repo: push.before for push in reversed(pushes)}
    commits |= {push.repo: push.sha for push in pushes[:count]}
    return {**tips, **commits}


def failed_jobs(report: CiReport, demand: CiDemand) -> list[str]:
    """The failed jobs that can be run again here, because the policy defines them."""
    red = {job.name for run in report.runs for job in run.jobs if job.state == "failure"}
    return [name for name in demand.policy.jobs if name in red]


def remedy_for(finding: BreakageFinding, *, one_repo: bool) -> Remedy:
    """`one_repo` means that the task that pushed touched no other repo. Only such a change can be
    reverted on its own."""
    if finding.own_change_too:
        return "coordinate_fix"
    if one_repo and finding.is_tip:
        return "revert_upstream_commit"
    return "spawn_fix_worker_for_downstream"


def fix_task_id(remedy: Remedy, repo: str, sha: str) -> str:
    """The id of the task for the remedy. `repo` turned red because of the push `sha`."""
    if remedy == "revert_upstream_commit":
        return f"revert-{sha[:12]}"
    return f"fix-{repo}-{sha[:12]}"


def fix_title(remedy: Remedy, repo: str, push: UpstreamPush) -> str:
    return {
        "revert_upstream_commit": f"Revert {push.sha[:12]} in {push.repo}: it broke {repo}",
        "spawn_fix_worker_for_downstream": f"Fix {repo} for {push.sha[:12]} of {push.repo}",
        "coordinate_fix": f"Fix {repo} together with {push.sha[:12]} of {push.repo}",
    }[remedy]


def fix_description(
    remedy: Remedy, question: BreakageQuestion, push: UpstreamPush, log: str
) -> str:
    repo, jobs = question.demand.repo, ", ".join(question.jobs)
    why = {
        "revert_upstream_commit": (
            f"The push touched only {push.repo}, and there are no commits on top of it: revert it. "
            f"Work on {push.repo} can start once the work on {repo} is done or released."
        ),
        "spawn_fix_worker_for_downstream": (
            f"Other work depends on the push or belongs to it: adapt {repo} to it."
        ),
        "coordinate_fix": (
            f"{question.sha[:12]} of {repo} fails without the push as well: both must change to "
            "fit each other."
        ),
    }[remedy]
    return (
        f"{jobs} of {repo} has failed since {push.sha} of {push.repo} (task {push.task_id}). At "
        f"{question.base[:12]} it passes with {push.repo} at {push.before[:12]} and fails with the "
        f"push.\n{why}\n\n{log[-LOG_CHARACTERS_MAX:]}".rstrip()
    )


class Bisection(NamedTuple):
    """Finds the breaking change in as few checks as possible. It works with the first `good`
    changes, and fails with the first `bad` changes."""

    good: int
    bad: int

    @property
    def to_try(self) -> int | None:
        """The number of changes to check next. None if the change number `bad` is the culprit."""
        return None if self.bad - self.good == 1 else (self.good + self.bad) // 2

    def after(self, state: int, *, works: bool) -> Bisection:
        return self._replace(good=state) if works else self._replace(bad=state)
