"""CI runs as every provider tells of them, and what is asked of them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from shiftboss.protocol.fields import Answer
from shiftboss.protocol.policy import CiPolicy

# The states of a run, and of a job; a job can be skipped as well.
RunState = Literal["waiting", "running", "success", "failure", "cancelled"]
JobState = Literal["waiting", "running", "success", "failure", "cancelled", "skipped"]


class CiJob(Answer):
    """`log_tail` is kept of a job that failed."""

    name: str
    state: JobState
    job_id: str | None = None
    url: str | None = None
    log_tail: str | None = None


class CiRun(Answer):
    """One run for one commit. `run_id` is what people write as `#451`. `moved_at` is when it last
    changed, as its forge says it, while it is under way."""

    run_id: str
    sha: str
    state: RunState
    event: str | None = None
    url: str | None = None
    workflow: str | None = None
    moved_at: str | None = None
    jobs: list[CiJob] = Field(default=[])


class CiDependency(Answer):
    """A repo that another is built on. `commit` None: the tip of its branch."""

    path: str
    branch: str
    commit: str | None = None


class CiDemand(Answer):
    """Which CI has to say what about which commit. `repo_path` is where the commit lies.
    `dependencies` are what the local runner puts beside it, by their names."""

    repo: str
    repo_path: str
    branch: str
    policy: CiPolicy
    dependencies: dict[str, CiDependency] = Field(default={})


class CiReport(Answer):
    """What a provider found for one commit: the newest run of every workflow.

    `complete`: nothing runs or waits any more. `not_before_seconds`: the provider asks to be left
    alone that long. `unchanged`: as at the last look.
    """

    sha: str
    runs: list[CiRun]
    complete: bool
    unchanged: bool = False
    not_before_seconds: float = 0.0
