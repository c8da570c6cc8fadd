"""What a worker gets at the start, and what it gives back at the end."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from shiftboss.protocol.bus import BusRequest, TaskId
from shiftboss.protocol.fields import NO_NUL, Answer, Request
from shiftboss.protocol.milestones import CiRunRef

Text = Annotated[str, StringConstraints(max_length=1_000_000, pattern=NO_NUL)]
FilePath = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=NO_NUL)]
Documents = Annotated[list["ContextDocument"], Field(max_length=1000)]


class ContextDocument(Request):
    path: FilePath
    text: Text


class ContextParts(Request):
    """All that could be handed over. The first five must be there; which others are missing is
    said. `plan` is the text of what `plan_ref` names."""

    objective: Text = ""
    component_id: Text = ""
    repo: Text = ""
    branch_strategy: Text = ""
    plan_ref: Text = ""

    output_format: Text = ""
    task_boundaries: Text = ""
    component_specs: list[FilePath] = Field(default=[], max_length=1000)
    recent_changes: list[Text] = Field(default=[], max_length=100)
    known_issues: list[Text] = Field(default=[], max_length=100)
    parallel_workers: list[Text] = Field(default=[], max_length=1000)

    plan: Text = ""
    code_files: Documents = Field(default=[])
    test_files: Documents = Field(default=[])
    spec_files: Documents = Field(default=[])
    history: Documents = Field(default=[])


class BuildContextRequest(BusRequest):
    """`plan_ref` is a file of the repo at the base. `max_tokens` makes the budget of the policy
    smaller, never larger."""

    bead_id: TaskId
    plan_ref: FilePath | None = None
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None


class ContextAnswer(Answer):
    """`left_out` are the files for which there was no room, `missing` the recommended parts that
    there is nothing to say about."""

    bead_id: str
    text: str
    tokens: int
    included: list[str]
    left_out: list[str]
    missing: list[str]
    model: str | None = None


class CompletionReturn(Request):
    """What a worker returns at completion; `ci_run_id` is the final, passing run."""

    files_created: list[FilePath] = Field(default=[], max_length=10_000)
    files_modified: list[FilePath] = Field(default=[], max_length=10_000)
    tests_added: list[FilePath] = Field(default=[], max_length=10_000)
    ci_run_id: CiRunRef
    summary: Annotated[str, StringConstraints(min_length=1, max_length=5000, pattern=NO_NUL)]
