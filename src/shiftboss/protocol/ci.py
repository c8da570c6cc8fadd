"""CI runs as all providers report them, the question they are asked, and the requests about CI."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shiftboss.protocol.bus import BusRequest, TaskId
from shiftboss.protocol.fields import Answer
from shiftboss.protocol.policy import CiPolicy

# Unlike a run, a job can be skipped.
RunState = Literal["waiting", "running", "success", "failure", "cancelled"]
# Why a webhook makes the server check no commit.
WebhookReason = Literal[
    "repeated", "event_ignored", "no_commit", "other_repository", "not_waiting", "forge_pause"
]
JobState = Literal["waiting", "running", "success", "failure", "cancelled", "skipped"]


class CiJob(Answer):
    """`log_tail` is set for jobs that failed."""

    name: str
    state: JobState
    job_id: str | None = None
    url: str | None = None
    log_tail: str | None = None


class CiRun(Answer):
    """One run for one commit. People write `run_id` as `#451`. While the run is in progress,
    `moved_at` is when it last changed, according to the forge. `branch` is empty for a tag, and
    `#12` for a pull request whose branch the forge does not name."""

    run_id: str
    sha: str
    state: RunState
    event: str | None = None
    branch: str | None = None
    url: str | None = None
    workflow: str | None = None
    moved_at: str | None = None
    jobs: list[CiJob] = Field(default=[])


class CiDependency(Answer):
    """A repo that another repo builds on. Without `commit` it is the tip of the branch."""

    path: str
    branch: str
    commit: str | None = None


class CiDemand(Answer):
    """Which CI must confirm a commit. `repo_path` is the repository that has the commit.
    `dependencies` are the repos, by name, that the local runner checks out next to it."""

    repo: str
    repo_path: str
    branch: str
    policy: CiPolicy
    dependencies: dict[str, CiDependency] = Field(default={})


class CiReport(Answer):
    """The newest run of every workflow for one commit.

    `complete` means that nothing is running or waiting. `unchanged` means that nothing differs from
    the last check. The provider asks for no further request within `not_before_seconds`.
    `not_counted` are the newest runs for other branches and events, without their jobs.
    """

    sha: str
    runs: list[CiRun]
    not_counted: list[CiRun] = Field(default=[])
    complete: bool
    unchanged: bool = False
    not_before_seconds: float = 0.0


class ShowCiRequest(BusRequest):
    bead_id: TaskId


class ShowCiAnswer(Answer):
    """The CI state of the commit that was pushed last. `state` is waiting, running, passed, failed,
    or none if nothing was pushed. A job that failed has the end of its log."""

    bead_id: str
    state: str
    repo: str | None = None
    sha: str | None = None
    run_id: str | None = None
    jobs: list[CiJob] = Field(default=[])


class WebhookAnswer(Answer):
    """`looks` is the number of commits that the webhook makes the server check. If it is 0,
    `reason` and `detail` say why."""

    looks: int
    reason: WebhookReason | None = None
    detail: str | None = None


class CredentialProblem(Answer):
    """A secret that the policy names and the server cannot read. `place` is the variable or the
    file; the secret itself is in no member."""

    kind: str
    place: str
    repos: list[str]
    problem: str
    hint: str
