"""Requests and responses of the completion contract: milestones, repos, failures, halts."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from shiftboss.protocol.bus import BusRequest, Epoch, TaskId, WorkerName
from shiftboss.protocol.contract.milestones import CiRunRef, MilestoneReport
from shiftboss.protocol.fields import INTEGER_MAX, NO_NUL, AbsolutePath, Answer, Request
from shiftboss.protocol.handoff_requests import Reason
from shiftboss.protocol.policy import RepoName

LongText = Annotated[str, StringConstraints(max_length=1_000_000, pattern=NO_NUL)]
FilePath = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=NO_NUL)]
Documents = Annotated[list["ContextDocument"], Field(max_length=1000)]


class ContextDocument(Request):
    path: FilePath
    text: LongText


class ContextParts(Request):
    """Everything that a worker's context can contain. The first five are required; of the others,
    the answer lists the missing ones. `plan` is the text of the file `plan_ref`."""

    objective: LongText = ""
    component_id: LongText = ""
    repo: LongText = ""
    branch_strategy: LongText = ""
    plan_ref: LongText = ""

    output_format: LongText = ""
    task_boundaries: LongText = ""
    component_specs: list[FilePath] = Field(default=[], max_length=1000)
    recent_changes: list[LongText] = Field(default=[], max_length=100)
    known_issues: list[LongText] = Field(default=[], max_length=100)
    parallel_workers: list[LongText] = Field(default=[], max_length=1000)

    plan: LongText = ""
    code_files: Documents = Field(default=[])
    test_files: Documents = Field(default=[])
    spec_files: Documents = Field(default=[])
    history: Documents = Field(default=[])


class BuildContextRequest(BusRequest):
    """`plan_ref` is a file of the repo at the base commit. `max_tokens` can lower the budget of the
    policy, but not raise it."""

    bead_id: TaskId
    plan_ref: FilePath | None = None
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None


class ContextAnswer(Answer):
    """`left_out` are the files that did not fit the budget. `missing` are the recommended parts
    without content."""

    bead_id: str
    text: str
    tokens: int
    included: list[str]
    left_out: list[str]
    missing: list[str]
    model: str | None = None


class CompletionReturn(Request):
    """What a worker returns at completion. `ci_run_id` is the final, passing run."""

    files_created: list[FilePath] = Field(default=[], max_length=10_000)
    files_modified: list[FilePath] = Field(default=[], max_length=10_000)
    tests_added: list[FilePath] = Field(default=[], max_length=10_000)
    ci_run_id: CiRunRef
    summary: Annotated[str, StringConstraints(min_length=1, max_length=5000, pattern=NO_NUL)]


Decision = Annotated[str, StringConstraints(min_length=1, max_length=500, pattern=NO_NUL)]
MilestoneLine = Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=NO_NUL)]


class ReportMilestoneRequest(BusRequest):
    """A milestone, either as a `line` of text or as a `report`. `returns` comes with DONE, or with
    the last push of a worker that leaves before CI has finished. `decisions` are kept in the
    checkpoint, for a worker that continues the task."""

    bead_id: TaskId
    line: MilestoneLine | None = None
    report: MilestoneReport | None = None
    returns: CompletionReturn | None = None
    decisions: list[Decision] = Field(default=[], max_length=50)
    name: WorkerName | None = None
    epoch: Epoch | None = None

    @model_validator(mode="after")
    def _check_line_or_report(self) -> Self:
        if (self.line is None) == (self.report is None):
            raise ValueError("give either line or report")
        return self


class MilestoneAnswer(Answer):
    """`status` is recorded, accepted (with a receipt) or verifying. `ci` is the CI state of the
    tracked commit. `paused` is the reason why the work must wait."""

    bead_id: str
    status: str
    milestone: str | None
    line: str
    state: str
    epoch: int
    progress: str | None = None
    lease_expires_at: int | None = None
    ci: dict[str, Any] | None = None
    paused: str | None = None
    question_id: int | None = None
    receipt_id: str | None = None
    hint: str | None = None


class CanSpawnRequest(BusRequest):
    repo: RepoName


class CanSpawnAnswer(Answer):
    """Each blocker names a repo and the rule by which it blocks."""

    repo: str
    can_spawn: bool
    reason: str | None
    blockers: list[dict[str, Any]]


class ReposRequest(BusRequest):
    pass


class ReposAnswer(Answer):
    """Every repo of the policy with its phase, lock and CI state, and the active halts."""

    repos: list[dict[str, Any]]
    halts: list[dict[str, Any]]


class ReleaseRepoRequest(BusRequest):
    """For the operator only: releases the lock of a repo whose work was not proven done."""

    repo: RepoName
    reason: Reason


class ResumeRequest(BusRequest):
    """For the operator only: lifts a halt."""

    halt_id: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    reason: Reason


class OperatorAnswer(Answer):
    success: bool
    changed: bool


class ReportFailureRequest(BusRequest):
    """Reports a failure. `tool` and `operation` are for permission failures."""

    bead_id: TaskId
    message: Annotated[str, StringConstraints(min_length=1, max_length=20_000, pattern=NO_NUL)]
    error_type: Annotated[str, StringConstraints(max_length=100, pattern=NO_NUL)] | None = None
    tool: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=NO_NUL)] | None = (
        None
    )
    operation: Annotated[str, StringConstraints(max_length=500, pattern=NO_NUL)] | None = None
    name: WorkerName | None = None
    epoch: Epoch | None = None


class FailureAnswer(Answer):
    """`action` is retry, fix, report, escalate, pause, terminate or halt."""

    bead_id: str
    failure_class: str
    action: str
    message: str
    attempts: int
    retry_in_seconds: int | None = None
    question_id: int | None = None
    halt_id: int | None = None


class InstructionsRequest(BusRequest):
    bead_id: TaskId


class InstructionsAnswer(Answer):
    bead_id: str
    text: str


class ShowCheckpointRequest(BusRequest):
    bead_id: TaskId


class CheckpointAnswer(Answer):
    bead_id: str
    checkpoint: dict[str, Any]


PolicyVersion = Annotated[int, Field(ge=1, le=INTEGER_MAX)]


class ShowPolicyRequest(BusRequest):
    """Without a version, the policy in force."""

    version: PolicyVersion | None = None


class PolicyFileView(Answer):
    """The policy file of the server that answers. `changes` is what it would change if it was
    applied; `problem` is why it cannot be."""

    path: str
    problem: str | None = None
    changes: list[str] = Field(default=[])


class PolicyVersionView(Answer):
    """`source` is the file that it came from, on the machine of who applied it."""

    version: int
    applied_at: str | None
    applied_by: str | None
    source: str | None
    sha256: str | None


class PolicyView(PolicyVersionView):
    """`body` is the text of the file; `policy` is what it says, with absolute paths. Version 0 is
    in force where no policy was ever applied. `problem`: a newer version is stored, which the
    server that answers cannot read."""

    is_in_force: bool
    body: str
    policy: dict[str, Any]
    file: PolicyFileView | None = None
    problem: str | None = None


class ListPoliciesRequest(BusRequest):
    """The versions below `before`, the newest first."""

    before: PolicyVersion | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class PolicyList(Answer):
    versions: list[PolicyVersionView]
    next_before: int | None


class ApplyPolicyRequest(BusRequest):
    """For the operator only: puts a policy in force on all servers. Relative paths in `body` start
    at the folder of `source`. With `expected_version`, it is refused if another one is in force;
    0 means none."""

    body: LongText
    source: AbsolutePath
    expected_version: Annotated[int, Field(ge=0, le=INTEGER_MAX)] | None = None


class ApplyPolicyAnswer(Answer):
    """`changes` are lines such as `~ repos.web.branch: main -> trunk`."""

    success: bool
    changed: bool
    version: int
    changes: list[str]
    warnings: list[str]
