"""Milestone reports as JSON. `milestone_lines.py` has the same reports as lines of text."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from shiftboss.protocol.ci import JobState
from shiftboss.protocol.fields import NO_NUL, Commit, Request
from shiftboss.protocol.policy import Milestone, RepoName

# How a report starts. BLOCKED_PERMISSION is the milestone BLOCKED with a specific reason.
MilestoneWord = Literal[
    "WORKING", "PUSHED_TO_CI", "FIXING_CI", "DONE", "BLOCKED", "BLOCKED_PERMISSION"
]

WorkingSubstate = Literal[
    "analyzing_requirements",
    "reading_existing_code",
    "writing_new_code",
    "writing_tests",
    "local_verification",
    "preparing_commit",
]
PushedSubstate = Literal["push_complete", "ci_queued", "ci_running", "ci_finishing"]
FixingSubstate = Literal[
    "fetching_logs", "diagnosing", "implementing_fix", "local_test", "preparing_fix_commit"
]


def _on_one_line(text: str) -> str:
    line = " ".join(text.split())
    if not line:
        raise ValueError("must not be empty")
    if line.endswith("]") and " [" in f" {line}":
        raise ValueError("must not end in [...]; use the member for it instead")
    return line


def _before_a_dash(text: str) -> str:
    line = _on_one_line(text)
    if '" - ' in f"{line} - ":
        raise ValueError('must not contain a " before a dash')
    return line


Line = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2000, pattern=NO_NUL),
    AfterValidator(_on_one_line),
]
Name = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=NO_NUL),
    AfterValidator(_before_a_dash),
]
# The value of a suffix such as [job: build], or the name of a sync job.
Label = Annotated[
    str,
    StringConstraints(min_length=1, max_length=200, pattern=r"^[^\[\]\x00]*$"),
    AfterValidator(_on_one_line),
]
# The number that people write as #451, or the address of the run.
CiRunRef = Annotated[
    str,
    StringConstraints(
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99}|https?://[^\s\x00]{0,1000}[^\s\x00,])$"
    ),
]
Count = Annotated[int, Field(ge=0, le=100_000)]
Total = Annotated[int, Field(ge=1, le=100_000)]


def _check_part_of(part: int | None, whole: int | None, names: str) -> None:
    if (part is None) != (whole is None):
        raise ValueError(f"{names} must be given together")
    if part is not None and whole is not None and part > whole:
        raise ValueError(f"{names}: the first must not be more than the second")


class Working(Request):
    milestone: Literal["WORKING"] = "WORKING"
    description: Line
    substate: WorkingSubstate | None = None
    files_modified: Count | None = None
    estimated_files: Total | None = None

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        # A worker may modify more files than it estimated.
        if (self.files_modified is None) != (self.estimated_files is None):
            raise ValueError("files_modified and estimated_files must be given together")
        return self


class PushedToCi(Request):
    milestone: Literal["PUSHED_TO_CI"] = "PUSHED_TO_CI"
    repo: RepoName
    commit: Commit
    ci_run: CiRunRef
    substate: PushedSubstate | None = None
    current_job: Label | None = None
    jobs_passed: Count | None = None
    jobs_total: Total | None = None

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        _check_part_of(self.jobs_passed, self.jobs_total, "jobs_passed and jobs_total")
        return self


class FixingCi(Request):
    """`affected_files` exists only in the JSON form."""

    milestone: Literal["FIXING_CI"] = "FIXING_CI"
    failed_job: Name
    diagnosis: Line
    substate: FixingSubstate | None = None
    error_category: Label | None = None
    affected_files: list[Annotated[str, StringConstraints(max_length=1000, pattern=NO_NUL)]] = (
        Field(default=[], max_length=200)
    )
    attempt: Total | None = None
    max_attempts: Total | None = None

    @model_validator(mode="after")
    def _check_counts(self) -> Self:
        _check_part_of(self.attempt, self.max_attempts, "attempt and max_attempts")
        return self


class Done(Request):
    """A claim. `rules/contract/milestones.py` checks what it must contain, so that one error names
    everything that is missing. `sync_job` is None for "Radicle synced", which names no job."""

    milestone: Literal["DONE"] = "DONE"
    repo: RepoName
    ci_run: CiRunRef | None = None
    all_green: bool | None = None
    sync_job: Label | None = None
    sync_status: JobState | None = None

    @model_validator(mode="after")
    def _check_sync(self) -> Self:
        if self.sync_job is not None and self.sync_status is None:
            raise ValueError("sync_job needs a sync_status")
        if (self.sync_job or "").startswith(("all green", "not all green")):
            raise ValueError("sync_job must be the name of a job")
        if self.sync_job is None and self.sync_status not in (None, "success"):
            raise ValueError("sync_status needs the name of its sync_job")
        return self


class Blocked(Request):
    milestone: Literal["BLOCKED"] = "BLOCKED"
    reason: Line


class BlockedPermission(Request):
    """`operations` are the files and operations attempted; they exist only in the JSON form."""

    milestone: Literal["BLOCKED_PERMISSION"] = "BLOCKED_PERMISSION"
    tool: Name
    error: Line
    operations: list[Annotated[str, StringConstraints(max_length=500, pattern=NO_NUL)]] = Field(
        default=[], max_length=200
    )


MilestoneReport = Annotated[
    Working | PushedToCi | FixingCi | Done | Blocked | BlockedPermission,
    Field(discriminator="milestone"),
]

# The progress of a fix; the contract calls it "diagnosis_complete / fix_applied / verified".
_FIX_PROGRESS: Final[dict[str, str]] = {
    "implementing_fix": "diagnosis complete",
    "local_test": "fix applied",
    "preparing_fix_commit": "verified",
}


def milestone_of_report(report: MilestoneReport) -> Milestone:
    return "BLOCKED" if report.milestone == "BLOCKED_PERMISSION" else report.milestone


def progress_of(report: MilestoneReport) -> str | None:
    """`3/5 files`, `2/6 jobs`, `fix applied`, or None if the report has no progress."""
    if isinstance(report, Working) and report.files_modified is not None:
        return f"{report.files_modified}/{report.estimated_files} files"
    if isinstance(report, PushedToCi) and report.jobs_passed is not None:
        return f"{report.jobs_passed}/{report.jobs_total} jobs"
    if isinstance(report, FixingCi) and report.substate is not None:
        return _FIX_PROGRESS.get(report.substate)
    return None
